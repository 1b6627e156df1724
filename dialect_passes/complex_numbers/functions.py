"""Exponentials, logarithms, powers and trigonometric functions of complex numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .arithmetic import divide, length, multiply
from .rules import Call, Pair, pair_of, rule


def exp(z: Pair) -> Pair:
    """exp(a) (cos b + i sin b); a real number's is real, also where it overflows."""
    import torch

    size = torch.exp(z.re)
    real = z.im == 0
    return Pair(
        torch.where(real, size, size * torch.cos(z.im)), torch.where(real, z.im, size * torch.sin(z.im))
    )


def log(z: Pair) -> Pair:
    """log |z| + i angle."""
    import torch

    return Pair(torch.log(length(z)), torch.atan2(z.im, z.re))


def sqrt(z: Pair) -> Pair:
    """The root in the right half plane (Kahan: by the half of |z| + |a|, which does not cancel)."""
    import torch

    size = length(z)
    root = torch.sqrt(0.5 * size + 0.5 * z.re.abs())
    other = torch.where(root == 0, 0.0, 0.5 * z.im.abs() / root)
    right = z.re >= 0
    re, im = torch.where(right, root, other), torch.where(right, other, root)
    return Pair(re, torch.where(_negative(z.im), -im, im))


def _negative(x: Any) -> Any:
    """Has its sign bit set: also of -0."""
    import torch

    return (x < 0) | ((x == 0) & (1 / x < 0)) if x.dtype.is_floating_point else torch.lt(x, 0)


def _scaled(z: Pair, factor: float) -> Pair:
    return Pair(z.re * factor, z.im * factor)


def _plus(z: Pair, number: float) -> Pair:
    return Pair(z.re + number, z.im)


def _times_i(z: Pair) -> Pair:
    return Pair(-z.im, z.re)


def _by_i(z: Pair) -> Pair:
    return Pair(z.im, -z.re)


def _negated(z: Pair) -> Pair:
    return Pair(-z.re, -z.im)


def sinh(z: Pair) -> Pair:
    """sinh a cos b + i cosh a sin b."""
    import torch

    return Pair(torch.sinh(z.re) * torch.cos(z.im), torch.cosh(z.re) * torch.sin(z.im))


def cosh(z: Pair) -> Pair:
    """cosh a cos b + i sinh a sin b."""
    import torch

    return Pair(torch.cosh(z.re) * torch.cos(z.im), torch.sinh(z.re) * torch.sin(z.im))


def tanh(z: Pair) -> Pair:
    """By t = tan b, s = sinh a, without overflow for large a (DLMF 4.35.36)."""
    import torch

    a = z.re.clamp(-40.0, 40.0)
    sine, cosine = torch.sin(z.im), torch.cos(z.im)
    s = torch.sinh(a)
    size = s * s + cosine * cosine
    return Pair(s * torch.cosh(a) / size, sine * cosine / size)


def asinh(z: Pair) -> Pair:
    """log(z + sqrt(z² + 1)), of z in the right half plane."""
    import torch

    left = _negative(z.re)
    right = Pair(torch.where(left, -z.re, z.re), torch.where(left, -z.im, z.im))
    # sqrt(1 + iz) sqrt(1 - iz) has the root's branch cuts where asinh has its own.
    root = multiply(sqrt(Pair(1 - right.im, right.re)), sqrt(Pair(1 + right.im, -right.re)))
    value = log(Pair(right.re + root.re, right.im + root.im))
    return Pair(torch.where(left, -value.re, value.re), torch.where(left, -value.im, value.im))


def acosh(z: Pair) -> Pair:
    """log(z + sqrt(z + 1) sqrt(z - 1))."""
    root = multiply(sqrt(_plus(z, 1.0)), sqrt(_plus(z, -1.0)))
    return log(Pair(z.re + root.re, z.im + root.im))


def acos(z: Pair) -> Pair:
    """pi/2 - asin z."""
    value = asin(z)
    return Pair(0.5 * math.pi - value.re, -value.im)


def atanh(z: Pair) -> Pair:
    """(log(1 + z) - log(1 - z)) / 2 (DLMF 4.37.24)."""
    above, below = log(_plus(z, 1.0)), log(Pair(1 - z.re, -z.im))
    return Pair(0.5 * (above.re - below.re), 0.5 * (above.im - below.im))


def asin(z: Pair) -> Pair:
    """-i asinh(iz)."""
    return _by_i(asinh(_times_i(z)))


def sigmoid(z: Pair) -> Pair:
    """1 / (1 + exp(-z)), that is (1 + tanh(z / 2)) / 2."""
    return _plus(_scaled(tanh(_scaled(z, 0.5)), 0.5), 0.5)


_FUNCTIONS: dict[str, Callable[[Pair], Pair]] = {
    "exp": exp,
    "exp2": lambda z: exp(_scaled(z, math.log(2))),
    "expm1": lambda z: _plus(exp(z), -1.0),
    "log": log,
    "log2": lambda z: _scaled(log(z), 1 / math.log(2)),
    "log10": lambda z: _scaled(log(z), 1 / math.log(10)),
    "log1p": lambda z: log(_plus(z, 1.0)),
    "sqrt": sqrt,
    "rsqrt": lambda z: divide(_one(z), sqrt(z)),
    "sin": lambda z: _by_i(sinh(_times_i(z))),
    "cos": lambda z: cosh(_times_i(z)),
    "tan": lambda z: _by_i(tanh(_times_i(z))),
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "asin": asin,
    "acos": acos,
    "atan": lambda z: _by_i(atanh(_times_i(z))),
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "sigmoid": sigmoid,
    "silu": lambda z: multiply(z, sigmoid(z)),
}


def _one(z: Pair) -> Pair:
    import torch

    return Pair(torch.ones_like(z.re), torch.zeros_like(z.im))


def _register(name: str, function: Callable[[Pair], Pair]) -> None:
    rule(f"aten.{name}")(lambda call, z: function(pair_of(z, call)))


for _name, _function in _FUNCTIONS.items():
    _register(_name, _function)


@rule("aten.pow", "aten.float_power")
def pow(call: Call, base: Any, exponent: Any) -> Pair:
    """exp(w log z); small integers by products, and zero to the power of zero is one."""
    import torch

    z = pair_of(base, call)
    if isinstance(exponent, (int, float)) and abs(exponent) <= 16 and exponent == int(exponent):
        power = _integer_power(z, int(abs(exponent)))
        return power if exponent >= 0 else divide(_one(power), power)
    if isinstance(exponent, float) and exponent == 0.5:
        return sqrt(z)
    w = pair_of(exponent, call)
    value = exp(multiply(w, log(z)))
    zero = (z.re == 0) & (z.im == 0)
    never = (w.re == 0) & (w.im == 0)
    at_zero = torch.where(w.re > 0, 0.0, torch.where(never, 1.0, math.nan))
    re = torch.where(zero, at_zero, torch.where(never, 1.0, value.re))
    im = torch.where(zero | never, torch.where(zero & (w.re <= 0) & ~never, math.nan, 0.0), value.im)
    return Pair(re, im)


def _integer_power(z: Pair, exponent: int) -> Pair:
    power = _one(z)
    while exponent:
        if exponent & 1:
            power = multiply(power, z)
        z, exponent = multiply(z, z), exponent >> 1
    return power


@rule("aten.logaddexp")
def logaddexp(call: Call, a: Any, b: Any) -> Pair:
    """The argument with the larger real part, and log(1 + exp(their difference)): as eager, without wrapping angles."""
    import torch

    x, y = pair_of(a, call), pair_of(b, call)
    swap = x.re < y.re
    top = Pair(torch.where(swap, y.re, x.re), torch.where(swap, y.im, x.im))
    low = Pair(torch.where(swap, x.re, y.re), torch.where(swap, x.im, y.im))
    rest = log(_plus(exp(Pair(low.re - top.re, low.im - top.im)), 1.0))
    return Pair(top.re + rest.re, top.im + rest.im)

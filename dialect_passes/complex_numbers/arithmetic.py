"""Sums, products, quotients and parts of complex numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .rules import Call, Pair, pair_of, rule

if TYPE_CHECKING:
    from torch import Tensor


def multiply(a: Pair, b: Pair) -> Pair:
    """a b."""
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def divide(a: Pair, b: Pair) -> Pair:
    """a / b, with the divisor scaled so that its square neither over- nor underflows."""
    import torch

    scale = torch.maximum(b.re.abs(), b.im.abs())
    # Zero and infinity stay what they are: a quotient by them is infinite, zero or NaN as eager's.
    safe = torch.where((scale == 0) | torch.isinf(scale), 1.0, scale)
    c, d = b.re / safe, b.im / safe
    size = (c * c + d * d) * safe
    return Pair((a.re * c + a.im * d) / size, (a.im * c - a.re * d) / size)


def length(z: Pair) -> Tensor:
    """|z|, without overflow in the squares."""
    import torch

    a, b = z.re.abs(), z.im.abs()
    longer, shorter = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where((longer == 0) | torch.isinf(longer), 0.0, shorter / longer)
    value = longer * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(a) | torch.isinf(b), math.inf, value)


@rule("aten.add")
def add(call: Call, a: Any, b: Any, *, alpha: Any = 1) -> Pair:
    """a + alpha b."""
    x, y = pair_of(a, call), pair_of(b, call)
    if alpha != 1:
        y = multiply(y, pair_of(alpha, call))
    return Pair(x.re + y.re, x.im + y.im)


@rule("aten.sub")
def sub(call: Call, a: Any, b: Any, *, alpha: Any = 1) -> Pair:
    """a - alpha b."""
    x, y = pair_of(a, call), pair_of(b, call)
    if alpha != 1:
        y = multiply(y, pair_of(alpha, call))
    return Pair(x.re - y.re, x.im - y.im)


@rule("aten.rsub")
def rsub(call: Call, a: Any, b: Any, alpha: Any = 1) -> Pair:
    """b - alpha a."""
    return sub(call, b, a, alpha=alpha)


@rule("aten.mul")
def mul(call: Call, a: Any, b: Any) -> Pair:
    """a b."""
    return multiply(pair_of(a, call), pair_of(b, call))


@rule("aten.div", "aten.true_divide")
def div(call: Call, a: Any, b: Any) -> Pair:
    """a / b."""
    return divide(pair_of(a, call), pair_of(b, call))


@rule("aten.reciprocal")
def reciprocal(call: Call, z: Pair) -> Pair:
    """1 / z."""
    return divide(pair_of(1, call), z)


@rule("aten.square")
def square(call: Call, z: Pair) -> Pair:
    """z z."""
    return multiply(z, z)


@rule("aten.addcmul")
def addcmul(call: Call, x: Any, a: Any, b: Any, *, value: Any = 1) -> Pair:
    """x + value a b."""
    product = multiply(multiply(pair_of(value, call), pair_of(a, call)), pair_of(b, call))
    return add(call, x, product)


@rule("aten.addcdiv")
def addcdiv(call: Call, x: Any, a: Any, b: Any, *, value: Any = 1) -> Pair:
    """x + value a / b."""
    quotient = divide(multiply(pair_of(value, call), pair_of(a, call)), pair_of(b, call))
    return add(call, x, quotient)


@rule("aten._conj", "aten._conj_physical", "aten.conj", "aten.conj_physical")
def conj(call: Call, z: Pair) -> Pair:
    """The conjugate."""
    return Pair(z.re, -z.im)


@rule("aten.real")
def real(call: Call, z: Pair) -> Tensor:
    """The real part."""
    return z.re.clone()


@rule("aten.imag")
def imag(call: Call, z: Pair) -> Tensor:
    """The imaginary part."""
    return z.im.clone()


@rule("aten.view_as_real", "aten.view_as_real_copy")
def view_as_real(call: Call, z: Pair) -> Tensor:
    """The parts along a new last dimension."""
    import torch

    return torch.stack([z.re, z.im], -1)


@rule("aten.view_as_complex", "aten.view_as_complex_copy")
def view_as_complex(call: Call, x: Tensor) -> Pair:
    """From the parts along the last dimension."""
    return Pair(x.select(-1, 0), x.select(-1, 1))


@rule("aten.complex")
def from_parts(call: Call, re: Tensor, im: Tensor) -> Pair:
    """From two real tensors, which broadcast."""
    import torch

    re, im = torch.broadcast_tensors(re, im)
    return Pair(re, im)


@rule("aten.polar")
def polar(call: Call, size: Tensor, angle: Tensor) -> Pair:
    """From length and angle."""
    import torch

    return Pair(size * torch.cos(angle), size * torch.sin(angle))


@rule("aten.abs", "prims.abs")
def absolute(call: Call, z: Pair) -> Tensor:
    """The length."""
    return length(z)


@rule("aten.angle")
def angle(call: Call, z: Pair) -> Tensor:
    """The angle to the positive real axis."""
    import torch

    return torch.atan2(z.im, z.re)


@rule("aten.sgn", "aten.sign")
def sgn(call: Call, z: Pair) -> Pair:
    """z / |z|, zero for zero."""
    import torch

    size = length(z)
    zero = size == 0
    safe = torch.where(zero, 1.0, size)
    return Pair(torch.where(zero, 0.0, z.re / safe), torch.where(zero, 0.0, z.im / safe))


def _common(a: Any, b: Any) -> tuple[Pair, Pair]:
    import torch

    parts: list[Any] = [
        x.re if isinstance(x, Pair) else x.real if isinstance(x, complex) else x for x in (a, b)
    ]
    dtype = torch.result_type(parts[0], parts[1])
    if not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    call = Call(None, dtype)
    return pair_of(a, call), pair_of(b, call)


@rule("aten.eq")
def eq(call: Call, a: Any, b: Any) -> Tensor:
    """Both parts are equal."""
    x, y = _common(a, b)
    return (x.re == y.re) & (x.im == y.im)


@rule("aten.ne")
def ne(call: Call, a: Any, b: Any) -> Tensor:
    """Some part differs."""
    x, y = _common(a, b)
    return (x.re != y.re) | (x.im != y.im)


@rule("aten.isnan")
def isnan(call: Call, z: Pair) -> Tensor:
    """Some part is NaN."""
    import torch

    return torch.isnan(z.re) | torch.isnan(z.im)


@rule("aten.isinf")
def isinf(call: Call, z: Pair) -> Tensor:
    """Some part is infinite."""
    import torch

    return torch.isinf(z.re) | torch.isinf(z.im)


def truth(z: Any) -> Any:
    """A pair as booleans."""
    return (z.re != 0) | (z.im != 0) if isinstance(z, Pair) else z


@rule(
    "aten.logical_not",
    "aten.logical_and",
    "aten.logical_or",
    "aten.logical_xor",
    "aten.any",
    "aten.all",
    "aten.nonzero",
    "aten.nonzero_static",
    "aten.count_nonzero",
    "aten.argwhere",
)
def of_truth(call: Call, *args: Any, **kwargs: Any) -> Any:
    """Operators that see only what is zero."""
    return call.target(*map(truth, args), **kwargs)

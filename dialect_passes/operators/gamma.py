"""The gamma function's relatives: lgamma, digamma, polygamma, zeta."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from .registry import decomposes
from .series import decomposes_float, polynomial, sin_pi
from .whole import made_ready, ready

if TYPE_CHECKING:
    from torch import Tensor

# B(2k) / (2k (2k - 1)), k = 7 .. 1: Stirling's series of lgamma (DLMF 5.11.1).
STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)

# B(2k) / (2k), k = 7 .. 1: the asymptotic series of digamma (DLMF 5.11.2).
_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)

# B(2k), k = 1 .. 12.
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
    854513 / 138,
    -236364091 / 2730,
)

SHIFT = 8

_InversePower = Callable[["Tensor", "Tensor"], "Tensor"]
"""Of a base and an exponent."""


def _lgamma_positive(x: Tensor) -> Tensor:
    """Stirling's series, of arguments below 8 after a shift by 8."""
    import torch

    small = x < SHIFT
    shifted = torch.where(small, x + SHIFT, x)
    near = x.clamp(max=float(SHIFT))
    product = near
    for k in range(1, SHIFT):
        product = product * (near + k)
    inverse = 1 / shifted
    series = inverse * polynomial(inverse * inverse, STIRLING)
    value = (shifted - 0.5) * (torch.log(shifted) - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    return value - torch.where(small, torch.log(product), 0.0)


@decomposes_float("aten.lgamma.default", "aten.special_gammaln.default")
def lgamma(x: Tensor) -> Tensor:
    """log |gamma(x)|; of negative x by reflection (DLMF 5.5.3)."""
    import torch

    right = _lgamma_positive(torch.where(x < 0.5, 1 - x, x))
    left = math.log(math.pi) - torch.log(sin_pi(x).abs()) - right
    pole = ((x <= 0) & (torch.floor(x) == x)) | torch.isinf(x)
    return torch.where(pole, math.inf, torch.where(x < 0.5, left, right))


@decomposes_float("aten.digamma.default", "aten.special_digamma.default")
def digamma(x: Tensor) -> Tensor:
    """The derivative of lgamma; of negative x by reflection (DLMF 5.5.4)."""
    import torch

    positive = torch.where(x < 0, 1 - x, x)
    small = positive < SHIFT
    shift = sum((1 / (positive + k) for k in range(1, SHIFT)), start=1 / positive)
    y = torch.where(small, positive + SHIFT, positive)
    inverse = 1 / y
    square = inverse * inverse
    value = torch.log(y) - 0.5 * inverse - square * polynomial(square, _DIGAMMA)
    value = value - torch.where(small, shift, 0.0)
    rest = math.pi * (x - torch.trunc(x))
    reflected = value - math.pi * torch.cos(rest) / torch.sin(rest)
    value = torch.where(x < 0, torch.where(rest == 0, math.nan, reflected), value)
    return torch.where(x == 0, -1 / x, value)


@decomposes("aten.igamma.default")
def igamma(a: Tensor, x: Tensor) -> Tensor:
    """The lower incomplete gamma function, a loop of our own (`scalars.incomplete_gamma`)."""
    import torch

    return _of_two_floats(torch.igamma, a, x)


@decomposes("aten.igammac.default")
def igammac(a: Tensor, x: Tensor) -> Tensor:
    """The upper incomplete gamma function."""
    import torch

    return _of_two_floats(torch.igammac, a, x)


def _of_two_floats(function: Callable[..., Tensor], a: Tensor, x: Tensor) -> Tensor:
    """In f32 at least."""
    import torch

    dtype = torch.result_type(a, x)
    compute = torch.promote_types(dtype, torch.float32)
    return NotImplemented if ready(a, x, compute) else function(*made_ready(a, x, compute)).to(dtype)


@decomposes("aten.special_psi.default")
def psi(x: Tensor) -> Tensor:
    """digamma."""
    import torch

    return torch.digamma(x)


@decomposes("aten.polygamma.default", "aten.special_polygamma.default")
def polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x) (DLMF 25.11.12).

    The first as eager computes it, whose values at the poles are large instead of infinite.
    """
    import torch
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    if n == 0:
        return torch.digamma(x)
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
    compute, result = elementwise_dtypes(x, type_promotion_kind=kind)
    x = x.to(compute)
    if n == 1:
        return _trigamma(x).to(result)
    sign = 1.0 if n % 2 else -1.0
    value = _zeta(torch.scalar_tensor(n + 1, dtype=compute), x, lambda base, _: _inverse_power(base, n + 1))
    return (sign * math.factorial(n) * value).to(result)


def _inverse_power(base: Tensor, exponent: int) -> Tensor:
    """base ** -exponent by squaring, which loses less than exp(-exponent log(base))."""
    power, square = None, 1 / base
    while exponent:
        if exponent & 1:
            power = square if power is None else power * square
        square, exponent = square * square, exponent >> 1
    assert power is not None
    return power


def _trigamma(x: Tensor) -> Tensor:
    """Six steps of the recurrence, then the asymptotic series (DLMF 5.15.8); left of 1/2 by reflection."""
    import torch

    left = x < 0.5
    sine = torch.sin(math.pi * x)
    y = torch.where(left, 1 - x, x)
    value = torch.zeros_like(x)
    for _ in range(6):
        value = value + 1 / (y * y)
        y = y + 1
    square = 1 / (y * y)
    value = value + (1 + 0.5 / y + square * (1 / 6 - square * (1 / 30 - square * (1 / 42)))) / y
    return torch.where(left, math.pi**2 / (sine * sine) - value, value)


@decomposes_float(
    "aten.special_zeta.default", "aten.special_zeta.self_scalar", "aten.special_zeta.other_scalar"
)
def zeta(x: Tensor, q: Tensor) -> Tensor:
    """Hurwitz' zeta function, the sum of (k + q)^-x over k = 0, 1, ..."""
    import torch

    value = _zeta(x, q, lambda base, s: torch.pow(base, -s))
    value = torch.where((q <= 0) & (torch.floor(x) != x), math.nan, value)
    value = torch.where((q <= 0) & (torch.floor(q) == q), math.inf, value)
    return torch.where(x == 1, math.inf, torch.where(x < 1, math.nan, value))


def _zeta(x: Tensor, q: Tensor, inverse_power: _InversePower) -> Tensor:
    """With the nearest integer -m taken off a small or negative q = d - m, the terms on both sides of it are two sums.

    zeta(x, q) = d^-x + zeta(x, 1 + d) + (-1)^x (zeta(x, 1 - d) - zeta(x, 1 - q))
    """
    import torch

    x, q = torch.broadcast_tensors(x, q)
    small = q < 0.5
    m = -torch.round(q.clamp(max=0.0))
    d = torch.where(small, q + m, 0.0)
    # Three sums at once, along a dimension of their own: one after the other they take IREE minutes.
    sums = _zeta_positive(x, torch.stack([torch.where(small, 1 + d, q), 1 - d, 1 - d + m], -1), inverse_power)
    right, left, beyond = sums.unbind(-1)
    odd = torch.remainder(x, 2.0) != 0
    nearest = inverse_power(torch.where(small, d, 1.0).abs(), x)
    nearest = torch.where(odd & (d < 0), -nearest, nearest)
    both = torch.where(m == 0, 0.0, torch.where(odd, beyond - left, left - beyond))
    return torch.where(small, nearest + right + both, right)


def _zeta_positive(x: Tensor, q: Tensor, inverse_power: _InversePower) -> Tensor:
    """Euler and Maclaurin's formula after ten terms (DLMF 2.10.1), for every q of the last dimension."""
    import torch

    direct = 10
    bases = q.unsqueeze(-1) + torch.arange(direct, dtype=q.dtype)
    powers = inverse_power(bases, x.unsqueeze(-1).unsqueeze(-1))
    power, w, x = powers.select(-1, direct - 1), q + (direct - 1), x.unsqueeze(-1)
    value = powers.sum(-1) + power * w / (x - 1) - 0.5 * power
    terms = 12 if q.dtype == torch.float64 else 6
    factor, inverse_square = power / w * x, 1 / (w * w)
    for k in range(1, terms + 1):
        if k > 1:
            factor = factor * (x + (2 * k - 3)) * (x + (2 * k - 2)) * inverse_square
        value = value + factor * (_BERNOULLI[k - 1] / math.factorial(2 * k))
    return value

"""Bessel functions and Airy's, as Cephes divides and approximates them.

j0.c, j1.c: rational functions of x² up to 5, and Hankel's expansion beyond. i0.c, i1.c, k0.c, k1.c: Chebyshev sums in
x (up to 8, or 2) and in 1/x. airy.c: power series about zero, exponential and oscillating expansions beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import cephes
from .series import chebyshev, decomposes_float, polynomial, rational

if TYPE_CHECKING:
    from torch import Tensor

_TWO_BY_PI = 2 / math.pi


def _hankel(x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """(J, Y) of order 0 or 1 for x beyond 5."""
    import torch

    tables = _HANKEL[order]
    inverse = 5.0 / x
    square = inverse * inverse
    p = rational(square, tables[0], tables[1])
    q = inverse * rational(square, tables[2], tables[3])
    angle = x - (0.25 + 0.5 * order) * math.pi
    sine, cosine, size = torch.sin(angle), torch.cos(angle), math.sqrt(_TWO_BY_PI) / torch.sqrt(x)
    return size * (p * cosine - q * sine), size * (p * sine + q * cosine)


_HANKEL = (
    (cephes.BESSEL_0_PP, cephes.BESSEL_0_PQ, cephes.BESSEL_0_QP, cephes.BESSEL_0_QQ),
    (cephes.BESSEL_1_PP, cephes.BESSEL_1_PQ, cephes.BESSEL_1_QP, cephes.BESSEL_1_QQ),
)


def _with_zeros(square: Tensor, zeros: Sequence[float], p: Sequence[float], q: Sequence[float]) -> Tensor:
    """A rational function of x² times its factors at the first two zeros of the Bessel function."""
    return (square - zeros[0]) * (square - zeros[1]) * rational(square, p, q)


def _j0_near(x: Tensor) -> Tensor:
    zeros = (5.78318596294678452118, 30.4712623436620863991)
    return _with_zeros(x * x, zeros, cephes.BESSEL_J0_RP, cephes.BESSEL_J0_RQ)


def _j1_near(x: Tensor) -> Tensor:
    zeros = (14.6819706421238932572, 49.2184563216946036703)
    return x * _with_zeros(x * x, zeros, cephes.BESSEL_J1_RP, cephes.BESSEL_J1_RQ)


@decomposes_float("aten.special_bessel_j0.default")
def bessel_j0(x: Tensor) -> Tensor:
    """Of the first kind, order 0."""
    import torch

    size = x.abs()
    far, _ = _hankel(size.clamp(min=5.0), 0)
    return torch.where(size <= 5, _j0_near(size.clamp(max=5.0)), far)


@decomposes_float("aten.special_bessel_j1.default")
def bessel_j1(x: Tensor) -> Tensor:
    """Of the first kind, order 1, odd."""
    import torch

    size = x.abs()
    far, _ = _hankel(size.clamp(min=5.0), 1)
    return torch.where(size <= 5, _j1_near(x.clamp(-5.0, 5.0)), torch.where(x < 0, -far, far))


@decomposes_float("aten.special_bessel_y0.default")
def bessel_y0(x: Tensor) -> Tensor:
    """Of the second kind, order 0."""
    import torch

    near = x.clamp(max=5.0)
    value = rational(near * near, cephes.BESSEL_Y0_YP, cephes.BESSEL_Y0_YQ)
    value = value + _TWO_BY_PI * torch.log(near) * _j0_near(near)
    _, far = _hankel(x.clamp(min=5.0), 0)
    return torch.where(x <= 5, value, far)


@decomposes_float("aten.special_bessel_y1.default")
def bessel_y1(x: Tensor) -> Tensor:
    """Of the second kind, order 1."""
    import torch

    near = x.clamp(max=5.0)
    value = near * rational(near * near, cephes.BESSEL_Y1_YP, cephes.BESSEL_Y1_YQ)
    value = value + _TWO_BY_PI * (_j1_near(near) * torch.log(near) - 1 / near)
    _, far = _hankel(x.clamp(min=5.0), 1)
    return torch.where(x == 0, -math.inf, torch.where(x <= 5, value, far))


@decomposes_float("aten.special_spherical_bessel_j0.default")
def spherical_bessel_j0(x: Tensor) -> Tensor:
    """sin(x) / x."""
    import torch

    square = x * x
    near = polynomial(square, [(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)])
    value = torch.where(x.abs() < 0.5, near, torch.sin(x) / x)
    return torch.where(torch.isinf(x), 0.0, value)


def _scaled_i0(size: Tensor) -> Tensor:
    """exp(-x) I0(x) for x >= 0."""
    import torch

    near = chebyshev(size.clamp(max=8.0) / 2 - 2, cephes.BESSEL_I0_NEAR)
    far = chebyshev(32 / size.clamp(min=8.0) - 2, cephes.BESSEL_I0_FAR) / torch.sqrt(size)
    return torch.where(size <= 8, near, far)


def _scaled_i1(size: Tensor) -> Tensor:
    """exp(-x) I1(x) for x >= 0."""
    import torch

    near = size * chebyshev(size.clamp(max=8.0) / 2 - 2, cephes.BESSEL_I1_NEAR)
    far = chebyshev(32 / size.clamp(min=8.0) - 2, cephes.BESSEL_I1_FAR) / torch.sqrt(size)
    return torch.where(size <= 8, near, far)


@decomposes_float("aten.i0.default", "aten.special_i0.default", "aten.special_modified_bessel_i0.default")
def i0(x: Tensor) -> Tensor:
    """Modified, of the first kind, order 0."""
    import torch

    return torch.exp(x.abs()) * _scaled_i0(x.abs())


@decomposes_float("aten.special_i0e.default")
def i0e(x: Tensor) -> Tensor:
    """exp(-|x|) I0(x)."""
    return _scaled_i0(x.abs())


@decomposes_float("aten.special_i1.default", "aten.special_modified_bessel_i1.default")
def i1(x: Tensor) -> Tensor:
    """Modified, of the first kind, order 1, odd."""
    import torch

    value = torch.exp(x.abs()) * _scaled_i1(x.abs())
    return torch.where(x < 0, -value, value)


@decomposes_float("aten.special_i1e.default")
def i1e(x: Tensor) -> Tensor:
    """exp(-|x|) I1(x)."""
    import torch

    value = _scaled_i1(x.abs())
    return torch.where(x < 0, -value, value)


def _k0(x: Tensor) -> tuple[Tensor, Tensor]:
    """K0(x) up to 2, and exp(x) K0(x) beyond."""
    import torch

    small = x.clamp(max=2.0)
    near = chebyshev(small * small - 2, cephes.BESSEL_K0_NEAR) - torch.log(0.5 * small) * i0(small)
    large = x.clamp(min=2.0)
    return near, chebyshev(8 / large - 2, cephes.BESSEL_K0_FAR) / torch.sqrt(large)


def _k1(x: Tensor) -> tuple[Tensor, Tensor]:
    """K1(x) up to 2, and exp(x) K1(x) beyond."""
    import torch

    small = x.clamp(max=2.0)
    near = torch.log(0.5 * small) * i1(small) + chebyshev(small * small - 2, cephes.BESSEL_K1_NEAR) / small
    large = x.clamp(min=2.0)
    far = chebyshev(8 / large - 2, cephes.BESSEL_K1_FAR) / torch.sqrt(large)
    return torch.where(x == 0, math.inf, near), far


@decomposes_float("aten.special_modified_bessel_k0.default")
def modified_bessel_k0(x: Tensor) -> Tensor:
    """Modified, of the second kind, order 0."""
    import torch

    near, far = _k0(x)
    return torch.where(x <= 2, near, torch.exp(-x) * far)


@decomposes_float("aten.special_modified_bessel_k1.default")
def modified_bessel_k1(x: Tensor) -> Tensor:
    """Modified, of the second kind, order 1."""
    import torch

    near, far = _k1(x)
    return torch.where(x <= 2, near, torch.exp(-x) * far)


@decomposes_float("aten.special_scaled_modified_bessel_k0.default")
def scaled_modified_bessel_k0(x: Tensor) -> Tensor:
    """exp(x) K0(x)."""
    import torch

    near, far = _k0(x)
    return torch.where(x <= 2, near * torch.exp(x), far)


@decomposes_float("aten.special_scaled_modified_bessel_k1.default")
def scaled_modified_bessel_k1(x: Tensor) -> Tensor:
    """exp(x) K1(x)."""
    import torch

    near, far = _k1(x)
    return torch.where(x <= 2, near * torch.exp(x), far)


def _airy_series(start: int) -> list[float]:
    """Coefficients of x^(3k + start - 2) in Airy's two series (DLMF 9.4.1), highest first: start is 2 or 3."""
    coefficients = [1.0]
    for k in range(1, 19):
        n = 3 * k + start - 3
        coefficients.append(coefficients[-1] / (n * (n + 1)))
    return coefficients[::-1]


def _airy_near(x: Tensor) -> Tensor:
    cube = x * x * x
    f = polynomial(cube, _airy_series(2))
    g = polynomial(cube, _airy_series(3))
    value = 0.355028053887817239260 * f - 0.258819403792806798405 * x * g
    assert not isinstance(value, float)
    return value


def _airy_right(x: Tensor) -> Tensor:
    import torch

    zeta = 2 * x * torch.sqrt(x) / 3
    value = rational(1 / zeta, cephes.AIRY_NUMERATOR, cephes.AIRY_DENOMINATOR)
    return 0.5 / math.sqrt(math.pi) * value / (torch.sqrt(torch.sqrt(x)) * torch.exp(zeta))


def _airy_left(size: Tensor) -> Tensor:
    import torch

    zeta = 2 * size * torch.sqrt(size) / 3
    z = 1 / zeta
    square = z * z
    f = 1 + square * rational(square, cephes.AIRY_F_NUMERATOR, cephes.AIRY_F_DENOMINATOR)
    g = z * rational(square, cephes.AIRY_G_NUMERATOR, cephes.AIRY_G_DENOMINATOR)
    angle = zeta + 0.25 * math.pi
    wave = torch.sin(angle) * f - torch.cos(angle) * g
    return wave / (math.sqrt(math.pi) * torch.sqrt(torch.sqrt(size)))


@decomposes_float("aten.special_airy_ai.default")
def airy_ai(x: Tensor) -> Tensor:
    """Airy's function Ai; NaN at the infinities, as in eager."""
    import torch

    edge = 2.09
    value = torch.where(x >= edge, _airy_right(x.clamp(edge, 104.0)), _airy_near(x.clamp(-edge, edge)))
    value = torch.where(x < -edge, _airy_left((-x).clamp(min=edge)), value)
    return torch.where(torch.isinf(x), math.nan, torch.where(x > 103.892, 0.0, value))

"""The error function, its relatives and inverses.

Rational approximations of Cephes' ndtr.c and ndtri.c: erf(x) = x T(x²)/U(x²) up to 1, and beyond it
erfc(x) = exp(-x²) P(x)/Q(x) up to 8, exp(-x²) R(x)/S(x) from there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from . import cephes
from .registry import decomposes
from .series import decomposes_float, rational

if TYPE_CHECKING:
    from torch import Tensor


def _near_zero(x: Tensor) -> Tensor:
    """erf for arguments up to 1."""
    return x * rational(x * x, cephes.ERF_T, cephes.ERF_U)


def _scaled_tail(x: Tensor) -> Tensor:
    """exp(x²) erfc(x) for arguments from 1 on. Beyond 8 in 1/x, where powers of x would overflow."""
    import torch

    inverse = 1 / x
    middle = rational(x.clamp(max=8.0), cephes.ERFC_P, cephes.ERFC_Q)
    far = inverse * rational(inverse, cephes.ERFC_R[::-1], cephes.ERFC_S[::-1])
    return torch.where(x < 8, middle, far)


@decomposes("aten.erf.default")
def erf(x: Tensor) -> Tensor:
    """In f64 only: IREE calls a C function for it that its executables do not hold."""
    import torch

    if x.dtype != torch.float64:
        return NotImplemented
    return erf_by_parts(x)


def erf_by_parts(x: Tensor) -> Tensor:
    """erf, of any float type."""
    import torch

    size = x.abs()
    tail = 1 - torch.exp(-size * size) * _scaled_tail(size.clamp(min=1.0))
    return torch.where(size < 1, _near_zero(x.clamp(-1.0, 1.0)), torch.where(x < 0, -tail, tail))


@decomposes_float("aten.erfc.default", "aten.special_erfc.default")
def erfc(x: Tensor) -> Tensor:
    """1 - erf(x), without its cancellation for large x."""
    import torch

    size = x.abs()
    tail = torch.exp(-size * size) * _scaled_tail(size.clamp(min=1.0))
    return torch.where(size < 1, 1 - _near_zero(x.clamp(-1.0, 1.0)), torch.where(x < 0, 2 - tail, tail))


@decomposes_float("aten.special_erfcx.default")
def erfcx(x: Tensor) -> Tensor:
    """exp(x²) erfc(x): of negative x by 2 exp(x²) - erfcx(-x)."""
    import torch

    size = x.abs()
    growth = torch.exp(x * x)
    right = torch.where(
        size < 1, growth * (1 - _near_zero(size.clamp(max=1.0))), _scaled_tail(size.clamp(min=1.0))
    )
    return torch.where(x < 0, 2 * growth - right, right)


def _quantile_tail(p: Tensor) -> Tensor:
    """-ndtri(p) for p up to exp(-2)."""
    import torch

    z = torch.sqrt(-2 * torch.log(p))
    inverse = 1 / z
    near = rational(inverse, cephes.NDTRI_P1, cephes.NDTRI_Q1)
    far = rational(inverse, cephes.NDTRI_P2, cephes.NDTRI_Q2)
    return z - torch.log(z) / z - inverse * torch.where(z < 8, near, far)


def _quantile_center(y: Tensor) -> Tensor:
    """ndtri(1/2 + y) for y up to 1/2 - exp(-2)."""
    square = y * y
    return math.sqrt(2 * math.pi) * (y + y * square * rational(square, cephes.NDTRI_P0, cephes.NDTRI_Q0))


_TAIL = math.exp(-2)


def _quantile(center: Tensor, tail: Tensor, upper: Tensor) -> Tensor:
    """ndtri, by the distance from 1/2 and from the nearer end, which some argument gives without cancellation."""
    import torch

    end = _quantile_tail(tail.clamp(max=_TAIL))
    end = torch.where(tail == 0, math.inf, end)
    inside = torch.where(tail > _TAIL, _quantile_center(center), torch.where(upper, end, -end))
    return torch.where(tail >= 0, inside, math.nan)


@decomposes_float("aten.special_ndtri.default")
def ndtri(p: Tensor) -> Tensor:
    """The quantile function of the normal distribution."""
    import torch

    return _quantile(p - 0.5, torch.minimum(p, 1 - p), p > 0.5)


@decomposes_float("aten.erfinv.default", "aten.special_erfinv.default")
def erfinv(y: Tensor) -> Tensor:
    """ndtri((1 + y) / 2) / sqrt(2)."""
    return math.sqrt(0.5) * _quantile(0.5 * y, 0.5 * (1 - y.abs()), y > 0)


@decomposes_float("aten.special_log_ndtr.default")
def log_ndtr(x: Tensor) -> Tensor:
    """log of the normal distribution function; by erfcx where that underflows."""
    import torch

    t = x * math.sqrt(0.5)
    left = torch.log(erfcx(-t) / 2) - t * t
    return torch.where(x < -1, left, torch.log1p(-erfc(t) / 2))


@decomposes("aten.special_entr.default")
def entr(x: Tensor) -> Tensor:
    """-x log x, rounded after each step as eager does; torch's own decomposition of half precision gives f32."""
    import torch

    if not x.is_floating_point():
        x = x.to(torch.get_default_dtype())
    nothing = torch.where(x == 0, 0.0, -math.inf).to(x.dtype)
    return torch.where(torch.isnan(x), x, torch.where(x > 0, -x * torch.log(x), nothing))

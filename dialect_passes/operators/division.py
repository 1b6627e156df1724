"""Rounding division and remainders of floats, exactly as eager rounds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.div.Tensor_mode")
def div_mode(a: Tensor, b: Tensor, rounding_mode: str | None = None) -> Tensor:
    """Quotient rounded towards zero or down; for floats by way of the remainder (1 // 0.1 is 9)."""
    return _floor_divide(a, b) if rounding_mode == "floor" else NotImplemented


@decomposes("aten.div.Scalar_mode")
def div_scalar_mode(a: Tensor, b: float, rounding_mode: str | None = None) -> Tensor:
    """The same by a number."""
    return _floor_divide(a, b) if rounding_mode == "floor" else NotImplemented


@decomposes("aten.floor_divide.default")
def floor_divide(a: Tensor, b: Tensor) -> Tensor:
    """Quotient rounded down."""
    return _floor_divide(a, b)


@decomposes("aten.floor_divide.Scalar")
def floor_divide_scalar(a: Tensor, b: float) -> Tensor:
    """Quotient rounded down."""
    return _floor_divide(a, b)


def _floor_divide(a: Tensor, b: Any) -> Tensor:
    import torch

    dtype = torch.result_type(a, b)
    if not dtype.is_floating_point:
        return NotImplemented
    a = a.to(dtype)
    b = b.to(dtype) if isinstance(b, torch.Tensor) else torch.full((), b, dtype=dtype, device=a.device)
    remainder = torch.fmod(a, b)
    quotient = (a - remainder) / b
    quotient = torch.where((remainder != 0) & ((b < 0) != (remainder < 0)), quotient - 1, quotient)
    floor = torch.floor(quotient)
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
    floor = torch.where(quotient != 0, floor, a / b * 0)
    return torch.where(b == 0, a / b, floor)


@decomposes("aten.isclose.default")
def isclose(a: Tensor, b: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """|a - b| <= atol + |rtol * b|, infinities only to themselves."""
    import torch

    close = a == b
    if equal_nan and a.is_floating_point():
        close = close | (torch.isnan(a) & torch.isnan(b))
    if rtol == 0 and atol == 0:
        return close
    if not (a.is_floating_point() or a.is_complex()):
        a, b = a.to(torch.get_default_dtype()), b.to(torch.get_default_dtype())
    error = (a - b).abs()
    return close | ((error < float("inf")) & (error <= atol + (rtol * b).abs()))


@decomposes("aten.isfinite.default")
def isfinite(x: Tensor) -> Tensor:
    """Neither NaN nor infinite."""
    import torch

    if not (x.is_floating_point() or x.is_complex()):
        return torch.ones_like(x, dtype=torch.bool)
    return x.abs() < float("inf")

"""Signs and sizes of real numbers: signbit, copysign, hypot, fmax and fmin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .registry import decomposes
from .series import decomposes_float

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.signbit.default")
def signbit(x: Tensor) -> Tensor:
    """Also of -0, which division tells from 0."""
    import torch

    if not x.is_floating_point():
        return x < 0 if x.dtype != torch.bool else torch.zeros_like(x)
    return (x < 0) | ((x == 0) & (1 / x < 0))


@decomposes_float("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(x: Tensor, sign: Tensor) -> Tensor:
    """|x| with another number's sign."""
    import torch

    size = x.abs()
    return torch.where(signbit(sign), -size, size)


@decomposes("aten.hypot.default")
def hypot(a: Tensor, b: Tensor) -> Tensor:
    """The root of the sum of squares, without overflow in them."""
    import torch

    dtype = torch.result_type(a, b)
    compute = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    a, b = a.to(compute).abs(), b.to(compute).abs()
    longer, shorter = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where((longer == 0) | torch.isinf(longer), 0.0, shorter / longer)
    value = longer * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(a) | torch.isinf(b), math.inf, value).to(dtype)


@decomposes("aten.fmax.default")
def fmax(a: Tensor, b: Tensor) -> Tensor:
    """The larger number; NaN only if both are."""
    return _ignoring_nan("maximum", a, b)


@decomposes("aten.fmin.default")
def fmin(a: Tensor, b: Tensor) -> Tensor:
    """The smaller number; NaN only if both are."""
    return _ignoring_nan("minimum", a, b)


def _ignoring_nan(name: str, a: Tensor, b: Tensor) -> Tensor:
    import torch

    function: Any = getattr(torch, name)
    dtype = torch.result_type(a, b)
    a, b = torch.broadcast_tensors(a.to(dtype), b.to(dtype))
    if not dtype.is_floating_point:
        return function(a, b)
    return torch.where(torch.isnan(a), b, torch.where(torch.isnan(b), a, function(a, b)))

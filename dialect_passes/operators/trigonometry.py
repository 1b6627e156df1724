"""Trigonometric and related functions: what the compiler's own get wrong or do not have.

IREE's sine loses its digits from about 1000 on (and is not bounded by 1 in the end), and in f64 it calls C functions
that its executables do not hold. Sines, cosines and inverse tangents of f32 and f64 stay whole, and become loops of
our own (`expand-scalar-functions`, `scalars`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .registry import decomposes
from .series import decomposes_float
from .whole import made_ready, ready

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@decomposes("aten.sin.default")
def sin(x: Tensor) -> Tensor:
    """Of other types than f32 and f64."""
    import torch

    return NotImplemented if _stays_whole(x) else torch.sin(_computed(x)).to(_result(x))


@decomposes("aten.cos.default")
def cos(x: Tensor) -> Tensor:
    """Of other types than f32 and f64."""
    import torch

    return NotImplemented if _stays_whole(x) else torch.cos(_computed(x)).to(_result(x))


@decomposes("aten.atan.default")
def atan(x: Tensor) -> Tensor:
    """Of other types than f32 and f64."""
    import torch

    return NotImplemented if _stays_whole(x) else torch.atan(_computed(x)).to(_result(x))


@decomposes("aten.atan2.default")
def atan2(y: Tensor, x: Tensor) -> Tensor:
    """Of two tensors of the same sizes and dtype, f32 or f64; of others by that."""
    import torch
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    compute, result = elementwise_dtypes(
        y, x, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
    )
    if ready(y, x, compute):
        return NotImplemented
    return torch.atan2(*made_ready(y, x, compute)).to(result)


def _stays_whole(x: Tensor) -> bool:
    import torch

    return x.is_complex() or x.dtype in (torch.float32, torch.float64)


def _computed(x: Tensor) -> Tensor:
    import torch

    return x.to(torch.get_default_dtype() if not x.is_floating_point() else torch.float32)


def _result(x: Tensor) -> torch.dtype:
    import torch

    return x.dtype if x.is_floating_point() else torch.get_default_dtype()


@decomposes_float("aten.tan.default")
def tan(x: Tensor) -> Tensor:
    """sin / cos: the same computation twice, which the compiler sees."""
    import torch

    return torch.sin(x) / torch.cos(x)


@decomposes_float("aten.asinh.default")
def asinh(x: Tensor) -> Tensor:
    """log(|x| + sqrt(x² + 1)) with the sign of x; for large x log 2|x|, for small without cancellation."""
    import torch

    size = x.abs()
    small = size.clamp(max=1e4)
    near = torch.log1p(small + small * small / (1 + torch.sqrt(1 + small * small)))
    value = torch.where(size > 1e4, torch.log(size) + math.log(2), near)
    return torch.where(x < 0, -value, torch.where(x == 0, x, value))


@decomposes_float("aten.acosh.default")
def acosh(x: Tensor) -> Tensor:
    """log(x + sqrt(x² - 1)); NaN below 1."""
    import torch

    d = x.clamp(max=1e4) - 1
    near = torch.log1p(d + torch.sqrt(d * (d + 2)))
    value = torch.where(x > 1e4, torch.log(x) + math.log(2), near)
    return torch.where(x < 1, math.nan, value)


@decomposes_float("aten.log10.default")
def log10(x: Tensor) -> Tensor:
    """IREE calls a C function for it."""
    import torch

    return torch.log(x) * (1 / math.log(10))

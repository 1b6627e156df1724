"""Minimum, maximum and what is built on them. Eager lets NaN through; the stock lowerings drop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.maximum.default")
def maximum(a: Tensor, b: Tensor) -> Tensor:
    """The larger; NaN where either is: a comparison with NaN is false, and NaN + x is NaN."""
    import torch

    a, b = _promoted(a, b)
    if not a.is_floating_point():
        return torch.where(a > b, a, b)
    return torch.where(a > b, a, torch.where(b >= a, b, a + b))


@decomposes("aten.minimum.default")
def minimum(a: Tensor, b: Tensor) -> Tensor:
    """The smaller; NaN where either is."""
    import torch

    a, b = _promoted(a, b)
    if not a.is_floating_point():
        return torch.where(a < b, a, b)
    return torch.where(a < b, a, torch.where(b <= a, b, a + b))


def _promoted(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    dtype = torch.result_type(a, b)
    return a.to(dtype), b.to(dtype)

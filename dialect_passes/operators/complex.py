"""Complex numbers, where the lowering knows real ones only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.abs.default")
def absolute(z: Tensor) -> Tensor:
    """The length of z, without overflow in the squares."""
    import torch

    if not z.is_complex():
        return NotImplemented
    a, b = torch.real(z).abs(), torch.imag(z).abs()
    longer, shorter = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where((longer == 0) | (longer == float("inf")), 0.0, shorter / longer)
    return longer * torch.sqrt(1 + ratio * ratio)

"""Rolling elements along dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.roll.default")
def roll(x: Tensor, shifts: list[int], dims: list[int] | None = None) -> Tensor:
    """What leaves at one end enters at the other. torch-mlir knows shifts within the size and given dimensions only."""
    import torch

    if not dims:
        return roll(x.reshape(-1), shifts, [0]).reshape(x.shape) if x.dim() else x.clone()
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if isinstance(size, int) and size == 0:
            continue
        start = (size - shift) % size
        x = torch.cat([x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return x.clone() if not shifts else x

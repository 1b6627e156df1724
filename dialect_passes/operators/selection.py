"""What is found by value: as many results as the data have, which the shapes do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.nonzero.default")
def nonzero(x: Tensor) -> Tensor:
    """The places of what is not zero; a tensor without dimensions has none or one, without coordinates."""
    if x.dim():
        return NotImplemented
    return x.reshape(1).nonzero()[:, :0]


@decomposes("aten.masked_select.default")
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements at the mask's places, in order."""
    import torch

    x, mask = torch.broadcast_tensors(x, mask)
    return x.reshape(-1).index_select(0, mask.reshape(-1).nonzero().squeeze(1))

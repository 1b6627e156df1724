"""Reading and writing at the places of a mask. torch-mlir hangs on masks among indices, or scatters wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

Indices = list[Any]


@decomposes("aten._unsafe_index.Tensor")
def unsafe_index(x: Tensor, indices: Indices) -> Tensor:
    """What torch's own decompositions call where they know that all places are inside."""
    import torch

    return torch.ops.aten.index.Tensor(x, indices)


@decomposes("aten._unsafe_index_put.default")
def unsafe_index_put(x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    """What gradients of the above call. torch-mlir imports its name with whole lists of indices only."""
    import torch

    return torch.ops.aten.index_put.default(x, indices, values, accumulate)


@decomposes("aten.index.Tensor")
def index(x: Tensor, indices: Indices) -> Tensor:
    """One mask selects rows of the dimensions that it covers; among others masks become places."""
    import torch

    if not _has_mask(indices):
        return torch.ops.aten.index.Tensor(x, _wide(indices)) if _is_narrow(indices) else NotImplemented
    if len(indices) > 1:
        return torch.ops.aten.index.Tensor(x, _places(indices))
    (mask,) = indices
    inner = list(x.shape[mask.dim() :])
    rows = x.reshape([mask.numel(), *inner])
    return rows.index_select(0, mask.reshape(-1).nonzero().squeeze(1))


@decomposes("aten.index_put.default")
def index_put(x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    """One mask is a choice by place, without a scatter; among other indices it becomes places. Sums of bools are or."""
    import torch

    if accumulate and x.dtype == torch.bool:
        counts, added = x.to(torch.int32), values.to(torch.int32)
        return torch.ops.aten.index_put.default(counts, indices, added, True) != 0
    if not _has_mask(indices):
        if _is_narrow(indices):
            return torch.ops.aten.index_put.default(x, _wide(indices), values, accumulate)
        return NotImplemented
    if len(indices) == 1:
        return _masked_put(x, indices[0].to(torch.bool), values, accumulate)
    return torch.ops.aten.index_put.default(x, _places(indices), values, accumulate)


def _has_mask(indices: Indices) -> bool:
    import torch

    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def _is_narrow(indices: Indices) -> bool:
    import torch

    return any(i is not None and i.dtype == torch.int32 for i in indices)


def _wide(indices: Indices) -> Indices:
    """torch-mlir computes other dimensions' places in int64, and does not convert."""
    import torch

    return [None if i is None else i.to(torch.int64) for i in indices]


def _places(indices: Indices) -> Indices:
    import torch

    places: Indices = []
    for i in indices:
        if i is not None and i.dtype in (torch.bool, torch.uint8):
            places.extend(i.nonzero().unbind(1))
        else:
            places.extend(_wide([i]))
    # torch-mlir does not broadcast an index of one element against one whose size the data decide.
    given = iter(torch.broadcast_tensors(*[i for i in places if i is not None]))
    return [None if i is None else next(given) for i in places]


def _masked_put(x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Each masked place takes the row of `values` of its rank; the row before the first is for the others."""
    import torch

    inner = list(x.shape[mask.dim() :])
    if values.dim() > len(inner) and not _is_one(values.shape[0]):
        nothing = values.new_zeros([1, *values.shape[1:]])
        rows = torch.cat([nothing, values])
        rank = mask.reshape(-1).to(torch.int64).cumsum(0)
        rank = torch.minimum(rank, torch.scalar_tensor(values.shape[0], dtype=torch.int64))
        chosen = rows.index_select(0, rank).reshape(list(mask.shape) + list(values.shape[1:]))
    else:
        chosen = values.squeeze(0) if values.dim() > len(inner) else values
    written = x + chosen if accumulate else chosen
    return torch.where(mask.reshape(list(mask.shape) + [1] * len(inner)), written, x)


def _is_one(size: Any) -> bool:
    """A size that the data decide is taken for another: nothing may be asked of it here."""
    return isinstance(size, int) and size == 1

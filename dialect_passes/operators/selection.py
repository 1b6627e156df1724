"""What is found by value: as many results as the data have, which the shapes do not know."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .registry import decomposes, traced_by_decomposition

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
    places = mask.reshape(-1)
    if x.numel() == 1:
        # torch.export takes the result of masked_select for two elements at most, that of nonzero for one.
        places = torch.cat([places, torch.zeros(1, dtype=torch.bool, device=x.device)])
    return x.reshape(-1).index_select(0, places.nonzero().squeeze(1))


@traced_by_decomposition("aten.combinations.default")
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Which elements go together depends on their number only; torch asks a mask of all r-tuples."""
    import torch

    if r < 2:
        return x.unsqueeze(1) if r else x.new_empty([0])
    parts = []
    for first in range(x.shape[0]):
        rest = combinations(x[first if with_replacement else first + 1 :], r - 1, with_replacement)
        parts.append(torch.cat([x[first].expand(rest.shape[0], 1), rest], 1))
    return torch.cat(parts) if parts else x.new_empty([0, r])


@decomposes("aten._unique2.default")
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct values in order, the place of each element among them, and how often each is there."""
    import torch

    values, order = torch.sort(x.reshape(-1))
    firsts = _differs(values[1:], values[:-1])
    found, inverse, counts = _runs(values, firsts)
    inverse = torch.zeros_like(order).scatter(0, order, inverse).reshape(x.shape)
    return found, inverse if return_inverse else _none(x), counts if return_counts else _none(x)


@decomposes("aten.unique_consecutive.default")
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """One of each run of equal values, or of equal slices along `dim`."""
    if dim is None or (x.dim() == 1 and dim % x.dim() == 0):
        values = x.reshape(-1)
        found, inverse, counts = _runs(values, _differs(values[1:], values[:-1]))
        inverse = inverse.reshape(x.shape)
        return found, inverse if return_inverse else _none(x), counts if return_counts else _none(x)
    rows = x.movedim(dim, 0)
    flat = rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
    found, inverse, counts = _runs(rows, _differs(flat[1:], flat[:-1]).any(1))
    return found.movedim(0, dim), inverse, counts


@decomposes("aten.unique_dim.default")
def unique_dim(
    x: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct slices along `dim`, in the order of their first difference."""
    import torch

    rows = x.movedim(dim, 0)
    flat = rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
    order = _order_of_rows(flat)
    flat = flat.index_select(0, order)
    found, inverse, counts = _runs(rows.index_select(0, order), _differs(flat[1:], flat[:-1]).any(1))
    return found.movedim(0, dim), torch.zeros_like(order).scatter(0, order, inverse), counts


def _order_of_rows(rows: Tensor) -> Tensor:
    """Sorts by the last column first: sorting is stable."""
    import torch

    order = torch.arange(rows.shape[0], device=rows.device)
    for column in reversed(range(rows.shape[1])):
        order = order.gather(0, torch.sort(rows[:, column].gather(0, order), stable=True).indices)
    return order


def _differs(a: Tensor, b: Tensor) -> Tensor:
    """NaN differs from everything."""
    return ~(a == b)


def _runs(rows: Tensor, differs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The first row of each run, the number of the run of each row, and the runs' lengths."""
    import torch

    size = rows.shape[0]
    first = torch.ops.aten.constant_pad_nd(differs, [1, 0], True)[:size]
    inverse = first.to(torch.int64).cumsum(0) - 1
    starts = first.nonzero().squeeze(1)
    ends = torch.cat([starts[1:], torch.full((1,), size, dtype=torch.int64, device=rows.device)])
    return rows.index_select(0, starts), inverse, ends[: starts.shape[0]] - starts


def _none(x: Tensor) -> Tensor:
    import torch

    return torch.empty([0], dtype=torch.int64, device=x.device)

"""Reductions of consecutive pieces of a dimension.

Each segment is a masked reduction over the whole dimension: segments are short programs, not loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


def _members(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int) -> Tensor:
    """Which elements belong to which segment: the dimension `axis` of data is the last but the inner ones."""
    import torch

    if offsets is None:
        assert lengths is not None
        ends = lengths.to(torch.int64).cumsum(axis)
        starts = ends - lengths
    else:
        starts, ends = offsets.narrow(axis, 0, offsets.shape[axis] - 1), offsets[..., 1:]
    place = torch.arange(data.shape[axis], device=data.device)
    inside = (place >= starts.unsqueeze(-1)) & (place < ends.unsqueeze(-1))
    return inside.reshape(list(inside.shape) + [1] * (data.dim() - axis - 1))


@decomposes("aten.segment_reduce.default")
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Sum, mean, product or extreme of each segment, beginning with `initial`."""
    import torch

    inside = _members(data, lengths, offsets, axis)
    start = _NEUTRAL[reduce] if initial is None else float(initial)
    neutral = torch.full((), _NEUTRAL[reduce], dtype=data.dtype, device=data.device)
    chosen = torch.where(inside, data.unsqueeze(axis), neutral)
    dim = axis + 1
    if reduce in ("max", "min"):
        first = torch.full((), start, dtype=data.dtype, device=data.device)
        if reduce == "max":
            return torch.maximum(chosen.amax(dim), first)
        return torch.minimum(chosen.amin(dim), first)
    if reduce == "prod":
        return chosen.prod(dim) * start
    total = chosen.sum(dim) + start
    if reduce == "sum":
        return total
    count = inside.sum(dim)
    empty = float("nan") if initial is None else start
    nothing = torch.full((), empty, dtype=data.dtype, device=data.device)
    return torch.where(count == 0, nothing, total / count.to(data.dtype))


@decomposes("aten._segment_reduce_backward.default")
def segment_reduce_backward(
    grad: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """Each element's share of its segment's gradient; equal extremes share it."""
    import torch

    inside = _members(data, lengths, offsets, axis)
    dim = axis + 1
    zero = torch.zeros((), dtype=data.dtype, device=data.device)
    share = grad.unsqueeze(dim)
    x = data.unsqueeze(axis)
    if reduce == "mean":
        share = share / inside.sum(dim, keepdim=True).to(data.dtype)
    elif reduce in ("max", "min"):
        hit = inside & ((x == output.unsqueeze(dim)) | torch.isnan(x))
        share = share / hit.sum(dim, keepdim=True).to(data.dtype)
        inside = hit
    elif reduce == "prod":
        start = 1.0 if initial is None else float(initial)
        share = share * _others(x.expand(inside.shape[:dim] + data.shape[axis:]), inside, dim) * start
    return torch.where(inside, share, zero).sum(axis)


def _others(x: Tensor, inside: Tensor, dim: int) -> Tensor:
    """The product of all other elements of the segment."""
    import torch

    one = torch.ones((), dtype=x.dtype, device=x.device)
    size = x.shape[dim]
    chosen = torch.where(inside, x, one).unsqueeze(dim)
    same = torch.eye(size, dtype=torch.bool, device=x.device)
    same = same.reshape([size, size] + [1] * (x.dim() - dim - 1))
    return torch.where(same, one, chosen).prod(dim + 1)

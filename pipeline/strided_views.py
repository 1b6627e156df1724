"""`aten.as_strided` said with operations that have lowerings: select, slice, permute and unsqueeze.

Export describes a view whose tensor an operator changes by sizes, strides and offset into its base's memory. To
write through such a view needs ``as_strided_scatter``, which nothing lowers; select and slice have theirs.

Before:  as_strided(base[8, 4, 4], size=(4, 8), stride=(1, 16), offset=4)
After:   permute(select(base, 1, 1), [1, 0])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import optimization_hint, statically_known_true


def strided_view(
    base: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], offset: Any
) -> torch.Tensor | None:
    """The view of `base`, or None for one that takes other operations, such as the diagonals of a batch."""
    for whole in _forms(base, size, stride):
        view = _selected(whole, size, stride, offset)
        if view is not None:
            return view
    return None


def _forms(base: torch.Tensor, size: Sequence[Any], stride: Sequence[Any]) -> Iterator[torch.Tensor]:
    """`base` as it is, in the dimensions that the view's strides tell of, and flat."""
    yield base
    if base.is_contiguous() and base.dim():
        flat = base.view(-1)
        steps = [stride[dim] for dim in _long(size)]
        sizes = _unflattened(flat.shape[0], sorted(steps, key=optimization_hint, reverse=True))
        if sizes is not None:
            yield flat.view(sizes)
        yield flat


def _unflattened(length: Any, steps: Sequence[Any]) -> list[Any] | None:
    """The sizes of a contiguous tensor that has these strides, and a last dimension of stride 1."""
    sizes = []
    for step in steps:
        if not statically_known_true(length % step == 0):
            return None
        sizes.append(length // step)
        length = step
    return [*sizes, length]


def _selected(
    base: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], offset: Any
) -> torch.Tensor | None:
    """The view, if it takes some of each dimension of `base`."""
    starts = _starts(base, offset)
    long = _long(size)
    sources = [found for dim in long if (found := _source(base, stride[dim])) is not None]
    if len(set(sources)) != len(long):
        return None
    view = base
    for dim, source in zip(long, sources, strict=True):
        step = stride[dim] // base.stride()[source]
        end = starts[source] + (size[dim] - 1) * step + 1
        view = torch.ops.aten.slice.Tensor(view, source, starts[source], end, step)
    for dim in reversed(range(base.dim())):
        if dim not in sources:
            view = view.select(dim, starts[dim])
    kept = sorted(sources)
    view = view.permute([kept.index(source) for source in sources])
    for dim in range(len(size)):
        if dim not in long:
            view = view.unsqueeze(dim)
    return view if _is(view, size, stride, offset, long) else None


def _long(size: Sequence[Any]) -> list[int]:
    """The dimensions that may have more than one element: the strides of the others say nothing."""
    return [dim for dim, length in enumerate(size) if not statically_known_true(length == 1)]


def _starts(base: torch.Tensor, offset: Any) -> list[Any]:
    """The index in each dimension of `base` of the element at `offset`."""
    starts: list[Any] = [0] * base.dim()
    for dim in sorted(range(base.dim()), key=lambda dim: -optimization_hint(base.stride()[dim])):
        if not statically_known_true(base.shape[dim] == 1):
            starts[dim] = offset // base.stride()[dim]
            offset = offset - starts[dim] * base.stride()[dim]
    return starts


def _source(base: torch.Tensor, stride: Any) -> int | None:
    """The dimension of `base` in which a step of the view goes: the widest that divides it."""
    fitting = [
        dim
        for dim in range(base.dim())
        if not statically_known_true(base.shape[dim] == 1)
        and optimization_hint(stride) >= optimization_hint(base.stride()[dim])
        and statically_known_true(stride % base.stride()[dim] == 0)
    ]
    return max(fitting, key=lambda dim: optimization_hint(base.stride()[dim]), default=None)


def _is(view: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], offset: Any, dims: list[int]) -> bool:
    """Whether the view is the one asked for, in the dimensions `dims` that have a stride."""
    found = [*view.shape, view.storage_offset(), *(view.stride()[dim] for dim in dims)]
    wanted = [*size, offset, *(stride[dim] for dim in dims)]
    return [optimization_hint(value) for value in found] == [optimization_hint(value) for value in wanted]

"""Max pooling with the places of the maxima, and its gradients.

One dimension after the other: each element carries its place in the whole plane along. A later element wins if it
is larger or NaN, which makes the place the same as that of eager's scan of the window, row by row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipeline.shape_lib.helpers.pooling import pooled_size

from .registry import decomposes
from .windows import adaptive_bounds, adaptive_windows, padded, per_dimension, strided

if TYPE_CHECKING:
    from torch import Tensor

_Carried = tuple["Tensor", "Tensor"]
"""Values, and the place of each in its plane, counted row by row; -1 in the padding."""


def _max_pool_with_indices(
    spatial: int,
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] | None = None,
    padding: list[int] | None = None,
    dilation: list[int] | None = None,
    ceil_mode: bool = False,
) -> _Carried:
    """The maximum of each window, and where it is."""
    kernel = per_dimension(kernel_size, spatial)
    steps = per_dimension(stride, spatial) if stride else kernel
    pads, gaps = per_dimension(padding or [0], spatial), per_dimension(dilation or [1], spatial)
    carried = x, _places(x, spatial)
    for axis in reversed(range(spatial)):
        window = kernel[axis], steps[axis], pads[axis], gaps[axis]
        carried = _pool(carried, x.dim() - spatial + axis, *window, ceil_mode)
    return _finished(carried)


def _pool(
    carried: _Carried, dim: int, kernel: int, step: int, pad: int, gap: int, ceil_mode: bool
) -> _Carried:
    values, places = carried
    count = pooled_size(values.shape[dim], kernel, step, pad, gap, ceil_mode)
    # In ceil mode the last window may reach behind the padding.
    behind = pad + step - 1 if ceil_mode else pad
    values = padded(values, dim, pad, behind, _lowest(values))
    places = padded(places, dim, pad, behind, -1)
    pieces = (
        (strided(values, dim, k * gap, count, step), strided(places, dim, k * gap, count, step))
        for k in range(kernel)
    )
    return _first_maximum(next(pieces), pieces)


def _places(x: Tensor, spatial: int) -> Tensor:
    """The place of each element in its plane: [1, ..., spatial]."""
    import torch

    sizes = x.shape[-spatial:]
    places = torch.arange(math.prod(sizes), dtype=torch.int32, device=x.device)
    return places.reshape([1] * (x.dim() - spatial) + list(sizes))


def _finished(carried: _Carried) -> _Carried:
    values, places = carried
    return values, places.expand(values.shape).long()


def _lowest(x: Tensor) -> float | int:
    import torch

    return -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min


def _first_maximum(best: _Carried, others: Iterable[_Carried]) -> _Carried:
    """A window of nothing but -inf has its maximum where it first meets the input."""
    import torch

    value, place = best
    for other, other_place in others:
        wins = (other > value) | (place < 0)
        if value.is_floating_point():
            wins = wins | torch.isnan(other)
        value, place = torch.where(wins, other, value), torch.where(wins, other_place, place)
    return value, place


@decomposes("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max_pool(x: Tensor, output_size: list[int]) -> _Carried:
    """The maxima of windows that cover the input, as many as asked for."""
    spatial = len(output_size)
    is_open = not all(isinstance(size, int) for size in (*x.shape[-spatial:], *output_size))
    pool = _open_adaptive_pool if is_open else _adaptive_pool
    carried: _Carried = x, _places(x, spatial)
    for axis in reversed(range(spatial)):
        carried = pool(carried, x.dim() - spatial + axis, output_size[axis])
    return _finished(carried)


def _adaptive_pool(carried: _Carried, dim: int, count: int) -> _Carried:
    """Shorter windows look at their last element again, which changes nothing."""
    import torch

    values, places = carried
    size = values.shape[dim]
    first, end = adaptive_bounds(size, count, values)
    longest = max(-((i + 1) * -size // count) - i * size // count for i in range(count)) if count else 1
    rows = (torch.minimum(first + k, end - 1) for k in range(longest))
    pieces = ((values.index_select(dim, row), places.index_select(dim, row)) for row in rows)
    return _first_maximum(next(pieces), pieces)


def _open_adaptive_pool(carried: _Carried, dim: int, count: int) -> _Carried:
    """With windows of open length. Eager's scan names the first of equal maxima, and the last NaN."""
    import torch

    values, places = (adaptive_windows(x, dim, count)[0] for x in carried)
    best = values.amax(dim + 1, keepdim=True)
    chosen = values == best
    first = torch.where(chosen, places, torch.iinfo(places.dtype).max).amin(dim + 1)
    if not values.is_floating_point():
        return best.squeeze(dim + 1), first
    last = torch.where(values.isnan(), places, -1).amax(dim + 1)
    best = best.squeeze(dim + 1)
    return best, torch.where(best.isnan(), last, first)


@decomposes("aten.fractional_max_pool2d.default", "aten.fractional_max_pool3d.default")
def fractional_max_pool(
    x: Tensor, kernel_size: list[int], output_size: list[int], random_samples: Tensor
) -> _Carried:
    """The maxima of windows whose starts depend on a random sample per plane and dimension."""
    spatial = len(kernel_size)
    samples = random_samples if x.dim() == spatial + 2 else random_samples[0]
    if x.dim() == spatial + 2:
        samples = samples[: x.shape[0]]
    carried: _Carried = x, _places(x, spatial).expand(x.shape)
    for axis in reversed(range(spatial)):
        # In planes, eager takes the first sample for the columns.
        sample = samples[..., spatial - 1 - axis if spatial == 2 else axis]
        starts = _fractional_starts(
            sample, x.shape[x.dim() - spatial + axis], kernel_size[axis], output_size[axis]
        )
        carried = _fractional_pool(carried, x.dim() - spatial + axis, starts, kernel_size[axis])
    return _finished(carried)


def _fractional_starts(sample: Tensor, size: int, kernel: int, count: int) -> Tensor:
    """Where the windows start: [..., count]. The last one always ends with the input."""
    import torch

    numbers = torch.arange(count, device=sample.device)
    last = torch.full_like(numbers, size - kernel)
    sample = sample.unsqueeze(-1)
    if isinstance(count, int) and count == 1:
        return last.expand(*sample.shape[:-1], 1)
    # In the precision of the samples, as eager computes it: another would start some windows elsewhere.
    step = torch.full((), size - kernel, dtype=sample.dtype) / torch.full((), count - 1, dtype=sample.dtype)
    starts = ((numbers + sample) * step).long() - (sample * step).long()
    return torch.where(numbers == count - 1, last, starts)


def _fractional_pool(carried: _Carried, dim: int, starts: Tensor, kernel: int) -> _Carried:
    values, places = carried
    rank = values.dim()
    leading = starts.dim() - 1
    shape = [*starts.shape[:-1], *[1] * (dim - leading), starts.shape[-1], *[1] * (rank - dim - 1)]
    target = [*values.shape[:dim], starts.shape[-1], *values.shape[dim + 1 :]]
    index = starts.reshape(shape).expand(target)
    pieces = ((values.gather(dim, index + k), places.gather(dim, index + k)) for k in range(kernel))
    return _first_maximum(next(pieces), pieces)


def _max_pool_backward(
    spatial: int,
    grad: Tensor,
    x: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    return _to_places(spatial, grad, x, indices)


def _fractional_max_pool_backward(
    spatial: int, grad: Tensor, x: Tensor, kernel_size: list[int], output_size: list[int], indices: Tensor
) -> Tensor:
    return _to_places(spatial, grad, x, indices)


def _to_places(spatial: int, grad: Tensor, x: Tensor, places: Tensor) -> Tensor:
    """The gradient goes to where the maxima were."""
    first = x.dim() - spatial
    zeros = x.new_zeros((*x.shape[:first], math.prod(x.shape[first:])))
    return zeros.scatter_add(first, places.flatten(first), grad.flatten(first)).reshape(x.shape)


for _spatial in (2, 3):
    for _name, _function in (
        (f"max_pool{_spatial}d_with_indices", _max_pool_with_indices),
        (f"max_pool{_spatial}d_with_indices_backward", _max_pool_backward),
        (f"adaptive_max_pool{_spatial}d_backward", _to_places),
        (f"fractional_max_pool{_spatial}d_backward", _fractional_max_pool_backward),
    ):
        decomposes(f"aten.{_name}.default")(functools.partial(_function, _spatial))

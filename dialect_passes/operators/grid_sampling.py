"""Sampling at the points of a grid, and its gradients (aten/src/ATen/native/GridSampler.h).

Each point looks at a few taps per dimension: 2 linear ones, the nearest element, or 4 cubic ones.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

_LINEAR, _NEAREST, _CUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


class _Tap(NamedTuple):
    """Where all points look along one dimension, with which weight, and how that changes with the grid."""

    place: Tensor
    weight: Tensor
    slope: Tensor


class _Corner(NamedTuple):
    """One tap per dimension: the place in the flattened input, whether it lies inside, and all weights."""

    index: Tensor
    inside: Tensor
    taps: tuple[_Tap, ...]


@decomposes("aten.grid_sampler_3d.default")
def grid_sampler(x: Tensor, grid: Tensor, interpolation: int, padding: int, align_corners: bool) -> Tensor:
    """The weighted sum of what the corners hold."""
    result = None
    for corner in _corners(x, grid, interpolation, padding, align_corners):
        part = _values(x, corner) * _weight(corner).unsqueeze(1)
        result = part if result is None else result + part
    assert result is not None
    return result.reshape(x.shape[0], x.shape[1], *grid.shape[1:-1])


@decomposes("aten.grid_sampler_2d.default")
def grid_sampler_2d(x: Tensor, grid: Tensor, interpolation: int, padding: int, align_corners: bool) -> Tensor:
    """torch's, which reads with four indices, and ours where a size is open: torch-mlir cannot broadcast these then."""
    import torch

    if all(isinstance(size, int) for size in (*x.shape, *grid.shape)):
        torchs = torch._decomp.decomposition_table[torch.ops.aten.grid_sampler_2d.default]
        return torchs(x, grid, interpolation, padding, align_corners)
    return grid_sampler(x, grid, interpolation, padding, align_corners)


@decomposes("aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default")
def grid_sampler_backward(
    grad: Tensor,
    x: Tensor,
    grid: Tensor,
    interpolation: int,
    padding: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Of the input: what the corners were weighted with. Of the grid: how the weights change."""
    import torch

    grad = grad.flatten(2)
    corners = _corners(x, grid, interpolation, padding, align_corners)
    of_input = x.new_zeros((*x.shape[:2], math.prod(x.shape[2:]))) if output_mask[0] else None
    slopes = [grid.new_zeros((grid.shape[0], grad.shape[-1])) for _ in range(grid.shape[-1])]
    for corner in corners:
        if of_input is not None:
            share = (grad * _weight(corner).unsqueeze(1)).masked_fill(~corner.inside.unsqueeze(1), 0)
            of_input = of_input.scatter_add(2, corner.index.unsqueeze(1).expand(share.shape), share)
        if interpolation != _NEAREST and output_mask[1]:
            pull = (grad * _values(x, corner)).sum(1)
            slopes = [slope + pull * _weight(corner, axis) for axis, slope in enumerate(slopes)]
    # The last dimension comes first in a grid.
    of_grid = torch.stack(slopes[::-1], -1).reshape(grid.shape) if output_mask[1] else None
    return None if of_input is None else of_input.reshape(x.shape), of_grid


def _values(x: Tensor, corner: _Corner) -> Tensor:
    flat = x.flatten(2)
    index = corner.index.unsqueeze(1).expand(x.shape[0], x.shape[1], corner.index.shape[-1])
    return flat.gather(2, index).masked_fill(~corner.inside.unsqueeze(1), 0)


def _weight(corner: _Corner, changed: int | None = None) -> Tensor:
    """The product of the corner's weights, or how it changes along the dimension `changed`."""
    result = None
    for axis, tap in enumerate(corner.taps):
        factor = tap.slope if axis == changed else tap.weight
        result = factor if result is None else result * factor
    assert result is not None
    return result


def _corners(x: Tensor, grid: Tensor, interpolation: int, padding: int, align_corners: bool) -> list[_Corner]:
    sizes = x.shape[2:]
    # [batch, points] per dimension, in the order of the input's.
    points = [grid[..., axis].flatten(1) for axis in reversed(range(len(sizes)))]
    find = _cubic_taps if interpolation == _CUBIC else _near_taps
    taps = [
        find(point, size, interpolation, padding, align_corners)
        for point, size in zip(points, sizes, strict=True)
    ]
    return [_corner(chosen, sizes) for chosen in itertools.product(*taps)]


def _corner(taps: tuple[_Tap, ...], sizes: tuple[int, ...]) -> _Corner:
    import torch

    index = inside = None
    for tap, size in zip(taps, sizes, strict=True):
        within = (tap.place >= 0) & (tap.place < size)
        place = torch.where(within, tap.place, 0).long()
        index = place if index is None else index * size + place
        inside = within if inside is None else inside & within
    assert index is not None and inside is not None
    return _Corner(index, inside, taps)


def _near_taps(point: Tensor, size: int, interpolation: int, padding: int, align_corners: bool) -> list[_Tap]:
    import torch

    source, slope = _unnormalized(point, size, align_corners)
    source, factor = _padded(source, size, padding, align_corners)
    slope = torch.ones_like(source) * factor * slope
    if interpolation == _NEAREST:
        return [_Tap(torch.round(source), torch.ones_like(source), slope)]
    low = source.floor()
    fraction = source - low
    return [_Tap(low, 1 - fraction, -slope), _Tap(low + 1, fraction, slope)]


def _cubic_taps(point: Tensor, size: int, _: int, padding: int, align_corners: bool) -> list[_Tap]:
    """Every tap is put inside by itself, and the weights do not know of it."""
    source, slope = _unnormalized(point, size, align_corners)
    low = source.floor()
    t = source - low
    weights = _far(t + 1), _near(t), _near(1 - t), _far(2 - t)
    slopes = _far_slope(t + 1), _near_slope(t), -_near_slope(1 - t), -_far_slope(2 - t)
    return [
        _Tap(_padded(low + offset, size, padding, align_corners)[0], weight, change * slope)
        for offset, weight, change in zip((-1, 0, 1, 2), weights, slopes, strict=True)
    ]


def _near(x: Tensor) -> Tensor:
    """Keys' kernel with a = -0.75, for distances up to 1."""
    return (1.25 * x - 2.25) * x * x + 1


def _near_slope(x: Tensor) -> Tensor:
    return (3.75 * x - 4.5) * x


def _far(x: Tensor) -> Tensor:
    """For distances from 1 to 2."""
    return ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0


def _far_slope(x: Tensor) -> Tensor:
    return (-2.25 * x + 7.5) * x - 6.0


def _unnormalized(point: Tensor, size: int, align_corners: bool) -> tuple[Tensor, float]:
    """From [-1, 1] to elements, and the factor between them."""
    if align_corners:
        return (point + 1) / 2 * (size - 1), (size - 1) / 2
    return ((point + 1) * size - 1) / 2, size / 2


def _padded(source: Tensor, size: int, padding: int, align_corners: bool) -> tuple[Tensor, Tensor | float]:
    """Where points outside look instead, and how fast that moves with them."""
    import torch

    if padding == _ZEROS:
        return source, 1.0
    factor: Tensor | float = 1.0
    if padding == _REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        source, factor = _reflected(source, low, span)
    inside = (source > 0) & (source < size - 1)
    return source.clamp(0, size - 1), torch.where(inside, 1.0, 0.0).to(source.dtype) * factor


def _reflected(source: Tensor, low: float, span: float) -> tuple[Tensor, Tensor | float]:
    import torch

    if span == 0:
        return torch.zeros_like(source), 0.0
    away = source - low
    sign = torch.where(away < 0, -1.0, 1.0).to(source.dtype)
    flips = torch.floor(away.abs() / span)
    extra = away.abs() - flips * span
    odd = (flips - 2 * torch.floor(flips / 2)) == 1
    return torch.where(odd, span - extra, extra) + low, torch.where(odd, -sign, sign)

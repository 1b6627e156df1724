"""Histograms, segments, quantiles and modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import assert_same, with_size, wrap_dim
from pipeline.shape_lib.helpers.promotion import floating, same
from pipeline.shape_lib.helpers.reduction import picked
from pipeline.shape_lib.registry import dtype_function, shape_function
from pipeline.shape_lib.sizes import unknown_size

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@shape_function("aten.histc.default")
def histc_shape(x: list[int], bins: int, min: float, max: float) -> list[int]:
    """A count per bin."""
    assert bins > 0, "there must be at least one bin"
    assert min <= max, "max is less than min"
    return [bins]


@dtype_function("aten.histc.default")
def histc_dtype(x: tuple[int, int], bins: int, min: int | float, max: int | float) -> int:
    """That of the data."""
    _, dtype = x
    return dtype


@shape_function("aten.histogram.bin_ct")
def histogram_shape(
    x: list[int], bins: int, range: list[float] | None, weight: list[int] | None, density: bool
) -> tuple[list[int], list[int]]:
    """A count per bin, and the edges."""
    assert bins > 0, "there must be at least one bin"
    if weight is not None:
        assert_same(x, weight)
    if range is not None:
        assert len(range) == 2, "a range is two numbers"
        assert range[0] <= range[1], "the range's end lies before its start"
    return [bins], [bins + 1]


@dtype_function("aten.histogram.bin_ct")
def histogram_dtype(
    x: tuple[int, int], bins: int, range: list[float] | None, weight: tuple[int, int] | None, density: bool
) -> tuple[int, int]:
    """Of data and weights alike."""
    _, dtype = x
    dtype = floating(dtype)
    if weight is not None:
        _, weight_dtype = weight
        assert weight_dtype == dtype, "the weights have another dtype than the data"
    return dtype, dtype


def _assert_points(x: list[int], bins: list[int], range: list[float] | None) -> None:
    assert len(x) >= 2, "the data are points with coordinates"
    assert len(bins) == x[-1], "one number of bins per coordinate is needed"
    for count in bins:
        assert count > 0, "there must be at least one bin"
    if range is not None:
        assert len(range) == 2 * len(bins), "the range has two numbers per coordinate"


@shape_function("aten._histogramdd_from_bin_cts.default")
def histogramdd_shape(
    x: list[int], bins: list[int], range: list[float] | None, weight: list[int] | None, density: bool
) -> list[int]:
    """A count per cell; the last dimension of the data holds coordinates."""
    _assert_points(x, bins, range)
    if weight is not None:
        assert_same(x[:-1], weight)
    return bins


@dtype_function("aten._histogramdd_from_bin_cts.default")
def histogramdd_dtype(
    x: tuple[int, int],
    bins: list[int],
    range: list[float] | None,
    weight: tuple[int, int] | None,
    density: bool,
) -> int:
    """Of data and weights alike."""
    _, dtype = x
    if weight is not None:
        _, weight_dtype = weight
        assert weight_dtype == dtype, "the weights have another dtype than the data"
    return floating(dtype)


@shape_function("aten._histogramdd_bin_edges.default")
def histogramdd_edges_shape(
    x: list[int], bins: list[int], range: list[float] | None, weight: list[int] | None, density: bool
) -> list[list[int]]:
    """The edges along each coordinate."""
    _assert_points(x, bins, range)
    edges: list[list[int]] = []
    for count in bins:
        edges.append([count + 1])
    return edges


@dtype_function("aten._histogramdd_bin_edges.default")
def histogramdd_edges_dtype(
    x: tuple[int, int],
    bins: list[int],
    range: list[float] | None,
    weight: tuple[int, int] | None,
    density: bool,
) -> int:
    """That of the data."""
    _, dtype = x
    return floating(dtype)


def _segments(lengths: list[int] | None, offsets: list[int] | None, axis: int) -> int:
    """How many there are: one per length, or between each two offsets."""
    if lengths is not None:
        assert len(lengths) > axis, "the lengths lack the dimension that is reduced"
        return lengths[axis]
    assert offsets is not None, "either lengths or offsets are needed"
    assert len(offsets) > axis, "the offsets lack the dimension that is reduced"
    return offsets[axis] - 1


def _assert_reduction(reduce: str) -> None:
    assert reduce == "sum" or reduce == "mean" or reduce == "max" or reduce == "min" or reduce == "prod", (
        "reduce is one of sum, mean, max, min, prod"
    )


@shape_function("aten.segment_reduce.default")
def segment_reduce_shape(
    x: list[int],
    reduce: str,
    lengths: list[int] | None,
    indices: list[int] | None,
    offsets: list[int] | None,
    axis: int,
    unsafe: bool,
    initial: float | None,
) -> list[int]:
    """One result per segment along `axis`."""
    _assert_reduction(reduce)
    assert indices is None, "reductions by indices are not supported"
    assert len(x) > 0, "the data have at least one dimension"
    wrapped = wrap_dim(axis, len(x))
    return with_size(x, wrapped, _segments(lengths, offsets, wrapped))


@dtype_function("aten.segment_reduce.default")
def segment_reduce_dtype(
    x: tuple[int, int],
    reduce: str,
    lengths: tuple[int, int] | None,
    indices: tuple[int, int] | None,
    offsets: tuple[int, int] | None,
    axis: int,
    unsafe: bool,
    initial: int | float | None,
) -> int:
    """That of the data."""
    _, dtype = x
    return floating(dtype)


@shape_function("aten._segment_reduce_backward.default")
def segment_reduce_backward_shape(
    grad: list[int],
    output: list[int],
    x: list[int],
    reduce: str,
    lengths: list[int] | None,
    offsets: list[int] | None,
    axis: int,
    initial: float | None,
) -> list[int]:
    """That of the data."""
    assert_same(grad, output)
    assert lengths is not None or offsets is not None, "either lengths or offsets are needed"
    return x


@dtype_function("aten._segment_reduce_backward.default")
def segment_reduce_backward_dtype(
    grad: tuple[int, int],
    output: tuple[int, int],
    x: tuple[int, int],
    reduce: str,
    lengths: tuple[int, int] | None,
    offsets: tuple[int, int] | None,
    axis: int,
    initial: int | float | None,
) -> int:
    """Of gradient and data alike."""
    _, dtype = grad
    _, x_dtype = x
    return same(dtype, x_dtype)


@shape_function("aten.mode.default", "aten.nanmedian.dim")
def picked_shape(x: list[int], dim: int, keepdim: bool) -> tuple[list[int], list[int]]:
    """Value and place of one element along `dim`."""
    shape = picked(x, dim, keepdim)
    return shape, shape


@dtype_function("aten.mode.default", "aten.nanmedian.dim")
def picked_dtype(x: tuple[int, int], dim: int, keepdim: bool) -> tuple[int, int]:
    """Places are int64."""
    _, dtype = x
    assert not dtypes.is_complex_dtype(dtype), "complex numbers have no order"
    return dtype, dtypes.int64


@shape_function("aten.nanmedian.default")
def nanmedian_shape(x: list[int]) -> list[int]:
    """One number."""
    return []


@dtype_function("aten.nanmedian.default")
def nanmedian_dtype(x: tuple[int, int]) -> int:
    """That of the data."""
    _, dtype = x
    assert not dtypes.is_complex_dtype(dtype), "complex numbers have no order"
    return dtype


@shape_function("aten._unique2.default")
def unique_shape(
    x: list[int], sorted: bool, return_inverse: bool, return_counts: bool
) -> tuple[list[int], list[int], list[int]]:
    """The values, as many as the data have, the place of each element among them, and counts.

    What is not asked for is empty.
    """
    inverse, counts = [0], [0]
    count = unknown_size()
    if return_inverse:
        inverse = x
    if return_counts:
        counts = [count]
    return [count], inverse, counts


@dtype_function("aten._unique2.default")
def unique_dtype(
    x: tuple[int, int], sorted: bool, return_inverse: bool, return_counts: bool
) -> tuple[int, int, int]:
    """Places and counts are int64."""
    _, dtype = x
    return dtype, dtypes.int64, dtypes.int64


@shape_function("aten.unique_consecutive.default")
def unique_consecutive_shape(
    x: list[int], return_inverse: bool, return_counts: bool, dim: int | None
) -> tuple[list[int], list[int], list[int]]:
    """The runs of equal values, or of equal slices along `dim`; as for `unique_shape`."""
    inverse, counts = [0], [0]
    count = unknown_size()
    values = [count]
    if dim is None or (dim == 0 and len(x) == 1):
        if return_inverse:
            inverse = x
        if return_counts:
            counts = [count]
    else:
        # Along a dimension PyTorch always tells places and counts.
        wrapped = wrap_dim(dim, len(x))
        values, inverse, counts = with_size(x, wrapped, count), [x[wrapped]], [count]
    return values, inverse, counts


@dtype_function("aten.unique_consecutive.default")
def unique_consecutive_dtype(
    x: tuple[int, int], return_inverse: bool, return_counts: bool, dim: int | None
) -> tuple[int, int, int]:
    """Places and counts are int64."""
    _, dtype = x
    return dtype, dtypes.int64, dtypes.int64


@decomposes("aten.mode.default")
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent value, of several the smallest, and its last place."""
    import torch

    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    rows = x.movedim(dim, -1)
    alike = rows.unsqueeze(-1) == rows.unsqueeze(-2)
    if x.is_floating_point():
        alike = alike | (torch.isnan(rows).unsqueeze(-1) & torch.isnan(rows).unsqueeze(-2))
    counts = alike.sum(-1)
    frequent = counts == counts.amax(-1, True)
    order = torch.sort(rows, -1).indices
    first = torch.gather(frequent, -1, order).to(torch.int32)
    chosen = torch.gather(order, -1, torch.argmax(first, -1, True))
    places = torch.arange(x.shape[dim], device=x.device)
    level = torch.gather(alike, -2, chosen.unsqueeze(-1).expand(alike.shape[:-2] + (1, alike.shape[-1])))
    nowhere = torch.full((), -1, dtype=torch.int64, device=x.device)
    last = torch.where(level.squeeze(-2), places, nowhere).amax(-1, True)
    value = torch.gather(rows, -1, last)
    return _with_dim(value, dim, keepdim), _with_dim(last, dim, keepdim)


def _with_dim(picked: Tensor, dim: int, keepdim: bool) -> Tensor:
    """The last dimension, of size 1, back in its place or away."""
    return picked.movedim(-1, dim) if keepdim else picked.squeeze(-1)


@decomposes("aten.nanmedian.dim")
def nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median of what is not NaN, and its place; NaN where there is nothing else."""
    import torch

    if x.dim() == 0 or not x.is_floating_point():
        return torch.median(x, dim, keepdim)
    rows = x.movedim(dim, -1)
    values, order = torch.sort(rows, -1)
    count = (~torch.isnan(rows)).sum(-1, keepdim=True)
    middle = (count - 1).clamp(min=0) // 2
    value, place = torch.gather(values, -1, middle), torch.gather(order, -1, middle)
    return _with_dim(value, dim, keepdim), _with_dim(place, dim, keepdim)


@decomposes("aten.nanmedian.default")
def nanmedian(x: Tensor) -> Tensor:
    """The lower median of all elements that are not NaN."""
    if x.numel() == 0:
        return x.median()
    return nanmedian_dim(x.reshape(-1), 0)[0]

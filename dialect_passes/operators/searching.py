"""Places of values in sorted sequences, and histograms, which are counts of such places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import decomposes, traced_by_decomposition

if TYPE_CHECKING:
    from torch import Tensor

# Above this length a sequence is searched by halving instead of being compared as a whole.
_COMPARED = 1024


@decomposes("aten.searchsorted.Tensor")
def searchsorted(
    sequence: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many elements of the sorted last dimension go before each value; NaN goes last."""
    import torch

    common = torch.result_type(sequence, x)
    sequence, x = sequence.to(common), x.to(common)
    if sorter is not None:
        sequence = torch.gather(sequence, -1, sorter)
    after = right or side == "right"
    dtype = torch.int32 if out_int32 else torch.int64
    if x.numel() == 0 or sequence.shape[-1] == 0:
        return torch.zeros_like(x, dtype=dtype)
    values = x.reshape(-1) if sequence.dim() == 1 else x
    if isinstance(sequence.shape[-1], int) and sequence.shape[-1] > _COMPARED:
        return _halved(sequence, values, after).reshape(x.shape).to(dtype)
    rows = sequence.unsqueeze(-2)
    columns = values.unsqueeze(-1)
    return _goes_before(rows, columns, after).sum(-1).reshape(x.shape).to(dtype)


@decomposes("aten.searchsorted.Scalar")
def searchsorted_scalar(sequence: Tensor, x: Any, **options: Any) -> Tensor:
    """The place of one number."""

    return searchsorted(sequence, _number(x, sequence), **options)


@decomposes("aten.bucketize.Tensor")
def bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The place of each element among the boundaries."""
    import torch

    return torch.searchsorted(boundaries, x, out_int32=out_int32, right=right)


@decomposes("aten.bucketize.Scalar")
def bucketize_scalar(x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The place of one number."""
    return bucketize(_number(x, boundaries), boundaries, out_int32=out_int32, right=right)


def _number(x: Any, sequence: Tensor) -> Tensor:
    """In the type in which eager compares them: that of the sequence, but for a fraction among whole numbers."""
    import torch

    return torch.scalar_tensor(x, dtype=torch.result_type(sequence, x), device=sequence.device)


def _goes_before(element: Tensor, value: Tensor, after: bool) -> Tensor:
    """As eager asks it: whatever does not compare goes before, which puts NaN behind everything."""
    return ~(element > value) if after else ~(element >= value)


def _halved(sequence: Tensor, x: Tensor, after: bool) -> Tensor:
    """The binary search that eager does, for all values at once."""
    import torch

    size = sequence.shape[-1]
    start = torch.zeros_like(x, dtype=torch.int64)
    end = torch.full_like(x, size, dtype=torch.int64)
    for _ in range(size.bit_length()):
        middle = (start + end) // 2
        before = _goes_before(torch.gather(sequence, -1, middle.clamp(max=size - 1)), x, after)
        before = before & (start < end)
        start, end = torch.where(before, middle + 1, start), torch.where(before, end, middle)
    return start


@decomposes("aten.histc.default")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts per bin; from the smallest to the largest element where no range is given."""
    import torch

    flat = x.reshape(-1)
    low, high = _range(flat, (min, max) if min != max else None, 0, 1)
    place = ((flat - low) * bins / (high - low)).to(torch.int64)
    place = torch.where(place == bins, bins - 1, place)
    inside = (flat >= low) & (flat <= high)
    return _counts(place, inside, None, bins, x.dtype)


def _range(x: Tensor, given: Any, default: float, margin: float) -> tuple[Tensor, Tensor]:
    """The bounds as tensors: those given or the data's, `margin` to each side of a single value."""
    import torch

    if given is None and x.numel() != 0:
        first, last = x.amin(), x.amax()
    else:
        bounds = given or (0, default)
        first, last = (torch.full((), bound, dtype=x.dtype, device=x.device) for bound in bounds)
    level = first == last
    return torch.where(level, first - margin, first), torch.where(level, last + margin, last)


def _counts(place: Tensor, inside: Tensor, weight: Tensor | None, bins: int, dtype: Any) -> Tensor:
    import torch

    hits = (place.unsqueeze(0) == torch.arange(bins, device=place.device).unsqueeze(1)) & inside
    if weight is None:
        return hits.sum(1).to(dtype)
    return torch.where(hits, weight, torch.zeros((), dtype=dtype, device=place.device)).sum(1)


@traced_by_decomposition("aten.histogram.bin_ct")
def histogram(
    x: Tensor,
    bins: int = 100,
    *,
    range: list[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """Counts or weights per bin of equal width, and the edges."""
    flat = x.reshape(-1)
    edges = _edges(flat, bins, range)
    return histogram_edges(x, edges, weight=weight, density=density)


def _edges(x: Tensor, bins: int, range: list[float] | None) -> Tensor:
    """As torch.linspace: from the start in the first half, from the end in the second."""
    import torch

    low, high = _range(x, range, 1, 0.5)
    steps = torch.arange(bins + 1, device=x.device)
    step = (high - low) / bins
    up, down = low + step * steps, high - step * (bins - steps)
    return torch.where(steps < (bins + 1) // 2, up, down)


@traced_by_decomposition("aten.histogram.bins_tensor")
def histogram_edges(
    x: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """Counts or weights between the edges `bins`."""
    flat = x.reshape(-1)
    counts = _binned([flat], [bins], None if weight is None else weight.reshape(-1), x.dtype)
    return _density(counts, [bins]) if density else counts, bins.clone()


def _binned(points: list[Tensor], edges: list[Tensor], weight: Tensor | None, dtype: Any) -> Tensor:
    """Counts per cell: bins hold their lower edge, and the last one its upper edge too."""
    import torch

    place = torch.zeros_like(points[0], dtype=torch.int64)
    inside = torch.ones_like(points[0], dtype=torch.bool)
    cells = 1
    for x, edge in zip(points, edges, strict=True):
        bins = edge.shape[0] - 1
        mine = torch.searchsorted(edge, x, right=True) - 1
        last = x == edge[bins]
        place = place * bins + torch.where(last, bins - 1, mine)
        inside = inside & (x >= edge[0]) & (x <= edge[bins])
        cells = cells * bins
    return _counts(place, inside, weight, cells, dtype).reshape([edge.shape[0] - 1 for edge in edges])


def _density(counts: Tensor, edges: list[Tensor]) -> Tensor:
    total = counts.sum()
    for dim, edge in enumerate(edges):
        widths = (edge[1:] - edge[:-1]).reshape([-1 if d == dim else 1 for d in range(len(edges))])
        counts = counts / widths
    return counts / total


@traced_by_decomposition("aten._histogramdd_bin_edges.default")
def histogramdd_bin_edges(
    x: Tensor,
    bins: list[int],
    *,
    range: list[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> list[Tensor]:
    """The edges along each coordinate."""
    points = x.reshape(-1, x.shape[-1])
    spans = [None if range is None else range[2 * i : 2 * i + 2] for i, _ in enumerate(bins)]
    return [_edges(points[:, i], count, spans[i]) for i, count in enumerate(bins)]


@traced_by_decomposition("aten._histogramdd_from_bin_cts.default")
def histogramdd_counts(
    x: Tensor,
    bins: list[int],
    *,
    range: list[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    """Counts or weights per cell of equal widths."""
    edges = histogramdd_bin_edges(x, bins, range=range)
    return histogramdd_from_edges(x, edges, weight=weight, density=density)


@traced_by_decomposition("aten._histogramdd_from_bin_tensors.default")
def histogramdd_from_edges(
    x: Tensor, bins: list[Tensor], *, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    """Counts or weights per cell between the edges."""
    points = x.reshape(-1, x.shape[-1])
    columns = [points[:, i] for i in range(len(bins))]
    counts = _binned(columns, bins, None if weight is None else weight.reshape(-1), x.dtype)
    return _density(counts, bins) if density else counts


@decomposes("aten.bincount.default")
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Weights are added up where torch-mlir would count. Without elements eager counts, whatever the weights are."""
    import torch

    if weights is None:
        return (
            NotImplemented if x.dtype == torch.int64 else torch.bincount(x.to(torch.int64), None, minlength)
        )
    counts = torch.ops.aten.bincount.default(x, None, minlength)
    if x.numel() == 0:
        return counts
    dtype = torch.float32 if weights.dtype == torch.float32 else torch.float64
    return torch.zeros_like(counts, dtype=dtype).index_add(0, x.to(torch.int64), weights.to(dtype))

"""Minimum, maximum, clamping, sorting. Eager lets NaN through and puts it last; the stock lowerings drop it.

Short rows are sorted by rank: the place of an element is the number of elements that go before it. Long ones are merged
in a loop (`sort_loops`). IREE's own sort keeps NaN where it is, mixes up the indices of several sorts in one program,
and is a bubble sort.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import wrap_dim
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

Bound = int | float | None

_BY_RANK = 128
"""Rows up to this length are sorted by comparing all with all, in one loop with what comes before and after."""


@decomposes("aten.maximum.default")
def maximum(a: Tensor, b: Tensor) -> Tensor:
    """The larger; NaN where either is: a comparison with NaN is false, and NaN + x is NaN."""
    import torch

    a, b = _promoted(a, b)
    if not a.is_floating_point():
        return torch.where(a > b, a, b)
    return torch.where(a > b, a, torch.where(b >= a, b, a + b))


@decomposes("aten.minimum.default")
def minimum(a: Tensor, b: Tensor) -> Tensor:
    """The smaller; NaN where either is."""
    import torch

    a, b = _promoted(a, b)
    if not a.is_floating_point():
        return torch.where(a < b, a, b)
    return torch.where(a < b, a, torch.where(b <= a, b, a + b))


def _promoted(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    dtype = torch.result_type(a, b)
    return a.to(dtype), b.to(dtype)


def _is_nan(bound: Any) -> bool:
    """A size is none, and must not be looked at: that would fix it."""
    return isinstance(bound, float) and math.isnan(bound)


@decomposes("aten.clamp.default", "aten.clip.default")
def clamp(x: Tensor, min: Bound = None, max: Bound = None) -> Tensor:
    """x between two numbers; a NaN in x stays. The upper bound wins where they cross."""
    if min is not None:
        x = clamp_min(x, min)
    return x if max is None else clamp_max(x, max)


@decomposes("aten.clamp_min.default")
def clamp_min(x: Tensor, min: int | float) -> Tensor:
    """x, at least `min`; a NaN in x stays, and a bound of NaN gives NaN."""
    import torch

    x = x.to(torch.result_type(x, min))
    bound = torch.full((), min, dtype=x.dtype, device=x.device)
    return x * bound if _is_nan(min) else torch.where(x < bound, bound, x)


@decomposes("aten.clamp_max.default")
def clamp_max(x: Tensor, max: int | float) -> Tensor:
    """x, at most `max`; a NaN in x stays, and a bound of NaN gives NaN."""
    import torch

    x = x.to(torch.result_type(x, max))
    bound = torch.full((), max, dtype=x.dtype, device=x.device)
    return x * bound if _is_nan(max) else torch.where(x > bound, bound, x)


@decomposes("aten.clamp.Tensor", "aten.clip.Tensor")
def clamp_tensor(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """x between two tensors; NaN in any of them gives NaN."""
    import torch

    if min is not None:
        x = torch.maximum(x, min)
    return x if max is None else torch.minimum(x, max)


@decomposes("aten.clamp_min.Tensor")
def clamp_min_tensor(x: Tensor, min: Tensor) -> Tensor:
    """x, at least `min`, elementwise."""
    import torch

    return torch.maximum(x, min)


@decomposes("aten.clamp_max.Tensor")
def clamp_max_tensor(x: Tensor, max: Tensor) -> Tensor:
    """x, at most `max`, elementwise."""
    import torch

    return torch.minimum(x, max)


@decomposes("aten.hardtanh.default")
def hardtanh(x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    """A clamp, also of ReLU6. Of integers eager drops the limits' fractions."""
    if not x.is_floating_point():
        min_val, max_val = int(min_val), int(max_val)
    return clamp(x, min_val, max_val)


@decomposes("aten.hardsigmoid.default")
def hardsigmoid(x: Tensor) -> Tensor:
    """(x + 3) / 6 between 0 and 1."""
    import torch

    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return (clamp(wide + 3, 0, 6) / 6).to(x.dtype)


@decomposes("aten.argmax.default")
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element, or of the first NaN."""
    return _first_extreme(x, dim, keepdim, largest=True)


@decomposes("aten.argmin.default")
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element, or of the first NaN."""
    return _first_extreme(x, dim, keepdim, largest=False)


@decomposes("aten.max.dim")
def max_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The largest element along `dim` and its index."""
    return x.amax(dim, keepdim), argmax(x, dim, keepdim)


@decomposes("aten.min.dim")
def min_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest element along `dim` and its index."""
    return x.amin(dim, keepdim), argmin(x, dim, keepdim)


@decomposes("aten.max.default")
def max_all(x: Tensor) -> Tensor:
    """The largest element of all."""
    return x.amax()


@decomposes("aten.min.default")
def min_all(x: Tensor) -> Tensor:
    """The smallest element of all."""
    return x.amin()


def _first_extreme(x: Tensor, dim: int | None, keepdim: bool, *, largest: bool) -> Tensor:
    import torch

    if dim is None:
        first = _first_extreme(x.reshape(-1), 0, False, largest=largest)
        return first.reshape([1] * x.dim()) if keepdim else first
    if x.dim() == 0:
        return torch.zeros((), dtype=torch.int64, device=x.device)
    if not x.is_floating_point():
        x = x.to(torch.int64)
    extreme = x.amax(dim, True) if largest else x.amin(dim, True)
    places, end = _places(x, dim)
    return torch.where((x == extreme) | torch.isnan(x), places, end).amin(dim, keepdim)


def _places(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """0, 1, 2, ... along `dim`, to be broadcast over x; and a number behind the last."""
    import torch

    size = x.shape[dim]
    shape = [1] * x.dim()
    shape[dim] = size
    end = torch.full((), torch.iinfo(torch.int64).max, dtype=torch.int64, device=x.device)
    return torch.arange(size, device=x.device).reshape(shape), end


@decomposes("aten.sort.default")
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Sorted values and where they were; stable, NaN is larger than everything."""
    import torch

    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    order = _order(x.movedim(dim, -1), descending).movedim(-1, dim)
    return torch.gather(x, dim, order), order


@decomposes("aten.sort.stable")
def sort_stable(
    x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """As `sort`, which is stable anyway."""
    return sort(x, dim, descending)


@decomposes("aten.topk.default")
def topk(
    x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k first of a sort. Of equal elements PyTorch does not say which it takes; here the first."""
    values, order = sort(x, dim, largest)
    if x.dim() == 0:
        return values, order
    return _slice(values, dim, 0, k), _slice(order, dim, 0, k)


@decomposes("aten.kthvalue.default")
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest element and its index."""
    values, order = sort(x, dim)
    return _element(values, order, k - 1, dim, keepdim)


@decomposes("aten.median.dim")
def median_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median and its index; the first NaN where there is one."""
    import torch

    values, order = sort(x, dim)
    values, order = _element(values, order, (x.shape[dim] - 1) // 2 if x.dim() else 0, dim, keepdim)
    if not x.is_floating_point() or x.dim() == 0:
        return values, order
    missing = torch.isnan(x).any(dim, keepdim)
    nan = torch.full((), float("nan"), dtype=x.dtype, device=x.device)
    return torch.where(missing, nan, values), torch.where(missing, argmax(x, dim, keepdim), order)


@decomposes("aten.median.default")
def median(x: Tensor) -> Tensor:
    """The lower median of all elements; NaN where there is one. Of nothing: NaN, and what processors make of it."""
    import torch

    if x.numel() == 0:
        smallest = torch.iinfo(x.dtype).min if x.dtype in (torch.int32, torch.int64) else 0
        value = float("nan") if x.is_floating_point() else smallest
        return torch.full((), value, dtype=x.dtype, device=x.device)
    return median_dim(x.reshape(-1), 0)[0]


def _element(values: Tensor, order: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    if values.dim() == 0:
        return values, order
    values, order = _slice(values, dim, k, k + 1), _slice(order, dim, k, k + 1)
    return (values, order) if keepdim else (values.squeeze(dim), order.squeeze(dim))


def _slice(x: Tensor, dim: int, start: int, end: int) -> Tensor:
    import torch

    return torch.ops.aten.slice.Tensor(x, dim, start, end)


def _order(x: Tensor, descending: bool) -> Tensor:
    """For each place of the sorted last dimension, where its element was."""
    import torch

    size = x.shape[-1]
    if isinstance(size, int) and size <= _BY_RANK:
        return order_by_rank(x, descending)
    return (_order_by_halves if x.dtype == torch.int64 else _merged)(x, descending)


def order_by_rank(x: Tensor, descending: bool) -> Tensor:
    """The same by comparing all with all: fast where rows are short, or processors many.

    In 32 bits: IREE unrolls counters of 64 for shaders.
    """
    import torch

    size = x.shape[-1]
    mine, other = x.unsqueeze(-1), x.unsqueeze(-2)
    index = torch.arange(size, dtype=torch.int32, device=x.device)
    earlier = index.unsqueeze(0) < index.unsqueeze(1)
    before = _goes_before(other, mine, descending) | (_is_level(other, mine) & earlier)
    rank = before.sum(-1, dtype=torch.int32)
    nothing = torch.zeros((), dtype=torch.int32, device=x.device)
    found = torch.where(rank.unsqueeze(-2) == index.unsqueeze(-1), index, nothing)
    return found.sum(-1, dtype=torch.int32).to(torch.int64)


def _merged(x: Tensor, descending: bool) -> Tensor:
    """By the loop, which takes a stack of rows of float32, float64 or int32."""
    import torch

    from .sort_loops import stable_order

    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.to(torch.float32)
    elif x.dtype == torch.uint32:
        x = (x.to(torch.int64) - 2**31).to(torch.int32)
    elif not x.is_floating_point():
        x = x.to(torch.int32)
    rows = x.reshape(-1, x.shape[-1])
    return stable_order(rows, descending)[0].to(torch.int64).reshape(x.shape)


def _order_by_halves(x: Tensor, descending: bool) -> Tensor:
    """Of int64: by the lower 32 bits, as unsigned, and then, which is stable, by the upper ones."""
    import torch

    upper = x >> 32
    lower = (x - (upper << 32) - 2**31).to(torch.int32)
    first = _merged(lower, descending)
    second = _merged(torch.gather(upper, -1, first), descending)
    return torch.gather(first, -1, second)


def _goes_before(a: Tensor, b: Tensor, descending: bool) -> Tensor:
    import torch

    if a.dtype == torch.bool:
        a, b = a.to(torch.int32), b.to(torch.int32)
    if descending:
        a, b = b, a
    if not a.is_floating_point():
        return a < b
    return (a < b) | (torch.isnan(b) & ~torch.isnan(a))


def _is_level(a: Tensor, b: Tensor) -> Tensor:
    import torch

    return (a == b) | (torch.isnan(a) & torch.isnan(b)) if a.is_floating_point() else a == b


@shape_function("aten.cummax.default", "aten.cummin.default")
def cumulative_shape(x: list[int], dim: int) -> tuple[list[int], list[int]]:
    """Extremes so far, and their places."""
    wrap_dim(dim, len(x))
    return x, x


@dtype_function("aten.cummax.default", "aten.cummin.default")
def cumulative_dtype(x: tuple[int, int], dim: int) -> tuple[int, int]:
    """Places are int64."""
    _, dtype = x
    assert not dtypes.is_complex_dtype(dtype), "complex numbers have no order"
    return dtype, dtypes.int64

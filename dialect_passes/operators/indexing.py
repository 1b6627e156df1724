"""Reading and writing by index."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.broadcasting import broadcast
from pipeline.shape_lib.helpers.dims import assert_same, assert_sizes, product, wrap_dim
from pipeline.shape_lib.helpers.indexing import assert_scatter
from pipeline.shape_lib.helpers.promotion import same
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import Sample, call_samples


def _assert_index(dtype: int) -> None:
    assert dtype == dtypes.int64 or dtype == dtypes.int32, "an index is an int32 or int64"


def _assert_long(dtype: int) -> None:
    assert dtype == dtypes.int64, "the index must be an int64"


@shape_function("aten.index_reduce.default")
def index_reduce_shape(
    x: list[int], dim: int, index: list[int], source: list[int], reduce: str, include_self: bool
) -> list[int]:
    """That of the tensor written into."""
    assert reduce == "prod" or reduce == "mean" or reduce == "amax" or reduce == "amin", (
        "reduce is one of prod, mean, amax, amin"
    )
    wrapped = wrap_dim(dim, len(x))
    assert len(index) <= 1, "the index is a vector"
    assert max(len(x), 1) == max(len(source), 1), "tensor and source have different ranks"
    count = product(index)
    if len(source) > 0:
        assert source[wrapped] == count, "one index per row of the source is needed"
    for i in range(min(len(source), len(x))):
        assert i == wrapped or source[i] == x[i], "tensor and source differ beside the dimension"
    return x


@dtype_function("aten.index_reduce.default")
def index_reduce_dtype(
    x: tuple[int, int],
    dim: int,
    index: tuple[int, int],
    source: tuple[int, int],
    reduce: str,
    include_self: bool,
) -> int:
    """Of tensor and source alike."""
    _, dtype = x
    _, index_dtype = index
    _, source_dtype = source
    _assert_index(index_dtype)
    return same(dtype, source_dtype)


@shape_function("aten.put.default")
def put_shape(x: list[int], index: list[int], source: list[int], accumulate: bool) -> list[int]:
    """That of the tensor written into."""
    assert product(index) == product(source), "index and source have different numbers of elements"
    assert product(x) != 0 or product(index) == 0, "there is nothing to write into"
    return x


@dtype_function("aten.put.default")
def put_dtype(x: tuple[int, int], index: tuple[int, int], source: tuple[int, int], accumulate: bool) -> int:
    """Of tensor and source alike."""
    _, dtype = x
    _, index_dtype = index
    _, source_dtype = source
    _assert_long(index_dtype)
    return same(dtype, source_dtype)


def _assert_scatter_reduce(reduce: str) -> None:
    assert reduce == "add" or reduce == "multiply", "reduce is either add or multiply"


@shape_function("aten.scatter.reduce")
def scatter_reduce_shape(
    x: list[int], dim: int, index: list[int], source: list[int], reduce: str
) -> list[int]:
    """That of the tensor written into."""
    _assert_scatter_reduce(reduce)
    assert_scatter(x, dim, index, source)
    return x


@dtype_function("aten.scatter.reduce")
def scatter_reduce_dtype(
    x: tuple[int, int], dim: int, index: tuple[int, int], source: tuple[int, int], reduce: str
) -> int:
    """Of tensor and source alike."""
    _, dtype = x
    _, index_dtype = index
    _, source_dtype = source
    _assert_index(index_dtype)
    return same(dtype, source_dtype)


@shape_function("aten.scatter.value_reduce")
def scatter_value_reduce_shape(
    x: list[int], dim: int, index: list[int], value: float, reduce: str
) -> list[int]:
    """That of the tensor written into."""
    _assert_scatter_reduce(reduce)
    assert_scatter(x, dim, index, None)
    return x


@dtype_function("aten.scatter.value_reduce")
def scatter_value_reduce_dtype(
    x: tuple[int, int], dim: int, index: tuple[int, int], value: int | float, reduce: str
) -> int:
    """That of the tensor written into."""
    _, dtype = x
    _, index_dtype = index
    _assert_index(index_dtype)
    return dtype


# torch-mlir's own shape function does not broadcast.
@shape_function("aten.masked_scatter.default")
def masked_scatter_shape(x: list[int], mask: list[int], source: list[int]) -> list[int]:
    """Tensor and mask broadcast."""
    return broadcast(x, mask)


@dtype_function("aten.masked_scatter.default")
def masked_scatter_dtype(x: tuple[int, int], mask: tuple[int, int], source: tuple[int, int]) -> int:
    """Of tensor and source alike."""
    _, dtype = x
    _, mask_dtype = mask
    _, source_dtype = source
    assert mask_dtype == dtypes.bool_, "the mask is a tensor of bool"
    return same(dtype, source_dtype)


@shape_function("aten.masked_scatter_backward.default")
def masked_scatter_backward_shape(grad: list[int], mask: list[int], sizes: list[int]) -> list[int]:
    """That of the source, which is given."""
    assert_sizes(sizes)
    return sizes


@dtype_function("aten.masked_scatter_backward.default")
def masked_scatter_backward_dtype(grad: tuple[int, int], mask: tuple[int, int], sizes: list[int]) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


@shape_function("aten.searchsorted.Tensor")
def searchsorted_shape(
    sequence: list[int],
    x: list[int],
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: list[int] | None,
) -> list[int]:
    """A place for each value. One sequence serves all, or one per row."""
    if side is not None:
        assert side == "left" or side == "right", "side is either left or right"
        assert side == "right" or not right, "side and right contradict each other"
    assert len(sequence) > 0, "the sequence is a vector or a stack of vectors"
    if len(sequence) != 1:
        assert len(x) == len(sequence), "sequences and values have different ranks"
        assert_same(sequence[:-1], x[:-1])
    if sorter is not None:
        assert_same(sequence, sorter)
    return x


@dtype_function("aten.searchsorted.Tensor")
def searchsorted_dtype(
    sequence: tuple[int, int],
    x: tuple[int, int],
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: tuple[int, int] | None,
) -> int:
    """Indices."""
    _, dtype = sequence
    _, x_dtype = x
    assert dtype == x_dtype, "sequence and values have different dtypes"
    if sorter is not None:
        _, sorter_dtype = sorter
        _assert_long(sorter_dtype)
    if out_int32:
        return dtypes.int32
    return dtypes.int64


@call_samples("aten.scatter.value_reduce")
def scatter_value_samples() -> Iterable[Sample]:
    """Indices that fit, that are too large beside the dimension, of another rank; a reduction that there is not."""
    import torch

    for shape in ((2, 3), (5, 3), (2, 4), (2,), (0, 3)):
        for dtype in (torch.float32, torch.int64):
            index = torch.zeros(shape, dtype=torch.int64)
            yield [torch.ones(3, 3, dtype=dtype), 0, index, 2], {"reduce": "add"}
    yield [torch.ones(3, 3), 0, torch.zeros((2, 3), dtype=torch.int64), 2], {"reduce": "mean"}

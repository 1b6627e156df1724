"""Embeddings beyond a plain lookup."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import product
from pipeline.shape_lib.helpers.promotion import floating
from pipeline.shape_lib.registry import dtype_function, shape_function
from pipeline.shape_lib.sizes import unknown_size

from .registry import Sample, call_samples


def _assert_index(dtype: int) -> None:
    assert dtype == dtypes.int64 or dtype == dtypes.int32, "indices are int32 or int64"


@shape_function("aten.embedding_renorm.default")
def embedding_renorm_shape(x: list[int], indices: list[int], max_norm: float, norm_type: float) -> list[int]:
    """That of the weight."""
    assert len(x) == 2, "the weight is a matrix"
    return x


@dtype_function("aten.embedding_renorm.default")
def embedding_renorm_dtype(
    x: tuple[int, int], indices: tuple[int, int], max_norm: float, norm_type: float
) -> int:
    """That of the weight."""
    _, dtype = x
    _, index_dtype = indices
    _assert_index(index_dtype)
    return dtype


def _bags(
    weight: list[int],
    indices: list[int],
    offsets: list[int],
    mode: int,
    per_sample_weights: list[int] | None,
    include_last_offset: bool,
    counted_in_sums: int,
) -> tuple[list[int], list[int], list[int], list[int]]:
    """A row per bag, the bag of each index, the sizes of bags, and which index was the largest.

    Whether the bag of each index is left out depends on the dtype and the layout of the weight.
    counted_in_sums: how many sizes there are with the mode sum, where PyTorch may count the last offset.
    """
    assert len(weight) == 2, "the weight is a matrix"
    assert len(indices) == 1 and len(offsets) == 1, "indices and offsets are vectors"
    if per_sample_weights is not None:
        assert mode == 0, "weights per sample need the mode sum"
        assert product(per_sample_weights) == product(indices), "there is one weight per index"
    bags = offsets[0]
    if include_last_offset:
        assert bags >= 1, "there is no last offset"
        bags = bags - 1
    members, counted = indices[0], bags
    if mode == 0:
        members, counted = unknown_size(), counted_in_sums
    largest = [counted]
    if mode == 2:
        largest = [bags, weight[1]]
    return [bags, weight[1]], [members], [counted], largest


# torch-mlir's own shape function says that there are as many members as indices, or none.
@shape_function("aten._embedding_bag.default")
def embedding_bag_shape(
    weight: list[int],
    indices: list[int],
    offsets: list[int],
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: list[int] | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[list[int], list[int], list[int], list[int]]:
    """See `_bags`."""
    counted = product(offsets)
    if include_last_offset:
        counted = counted - 1
    return _bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset, counted)


@shape_function("aten._embedding_bag_forward_only.default")
def embedding_bag_forward_shape(
    weight: list[int],
    indices: list[int],
    offsets: list[int],
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: list[int] | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[list[int], list[int], list[int], list[int]]:
    """See `_bags`."""
    return _bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset, product(offsets))


# What torch-mlir's importer makes of both: one of them, depending on whether gradients are wanted.
@shape_function("aten.embedding_bag.padding_idx")
def embedding_bag_padding_shape(
    weight: list[int],
    indices: list[int],
    offsets: list[int],
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: list[int] | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> tuple[list[int], list[int], list[int], list[int]]:
    """See `_bags`."""
    counted = product(offsets)
    if include_last_offset:
        counted = unknown_size()
    return _bags(weight, indices, offsets, mode, per_sample_weights, include_last_offset, counted)


@dtype_function(
    "aten._embedding_bag.default",
    "aten._embedding_bag_forward_only.default",
    "aten.embedding_bag.padding_idx",
)
def embedding_bag_dtype(
    weight: tuple[int, int],
    indices: tuple[int, int],
    offsets: tuple[int, int],
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: tuple[int, int] | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> tuple[int, int, int, int]:
    """The rows have the weight's dtype, all else the wider of the two index dtypes."""
    _, dtype = weight
    dtype = floating(dtype)
    _, index_dtype = indices
    _, offset_dtype = offsets
    _assert_index(index_dtype)
    _assert_index(offset_dtype)
    wide = index_dtype
    if offset_dtype == dtypes.int64:
        wide = offset_dtype
    return dtype, wide, wide, wide


@shape_function("aten._embedding_bag_backward.default")
def embedding_bag_backward_shape(
    grad: list[int],
    indices: list[int],
    offsets: list[int],
    offset2bag: list[int],
    bag_size: list[int],
    maximum_indices: list[int],
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: list[int] | None,
    padding_idx: int,
) -> list[int]:
    """That of the weight."""
    assert not sparse, "sparse gradients are not supported"
    assert len(grad) == 2, "the gradient has one row per bag"
    assert num_weights >= 0, "there are less than no weights"
    return [num_weights, grad[1]]


@dtype_function("aten._embedding_bag_backward.default")
def embedding_bag_backward_dtype(
    grad: tuple[int, int],
    indices: tuple[int, int],
    offsets: tuple[int, int],
    offset2bag: tuple[int, int],
    bag_size: tuple[int, int],
    maximum_indices: tuple[int, int],
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: tuple[int, int] | None,
    padding_idx: int,
) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


@shape_function("aten._embedding_bag_per_sample_weights_backward.default")
def per_sample_weights_backward_shape(
    grad: list[int],
    weight: list[int],
    indices: list[int],
    offsets: list[int],
    offset2bag: list[int],
    mode: int,
    padding_idx: int,
) -> list[int]:
    """One weight per index."""
    assert mode == 0, "weights per sample need the mode sum"
    assert len(grad) == 2 and len(weight) == 2, "gradient and weight are matrices"
    assert grad[1] == weight[1], "gradient and weight have rows of different lengths"
    return [product(indices)]


@dtype_function("aten._embedding_bag_per_sample_weights_backward.default")
def per_sample_weights_backward_dtype(
    grad: tuple[int, int],
    weight: tuple[int, int],
    indices: tuple[int, int],
    offsets: tuple[int, int],
    offset2bag: tuple[int, int],
    mode: int,
    padding_idx: int,
) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


@call_samples("aten.embedding_bag.padding_idx")
def embedding_bag_samples() -> Iterable[Sample]:
    """All modes, with and without the last offset; torch takes this operator apart before it can be seen."""
    import torch

    indices, offsets = torch.tensor([0, 1, 2, 3, 4, 1]), torch.tensor([0, 3, 6])
    for dtype in (torch.float32, torch.float64):
        for mode in (0, 1, 2):
            for last in (False, True):
                weight = torch.ones(5, 4, dtype=dtype)
                yield [weight, indices, offsets, False, mode, False, None, last, None], {}
    yield [torch.ones(5, 4), indices, offsets, False, 1, False, torch.ones(6), False, None], {}

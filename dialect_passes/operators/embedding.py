"""Embeddings beyond a plain lookup."""

from __future__ import annotations

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import product
from pipeline.shape_lib.registry import dtype_function, shape_function


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

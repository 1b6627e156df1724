"""Copies of views, writes into views, and what only renames a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.shape_lib.helpers.dims import (
    assert_same,
    assert_sizes,
    inferred_sizes,
    with_size,
    without_dim,
    wrap_dim,
    wrap_dims,
)
from pipeline.shape_lib.helpers.indexing import diagonal_size
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.split_with_sizes.default")
def split_with_sizes(x: Tensor, split_sizes: list[int], dim: int = 0) -> list[Tensor]:
    """Parts of open sizes, which torch-mlir's lists of tensors cannot have, as slices."""
    import torch

    if all(isinstance(size, int) for size in split_sizes):
        return NotImplemented
    parts, start = [], 0
    for size in split_sizes:
        parts.append(torch.ops.aten.slice.Tensor(x, dim, start, start + size))
        start = start + size
    return parts


@shape_function("aten.alias.default", "prims.view_of.default")
def alias_shape(x: list[int]) -> list[int]:
    """That of the argument."""
    return x


@dtype_function("aten.alias.default", "prims.view_of.default")
def alias_dtype(x: tuple[int, int]) -> int:
    """That of the argument."""
    _, dtype = x
    return dtype


@shape_function("aten.view_copy.default")
def view_copy_shape(x: list[int], size: list[int]) -> list[int]:
    """The sizes asked for, of which one may be -1."""
    return inferred_sizes(x, size)


@dtype_function("aten.view_copy.default")
def view_copy_dtype(x: tuple[int, int], size: list[int]) -> int:
    """That of the argument."""
    _, dtype = x
    return dtype


@shape_function("aten.permute_copy.default")
def permute_copy_shape(x: list[int], dims: list[int]) -> list[int]:
    """The sizes in another order."""
    assert len(dims) == len(x), "one number per dimension is needed"
    result: list[int] = []
    for dim in wrap_dims(dims, len(x)):
        result.append(x[dim])
    return result


@dtype_function("aten.permute_copy.default")
def permute_copy_dtype(x: tuple[int, int], dims: list[int]) -> int:
    """That of the argument."""
    _, dtype = x
    return dtype


def _assert_strides(size: list[int], stride: list[int], storage_offset: int | None) -> None:
    if storage_offset is not None:
        assert storage_offset >= 0, "the offset is negative"
    assert len(size) == len(stride), "one stride per size is needed"
    assert_sizes(size)
    for step in stride:
        assert step >= 0, "a stride is negative"


@shape_function("aten.as_strided_copy.default")
def as_strided_copy_shape(
    x: list[int], size: list[int], stride: list[int], storage_offset: int | None
) -> list[int]:
    """The sizes asked for. Whether they lie within the storage is not for shapes to say."""
    _assert_strides(size, stride, storage_offset)
    return size


@dtype_function("aten.as_strided_copy.default")
def as_strided_copy_dtype(
    x: tuple[int, int], size: list[int], stride: list[int], storage_offset: int | None
) -> int:
    """That of the argument."""
    _, dtype = x
    return dtype


@shape_function("aten.as_strided_scatter.default")
def as_strided_scatter_shape(
    x: list[int], source: list[int], size: list[int], stride: list[int], storage_offset: int | None
) -> list[int]:
    """That of the tensor written into."""
    _assert_strides(size, stride, storage_offset)
    assert_same(source, size)
    return x


@dtype_function("aten.as_strided_scatter.default")
def as_strided_scatter_dtype(
    x: tuple[int, int],
    source: tuple[int, int],
    size: list[int],
    stride: list[int],
    storage_offset: int | None,
) -> int:
    """That of the tensor written into."""
    _, dtype = x
    return dtype


@shape_function("aten.diagonal_scatter.default")
def diagonal_scatter_shape(x: list[int], source: list[int], offset: int, dim1: int, dim2: int) -> list[int]:
    """That of the tensor written into; the source has the diagonal's shape."""
    first, second = wrap_dim(dim1, len(x)), wrap_dim(dim2, len(x))
    assert first != second, "a diagonal lies in two different dimensions"
    diagonal = without_dim(without_dim(x, max(first, second)), min(first, second))
    diagonal.append(diagonal_size(x[first], x[second], offset))
    assert_same(source, diagonal)
    return x


@dtype_function("aten.diagonal_scatter.default")
def diagonal_scatter_dtype(
    x: tuple[int, int], source: tuple[int, int], offset: int, dim1: int, dim2: int
) -> int:
    """That of the tensor written into."""
    _, dtype = x
    return dtype


@shape_function("aten.narrow_copy.default")
def narrow_copy_shape(x: list[int], dim: int, start: int, length: int) -> list[int]:
    """`length` along `dim`."""
    assert len(x) > 0, "a 0-d tensor cannot be narrowed"
    wrapped = wrap_dim(dim, len(x))
    size = x[wrapped]
    assert length >= 0, "the length is negative"
    assert start >= -size and start <= size, "the start lies outside of the dimension"
    if start < 0:
        start = start + size
    assert start + length <= size, "the part reaches beyond the dimension"
    return with_size(x, wrapped, length)


@dtype_function("aten.narrow_copy.default")
def narrow_copy_dtype(x: tuple[int, int], dim: int, start: int, length: int) -> int:
    """That of the argument."""
    _, dtype = x
    return dtype


@shape_function("aten.resize.default")
def resize_shape(x: list[int], size: list[int], memory_format: int | None) -> list[int]:
    """The sizes asked for."""
    assert_sizes(size)
    return size


@dtype_function("aten.resize.default")
def resize_dtype(x: tuple[int, int], size: list[int], memory_format: int | None) -> int:
    """That of the argument."""
    _, dtype = x
    return dtype


# Lists of tensors: a list of shapes, and one dtype for all.
@shape_function("aten.split_with_sizes.default")
def split_with_sizes_shape(x: list[int], split_sizes: list[int], dim: int) -> list[list[int]]:
    """A part of each size along `dim`."""
    assert len(x) > 0, "a 0-d tensor cannot be split"
    wrapped = wrap_dim(dim, len(x))
    total = 0
    parts: list[list[int]] = []
    for size in split_sizes:
        assert size >= 0, "a part has a negative size"
        total = total + size
        parts.append(with_size(x, wrapped, size))
    assert total == x[wrapped], "the parts do not add up to the size of the dimension"
    return parts


@dtype_function("aten.split_with_sizes.default")
def split_with_sizes_dtype(x: tuple[int, int], split_sizes: list[int], dim: int) -> int:
    """That of the argument."""
    _, dtype = x
    return dtype


@shape_function("aten.unbind_copy.int", "aten.unbind.int")
def unbind_shape(x: list[int], dim: int) -> list[list[int]]:
    """The slices along `dim`, without it."""
    assert len(x) > 0, "a 0-d tensor has no slices"
    wrapped = wrap_dim(dim, len(x))
    parts: list[list[int]] = []
    for _ in range(x[wrapped]):
        parts.append(without_dim(x, wrapped))
    return parts


@dtype_function("aten.unbind_copy.int", "aten.unbind.int")
def unbind_dtype(x: tuple[int, int], dim: int) -> int:
    """That of the argument."""
    _, dtype = x
    return dtype

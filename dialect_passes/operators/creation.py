"""Tensors made from sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import assert_sizes, wrap_dims
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import Sample, call_samples, decomposes

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@decomposes("aten.empty_permuted.default", "aten.empty_strided.default")
def empty_laid_out(size: list[int], layout_in_memory: list[int], **options: Any) -> Tensor:
    """Compiled programs choose layouts themselves."""
    import torch

    return torch.ops.aten.empty.memory_format(size, **options)


@decomposes("aten.new_empty_strided.default")
def new_empty_strided(x: Tensor, size: list[int], stride: list[int], **options: Any) -> Tensor:
    """Compiled programs choose layouts themselves."""
    import torch

    return torch.ops.aten.new_empty.default(x, size, **options)


@decomposes("aten.arange.start_step")
def arange(
    start: Any, end: Any, step: Any = 1, *, dtype: torch.dtype | None = None, **options: Any
) -> Tensor:
    """Floats up to an open size are counted as whole numbers: IREE cannot tell how many there are else."""
    import torch

    counted = all(isinstance(number, (int, torch.SymInt)) for number in (start, end, step))
    if not counted or isinstance(end, int) or dtype is None or not dtype.is_floating_point:
        return NotImplemented
    return torch.ops.aten.arange.start_step(start, end, step, dtype=torch.int64, **options).to(dtype)


@decomposes("aten._efficientzerotensor.default")
def zero_tensor(size: list[int], **options: Any) -> Tensor:
    """Gradients that are zero everywhere come as these."""
    import torch

    return torch.ops.aten.zeros.default(size, **options)


@decomposes("aten._new_zeros_with_same_feature_meta.default")
def zeros_for_a_tangent(x: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    """Zeros like `other`, behind the batch dimensions of `x`: forward-mode AD under vmap makes its tangents so."""
    import torch

    size = [*x.shape[:self_num_batch_dims], *other.shape]
    return torch.zeros(size, dtype=other.dtype, device=other.device)


@shape_function("aten._new_zeros_with_same_feature_meta.default")
def zeros_for_a_tangent_shape(x: list[int], other: list[int], self_num_batch_dims: int) -> list[int]:
    """The batch dimensions of the first, then the sizes of the second."""
    assert self_num_batch_dims <= len(x), "there are not so many batch dimensions"
    return x[:self_num_batch_dims] + other


@dtype_function("aten._new_zeros_with_same_feature_meta.default")
def zeros_for_a_tangent_dtype(x: tuple[int, int], other: tuple[int, int], self_num_batch_dims: int) -> int:
    """That of the second."""
    _, dtype = other
    return dtype


@call_samples("aten._new_zeros_with_same_feature_meta.default")
def zeros_for_a_tangent_samples() -> Iterator[Sample]:
    """With and without batch dimensions, and of two dtypes."""
    import torch

    yield [torch.ones(2, 3), torch.ones(2, 3)], {}
    yield [torch.ones(5, 4, 2, dtype=torch.float64), torch.ones(2, 3)], {"self_num_batch_dims": 2}


@shape_function("aten._efficientzerotensor.default")
def zero_tensor_shape(
    size: list[int], dtype: int | None, layout: int | None, device: Any, pin_memory: bool | None
) -> list[int]:
    """The sizes given."""
    assert_sizes(size)
    return size


@dtype_function("aten._efficientzerotensor.default")
def zero_tensor_dtype(
    size: list[int], dtype: int | None, layout: int | None, device: Any, pin_memory: bool | None
) -> int:
    """The dtype given, or the default."""
    if dtype is None:
        return dtypes.float32
    return dtype


@shape_function("aten.empty_permuted.default")
def empty_permuted_shape(
    size: list[int],
    physical_layout: list[int],
    dtype: int | None,
    layout: int | None,
    device: Any,
    pin_memory: bool | None,
) -> list[int]:
    """The sizes given; the order in memory names each dimension once."""
    assert len(size) == len(physical_layout), "the order in memory names another number of dimensions"
    for dim in physical_layout:
        assert dim >= 0, "dimensions of the order in memory are not negative"
    wrap_dims(physical_layout, len(size))
    assert_sizes(size)
    return size


@dtype_function("aten.empty_permuted.default")
def empty_permuted_dtype(
    size: list[int],
    physical_layout: list[int],
    dtype: int | None,
    layout: int | None,
    device: Any,
    pin_memory: bool | None,
) -> int:
    """The dtype given, or the default."""
    if dtype is None:
        return dtypes.float32
    return dtype

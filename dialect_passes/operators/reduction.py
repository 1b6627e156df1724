"""Reductions whose shapes or dtypes torch-mlir does not know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import wrap_dims
from pipeline.shape_lib.helpers.promotion import floating_or_complex
from pipeline.shape_lib.helpers.reduction import over, reduced
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import Sample, call_samples, decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.amax.default", "aten.amin.default")
def extreme_of_number(x: Tensor, dim: list[int] | None = None, keepdim: bool = False) -> Tensor:
    """torch-mlir has no reduction of a tensor without dimensions: it is its own extreme."""
    return NotImplemented if x.dim() else x.clone()


@decomposes("aten.prod.dim_int")
def product_of_number(x: Tensor, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Likewise; of integers and bools in int64, as eager's."""
    return NotImplemented if x.dim() else x.prod(dtype=dtype)


@decomposes("aten.linalg_vector_norm.default")
def norm_of_number(
    x: Tensor,
    ord: Any = 2,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Of a number as of a vector of one element."""
    import torch

    return NotImplemented if x.dim() else torch.linalg.vector_norm(x.reshape(1), ord, dtype=dtype)


@decomposes("aten.aminmax.default")
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Both extremes, along `dim` or of all."""
    dims = list(range(x.dim())) if dim is None else [dim]
    return x.amin(dims, keepdim), x.amax(dims, keepdim)


@decomposes("aten.any.dim")
def any_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """As for amax: a number is reduced to its own truth."""
    return NotImplemented if x.dim() else _truth(x)


@decomposes("aten.all.dim")
def all_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """As for amax: a number is reduced to its own truth."""
    return NotImplemented if x.dim() else _truth(x)


@decomposes("aten.any.dims")
def any_dims(x: Tensor, dim: list[int] | None = None, keepdim: bool = False) -> Tensor:
    """One dimension after the other; torch-mlir crashes on several. No dimensions leave each element's truth."""
    import torch

    return _truth_over(torch.ops.aten.any.dim, x, dim, keepdim)


@decomposes("aten.all.dims")
def all_dims(x: Tensor, dim: list[int] | None = None, keepdim: bool = False) -> Tensor:
    """One dimension after the other. No dimensions leave each element's truth."""
    import torch

    return _truth_over(torch.ops.aten.all.dim, x, dim, keepdim)


def _truth_over(reduce: Any, x: Tensor, dim: list[int] | None, keepdim: bool) -> Tensor:
    dims = range(x.dim()) if dim is None else (d % max(x.dim(), 1) for d in dim)
    result = x
    for d in sorted(dims, reverse=True) if x.dim() else ():
        result = reduce(result, d, keepdim)
    return _truth(x) if result is x else result


def _truth(x: Tensor) -> Tensor:
    import torch

    return (x != 0).to(torch.uint8 if x.dtype == torch.uint8 else torch.bool)


@shape_function("aten.any.dims", "aten.all.dims")
def truth_dims_shape(x: list[int], dim: list[int] | None, keepdim: bool) -> list[int]:
    """Over `dim`: None means all, and an empty list none."""
    if dim is None:
        return over(x, None, keepdim)
    return reduced(x, wrap_dims(dim, len(x)), keepdim)


@dtype_function("aten.any.dims", "aten.all.dims")
def truth_dims_dtype(x: tuple[int, int], dim: list[int] | None, keepdim: bool) -> int:
    """bool, and uint8 for uint8."""
    _, dtype = x
    if dtype == dtypes.uint8:
        return dtype
    return dtypes.bool_


@shape_function("aten.norm.ScalarOpt_dim")
def norm_shape(x: list[int], p: float | None, dim: list[int], keepdim: bool) -> list[int]:
    """Over `dim`; an empty list means all."""
    return over(x, dim, keepdim)


@dtype_function("aten.norm.ScalarOpt_dim")
def norm_dtype(x: tuple[int, int], p: int | float | None, dim: list[int], keepdim: bool) -> int:
    """Real."""
    _, dtype = x
    return dtypes.real_dtype(floating_or_complex(dtype))


@call_samples("aten.all.dims")
def all_dims_samples() -> Iterable[Sample]:
    """Over some dimensions, over none, over one twice, over one that there is not."""
    import torch

    for dtype in (torch.float32, torch.uint8, torch.bool):
        for dims in ([0, -1], [1], [], None, [0, -3], [3]):
            for keepdim in (False, True):
                yield [torch.ones(2, 3, 4, dtype=dtype), dims, keepdim], {}

"""Elementwise operators that torch-mlir does not know, or whose shapes it does not broadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.broadcasting import broadcast
from pipeline.shape_lib.helpers.promotion import floating, inexact, promoted, real_inexact
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import decomposes
from .whole import whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_BINARY_FLOAT = (
    "aten.hypot.default",
    "aten.igamma.default",
    "aten.igammac.default",
    "aten.nextafter.default",
)


@decomposes("aten.nextafter.default")
def nextafter(a: Tensor, b: Tensor) -> Tensor:
    """The number next to a on the way to b."""
    import torch

    return whole(torch.nextafter, a, b)


@decomposes("aten.view.dtype")
def view_bits(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Of bytes a conversion, since they wrap; of wider types whole."""
    import torch

    return x.to(dtype) if {x.dtype, dtype} == {torch.int8, torch.uint8} else NotImplemented


# torch-mlir's own shape function of logaddexp does not broadcast.
@shape_function(*_BINARY_FLOAT, "aten.logaddexp.default")
def binary_shape(a: list[int], b: list[int]) -> list[int]:
    """Both broadcast."""
    return broadcast(a, b)


@dtype_function(*_BINARY_FLOAT)
def binary_float_dtype(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Of floats only."""
    return floating(promoted(a, b))


@dtype_function("aten.logaddexp.default")
def logaddexp_dtype(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Of floats and complex numbers."""
    dtype = promoted(a, b)
    assert not dtypes.is_integer_dtype(dtype), "logaddexp needs floating-point or complex numbers"
    return dtype


@shape_function("aten.copysign.Scalar")
def copysign_scalar_shape(x: list[int], other: float) -> list[int]:
    """That of the tensor."""
    return x


@dtype_function("aten.copysign.Scalar")
def copysign_scalar_dtype(x: tuple[int, int], other: int | float) -> int:
    """Integers become floats; the number never decides."""
    _, dtype = x
    return real_inexact(dtype)


@shape_function("aten.frexp.Tensor")
def frexp_shape(x: list[int]) -> tuple[list[int], list[int]]:
    """Mantissa and exponent of each element."""
    return x, x


@dtype_function("aten.frexp.Tensor")
def frexp_dtype(x: tuple[int, int]) -> tuple[int, int]:
    """The exponent is an int32."""
    _, dtype = x
    return floating(dtype), dtypes.int32


@shape_function("aten.hardshrink_backward.default", "aten.softshrink_backward.default")
def shrink_backward_shape(grad: list[int], x: list[int], lambd: float) -> list[int]:
    """Both broadcast."""
    return broadcast(grad, x)


@dtype_function("aten.hardshrink_backward.default", "aten.softshrink_backward.default")
def shrink_backward_dtype(grad: tuple[int, int], x: tuple[int, int], lambd: int | float) -> int:
    """That of both, promoted."""
    dtype = promoted(grad, x)
    assert not dtypes.is_complex_dtype(dtype), "shrinking is not defined for complex numbers"
    return inexact(dtype)

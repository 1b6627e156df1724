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
    """Of bytes a conversion, since they wrap; of one wider width whole; of another width by shifts in int64."""
    import torch

    if {x.dtype, dtype} == {torch.int8, torch.uint8}:
        return x.to(dtype)
    if (
        x.element_size() == dtype.itemsize
        or torch.bool in (x.dtype, dtype)
        or x.is_complex()
        or dtype.is_complex
    ):
        return NotImplemented
    whole_numbers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = x.view(whole_numbers[x.element_size()]).to(torch.int64)
    narrow = min(x.element_size(), dtype.itemsize)
    count = max(x.element_size(), dtype.itemsize) // narrow
    change = _split_bits if narrow == dtype.itemsize else _joined_bits
    found = change(bits, 8 * narrow, count)
    return found.to(whole_numbers[dtype.itemsize]).view(dtype)


def _split_bits(bits: Tensor, width: int, count: int) -> Tensor:
    """Each number's parts, the lowest first, along the last dimension."""
    import torch

    parts = [bits, *(bits >> (width * k) for k in range(1, count))]
    return (torch.stack(parts, -1) & ((1 << width) - 1)).flatten(-2)


def _joined_bits(bits: Tensor, width: int, count: int) -> Tensor:
    """Numbers of as many neighbours along the last dimension, the lowest first."""
    parts = (bits & ((1 << width) - 1)).unflatten(-1, (-1, count)).unbind(-1)
    joined = parts[0]
    for k in range(1, count):
        joined = joined | (parts[k] << (width * k))
    return joined


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

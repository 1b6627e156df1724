"""Dtypes of results, from (rank, dtype) pairs and torch's dtype codes."""

from __future__ import annotations

from .. import dtypes
from ..dtypes import promote_dtypes


def promoted(a: tuple[int, int], b: tuple[int, int]) -> int:
    """PyTorch's result type of two tensors."""
    a_rank, a_dtype = a
    b_rank, b_dtype = b
    return promote_dtypes([a_rank, b_rank], [a_dtype, b_dtype])


def inexact(dtype: int) -> int:
    """Integers become the default float type; floating and complex types stay."""
    if dtypes.is_integer_dtype(dtype):
        return dtypes.float32
    return dtype


def real_inexact(dtype: int) -> int:
    """`inexact`, for functions that complex numbers do not have."""
    assert not dtypes.is_complex_dtype(dtype), "the function is not defined for complex numbers"
    return inexact(dtype)


def floating(dtype: int) -> int:
    """`dtype`, which must be a real floating-point type."""
    assert not dtypes.is_integer_dtype(dtype) and not dtypes.is_complex_dtype(dtype), (
        "a floating-point dtype is needed"
    )
    return dtype


def floating_or_complex(dtype: int) -> int:
    """`dtype`, which must not be an integer type."""
    assert not dtypes.is_integer_dtype(dtype), "a floating-point or complex dtype is needed"
    return dtype


def integral(dtype: int) -> int:
    """`dtype`, which must be an integer type or bool."""
    assert dtypes.is_integer_dtype(dtype), "an integer dtype is needed"
    return dtype


def double_or_single(dtype: int) -> int:
    """`dtype`, which LAPACK must know: f32 and f64, real or complex."""
    assert (
        dtype == dtypes.float32
        or dtype == dtypes.float64
        or dtype == dtypes.complex64
        or dtype == dtypes.complex128
    ), "the dtype must be one of float32, float64, complex64, complex128"
    return dtype


def to_complex(dtype: int) -> int:
    """The complex type with parts of `dtype`."""
    if dtype == dtypes.float64:
        return dtypes.complex128
    if dtype == dtypes.float32:
        return dtypes.complex64
    if dtype == dtypes.float16:
        return dtypes.complex32
    assert dtypes.is_complex_dtype(dtype), "there are no complex numbers with parts of this dtype"
    return dtype


def same(a: int, b: int) -> int:
    """The one dtype of two tensors that must agree."""
    assert a == b, "the tensors must have the same dtype"
    return a

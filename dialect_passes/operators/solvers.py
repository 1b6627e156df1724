"""Solvers of linear systems."""

from __future__ import annotations

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import assert_same
from pipeline.shape_lib.helpers.matrices import (
    assert_square,
    batch,
    is_vector_for,
    solved,
)
from pipeline.shape_lib.helpers.promotion import double_or_single, same
from pipeline.shape_lib.registry import dtype_function, shape_function


@shape_function("aten.cholesky_solve.default")
def cholesky_solve_shape(b: list[int], a: list[int], upper: bool) -> list[int]:
    """That of the right side, batches broadcast."""
    return solved(a, b, True)


@dtype_function("aten.cholesky_solve.default")
def cholesky_solve_dtype(b: tuple[int, int], a: tuple[int, int], upper: bool) -> int:
    """Of both alike."""
    _, dtype = b
    _, a_dtype = a
    return same(double_or_single(dtype), a_dtype)


@shape_function("aten.linalg_solve_triangular.default")
def solve_triangular_shape(
    a: list[int], b: list[int], upper: bool, left: bool, unitriangular: bool
) -> list[int]:
    """That of the right side, batches broadcast."""
    return solved(a, b, left)


@dtype_function("aten.linalg_solve_triangular.default")
def solve_triangular_dtype(
    a: tuple[int, int], b: tuple[int, int], upper: bool, left: bool, unitriangular: bool
) -> int:
    """Of both alike."""
    _, dtype = a
    _, b_dtype = b
    return same(double_or_single(dtype), b_dtype)


@shape_function("aten.triangular_solve.default")
def triangular_solve_shape(
    b: list[int], a: list[int], upper: bool, transpose: bool, unitriangular: bool
) -> tuple[list[int], list[int]]:
    """The solution and the coefficients, batches broadcast."""
    solution = solved(a, b, True)
    return solution, batch(solution) + [a[-2], a[-1]]


@dtype_function("aten.triangular_solve.default")
def triangular_solve_dtype(
    b: tuple[int, int], a: tuple[int, int], upper: bool, transpose: bool, unitriangular: bool
) -> tuple[int, int]:
    """Of both alike."""
    _, dtype = b
    _, a_dtype = a
    return same(double_or_single(dtype), a_dtype), a_dtype


@shape_function("aten._linalg_solve_ex.default")
def solve_ex_shape(
    a: list[int], b: list[int], left: bool, check_errors: bool
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Solution, LU factors, pivots, and a status per matrix. The right side may hold vectors."""
    assert_square(a)
    if is_vector_for(a, b):
        assert left, "vectors stand on the right of a matrix only"
        column = b + [1]
        solution = solved(a, column, True)[:-1]
    else:
        solution = solved(a, b, left)
    return solution, a, a[:-1], batch(a)


@dtype_function("aten._linalg_solve_ex.default")
def solve_ex_dtype(
    a: tuple[int, int], b: tuple[int, int], left: bool, check_errors: bool
) -> tuple[int, int, int, int]:
    """Pivots and status are int32."""
    _, dtype = a
    _, b_dtype = b
    dtype = same(double_or_single(dtype), b_dtype)
    return dtype, dtype, dtypes.int32, dtypes.int32


@shape_function("aten.linalg_lu_solve.default")
def lu_solve_shape(lu: list[int], pivots: list[int], b: list[int], left: bool, adjoint: bool) -> list[int]:
    """That of the right side, batches broadcast."""
    assert_square(lu)
    assert_same(lu[:-1], pivots)
    return solved(lu, b, left)


@dtype_function("aten.linalg_lu_solve.default")
def lu_solve_dtype(
    lu: tuple[int, int], pivots: tuple[int, int], b: tuple[int, int], left: bool, adjoint: bool
) -> int:
    """Of factors and right side alike."""
    _, dtype = lu
    _, pivots_dtype = pivots
    _, b_dtype = b
    assert pivots_dtype == dtypes.int32, "pivots are int32"
    return same(double_or_single(dtype), b_dtype)


@shape_function("aten.linalg_ldl_solve.default")
def ldl_solve_shape(ld: list[int], pivots: list[int], b: list[int], hermitian: bool) -> list[int]:
    """That of the right side, batches broadcast."""
    assert_square(ld)
    assert_same(ld[:-1], pivots)
    return solved(ld, b, True)


@dtype_function("aten.linalg_ldl_solve.default")
def ldl_solve_dtype(ld: tuple[int, int], pivots: tuple[int, int], b: tuple[int, int], hermitian: bool) -> int:
    """Of factors and right side alike."""
    _, dtype = ld
    _, pivots_dtype = pivots
    _, b_dtype = b
    assert pivots_dtype == dtypes.int32 or pivots_dtype == dtypes.int64, "pivots are integers"
    return same(double_or_single(dtype), b_dtype)

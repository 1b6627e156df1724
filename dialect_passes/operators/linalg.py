"""Factorisations, solvers and products of matrices."""

from __future__ import annotations

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.broadcasting import broadcast
from pipeline.shape_lib.helpers.dims import assert_same
from pipeline.shape_lib.helpers.matrices import (
    assert_matrices,
    assert_same_batch,
    assert_square,
    batch,
    smaller_side,
)
from pipeline.shape_lib.helpers.promotion import double_or_single, floating_or_complex, same, to_complex
from pipeline.shape_lib.registry import dtype_function, shape_function


def _rows_columns(a: list[int], rows: int, columns: int) -> list[int]:
    """The stack of matrices of that size with the batch of `a`."""
    result = batch(a)
    result.append(rows)
    result.append(columns)
    return result


@shape_function("aten.cholesky.default", "aten.cholesky_inverse.default")
def cholesky_shape(a: list[int], upper: bool) -> list[int]:
    """That of the matrices."""
    assert_square(a)
    return a


@dtype_function("aten.cholesky.default", "aten.cholesky_inverse.default")
def cholesky_dtype(a: tuple[int, int], upper: bool) -> int:
    """That of the matrices."""
    _, dtype = a
    return double_or_single(dtype)


@shape_function("aten.linalg_cholesky_ex.default")
def cholesky_ex_shape(a: list[int], upper: bool, check_errors: bool) -> tuple[list[int], list[int]]:
    """The factor, and a status per matrix."""
    assert_square(a)
    return a, batch(a)


@dtype_function("aten.linalg_cholesky_ex.default")
def cholesky_ex_dtype(a: tuple[int, int], upper: bool, check_errors: bool) -> tuple[int, int]:
    """The status is an int32."""
    _, dtype = a
    return double_or_single(dtype), dtypes.int32


@shape_function("aten.linalg_inv_ex.default")
def inverse_ex_shape(a: list[int], check_errors: bool) -> tuple[list[int], list[int]]:
    """The inverse, and a status per matrix."""
    assert_square(a)
    return a, batch(a)


@dtype_function("aten.linalg_inv_ex.default")
def inverse_ex_dtype(a: tuple[int, int], check_errors: bool) -> tuple[int, int]:
    """The status is an int32."""
    _, dtype = a
    return double_or_single(dtype), dtypes.int32


@shape_function("aten.linalg_lu.default")
def lu_shape(a: list[int], pivot: bool) -> tuple[list[int], list[int], list[int]]:
    """P, L and U; without pivoting P is empty."""
    assert_matrices(a)
    side = smaller_side(a)
    permutation = [0]
    if pivot:
        permutation = _rows_columns(a, a[-2], a[-2])
    return permutation, _rows_columns(a, a[-2], side), _rows_columns(a, side, a[-1])


@dtype_function("aten.linalg_lu.default")
def lu_dtype(a: tuple[int, int], pivot: bool) -> tuple[int, int, int]:
    """That of the matrices."""
    _, dtype = a
    dtype = double_or_single(dtype)
    return dtype, dtype, dtype


@shape_function("aten.linalg_lu_factor_ex.default")
def lu_factor_ex_shape(
    a: list[int], pivot: bool, check_errors: bool
) -> tuple[list[int], list[int], list[int]]:
    """The factors in one, pivots, and a status per matrix."""
    assert_matrices(a)
    return a, batch(a) + [smaller_side(a)], batch(a)


@dtype_function("aten.linalg_lu_factor_ex.default")
def lu_factor_ex_dtype(a: tuple[int, int], pivot: bool, check_errors: bool) -> tuple[int, int, int]:
    """Pivots and status are int32."""
    _, dtype = a
    return double_or_single(dtype), dtypes.int32, dtypes.int32


@shape_function("aten.lu_unpack.default")
def lu_unpack_shape(
    lu: list[int], pivots: list[int], unpack_data: bool, unpack_pivots: bool
) -> tuple[list[int], list[int], list[int]]:
    """P, L and U; what is not unpacked is empty."""
    assert_matrices(lu)
    side = smaller_side(lu)
    permutation = [0]
    if unpack_pivots:
        permutation = _rows_columns(lu, lu[-2], lu[-2])
    lower, upper = [0], [0]
    if unpack_data:
        lower, upper = _rows_columns(lu, lu[-2], side), _rows_columns(lu, side, lu[-1])
    return permutation, lower, upper


@dtype_function("aten.lu_unpack.default")
def lu_unpack_dtype(
    lu: tuple[int, int], pivots: tuple[int, int], unpack_data: bool, unpack_pivots: bool
) -> tuple[int, int, int]:
    """That of the factors."""
    _, dtype = lu
    _, pivots_dtype = pivots
    assert not unpack_pivots or pivots_dtype == dtypes.int32, "pivots are int32"
    return dtype, dtype, dtype


@shape_function("aten.linalg_ldl_factor_ex.default")
def ldl_factor_ex_shape(
    a: list[int], hermitian: bool, check_errors: bool
) -> tuple[list[int], list[int], list[int]]:
    """The factors in one, pivots, and a status per matrix."""
    assert_square(a)
    return a, a[:-1], batch(a)


@dtype_function("aten.linalg_ldl_factor_ex.default")
def ldl_factor_ex_dtype(a: tuple[int, int], hermitian: bool, check_errors: bool) -> tuple[int, int, int]:
    """Pivots and status are int32."""
    _, dtype = a
    return double_or_single(dtype), dtypes.int32, dtypes.int32


@shape_function("aten.linalg_qr.default")
def qr_shape(a: list[int], mode: str) -> tuple[list[int], list[int]]:
    """Q and R; with mode r Q is empty."""
    assert mode == "reduced" or mode == "complete" or mode == "r", "mode is one of reduced, complete, r"
    assert_matrices(a)
    side = smaller_side(a)
    if mode == "complete":
        return _rows_columns(a, a[-2], a[-2]), a
    if mode == "r":
        return [0], _rows_columns(a, side, a[-1])
    return _rows_columns(a, a[-2], side), _rows_columns(a, side, a[-1])


@dtype_function("aten.linalg_qr.default")
def qr_dtype(a: tuple[int, int], mode: str) -> tuple[int, int]:
    """That of the matrices."""
    _, dtype = a
    dtype = double_or_single(dtype)
    return dtype, dtype


@shape_function("aten.geqrf.default")
def geqrf_shape(a: list[int]) -> tuple[list[int], list[int]]:
    """The factors in one, and the scales of the reflections."""
    assert_matrices(a)
    return a, batch(a) + [smaller_side(a)]


@dtype_function("aten.geqrf.default")
def geqrf_dtype(a: tuple[int, int]) -> tuple[int, int]:
    """That of the matrices."""
    _, dtype = a
    dtype = double_or_single(dtype)
    return dtype, dtype


def _assert_reflections(a: list[int], tau: list[int]) -> None:
    assert len(a) - len(tau) == 1, "tau has one dimension less than the matrices"
    assert_same(batch(a), tau[:-1])
    assert tau[-1] <= a[-1], "there are more reflections than columns"


@shape_function("aten.linalg_householder_product.default")
def householder_product_shape(a: list[int], tau: list[int]) -> list[int]:
    """The columns of Q."""
    assert_matrices(a)
    assert a[-2] >= a[-1], "the matrices have more columns than rows"
    _assert_reflections(a, tau)
    return a


@dtype_function("aten.linalg_householder_product.default")
def householder_product_dtype(a: tuple[int, int], tau: tuple[int, int]) -> int:
    """Of both alike."""
    _, dtype = a
    _, tau_dtype = tau
    return same(double_or_single(dtype), tau_dtype)


@shape_function("aten.ormqr.default")
def ormqr_shape(a: list[int], tau: list[int], other: list[int], left: bool, transpose: bool) -> list[int]:
    """That of the matrices multiplied by Q."""
    assert_matrices(a)
    assert_matrices(other)
    _assert_reflections(a, tau)
    assert_same_batch(a, other)
    side = other[-1]
    if left:
        side = other[-2]
    assert side >= tau[-1], "there are more reflections than rows to reflect"
    assert side == a[-2], "the matrices cannot be multiplied"
    return other


@dtype_function("aten.ormqr.default")
def ormqr_dtype(
    a: tuple[int, int], tau: tuple[int, int], other: tuple[int, int], left: bool, transpose: bool
) -> int:
    """Of all three alike."""
    _, dtype = a
    _, tau_dtype = tau
    _, other_dtype = other
    return same(same(double_or_single(dtype), tau_dtype), other_dtype)


@shape_function("aten._linalg_svd.default")
def svd_shape(
    a: list[int], full_matrices: bool, compute_uv: bool, driver: str | None
) -> tuple[list[int], list[int], list[int]]:
    """U, the singular values, and V transposed; U and V may be left out (empty)."""
    assert_matrices(a)
    side = smaller_side(a)
    values = batch(a) + [side]
    if not compute_uv:
        return [0], values, [0]
    if full_matrices:
        return _rows_columns(a, a[-2], a[-2]), values, _rows_columns(a, a[-1], a[-1])
    return _rows_columns(a, a[-2], side), values, _rows_columns(a, side, a[-1])


@dtype_function("aten._linalg_svd.default")
def svd_dtype(
    a: tuple[int, int], full_matrices: bool, compute_uv: bool, driver: str | None
) -> tuple[int, int, int]:
    """Singular values are real."""
    _, dtype = a
    dtype = double_or_single(dtype)
    return dtype, dtypes.real_dtype(dtype), dtype


@shape_function("aten._linalg_eigh.default")
def eigh_shape(a: list[int], uplo: str, compute_v: bool) -> tuple[list[int], list[int]]:
    """Eigenvalues and eigenvectors, the latter empty where they are not asked for."""
    assert uplo == "L" or uplo == "U" or uplo == "l" or uplo == "u", "UPLO is either L or U"
    assert_square(a)
    if compute_v:
        return a[:-1], a
    return a[:-1], [0]


@dtype_function("aten._linalg_eigh.default")
def eigh_dtype(a: tuple[int, int], uplo: str, compute_v: bool) -> tuple[int, int]:
    """Eigenvalues are real."""
    _, dtype = a
    dtype = double_or_single(dtype)
    return dtypes.real_dtype(dtype), dtype


@shape_function("aten.linalg_eig.default")
def eig_shape(a: list[int]) -> tuple[list[int], list[int]]:
    """Eigenvalues and eigenvectors."""
    assert_square(a)
    return a[:-1], a


@dtype_function("aten.linalg_eig.default")
def eig_dtype(a: tuple[int, int]) -> tuple[int, int]:
    """Both are complex."""
    _, dtype = a
    dtype = to_complex(double_or_single(dtype))
    return dtype, dtype


@shape_function("aten._linalg_det.default")
def det_shape(a: list[int]) -> tuple[list[int], list[int], list[int]]:
    """The determinant, LU factors and pivots."""
    assert_square(a)
    return batch(a), a, a[:-1]


# torch-mlir's own dtype function makes the pivots floats.
@dtype_function("aten._linalg_det.default")
def det_dtype(a: tuple[int, int]) -> tuple[int, int, int]:
    """Pivots are int32."""
    _, dtype = a
    dtype = double_or_single(dtype)
    return dtype, dtype, dtypes.int32


@shape_function("aten._linalg_slogdet.default")
def slogdet_shape(a: list[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Sign and logarithm of the determinant, LU factors and pivots."""
    assert_square(a)
    return batch(a), batch(a), a, a[:-1]


@dtype_function("aten._linalg_slogdet.default")
def slogdet_dtype(a: tuple[int, int]) -> tuple[int, int, int, int]:
    """The logarithm is real, pivots are int32."""
    _, dtype = a
    dtype = double_or_single(dtype)
    return dtype, dtypes.real_dtype(dtype), dtype, dtypes.int32


@shape_function("aten.linalg_matrix_exp.default")
def matrix_exp_shape(a: list[int]) -> list[int]:
    """That of the matrices."""
    assert_square(a)
    return a


@dtype_function("aten.linalg_matrix_exp.default")
def matrix_exp_dtype(a: tuple[int, int]) -> int:
    """That of the matrices."""
    _, dtype = a
    return floating_or_complex(dtype)


@shape_function("aten.linalg_pinv.atol_rtol_tensor")
def pinv_shape(a: list[int], atol: list[int] | None, rtol: list[int] | None, hermitian: bool) -> list[int]:
    """Transposed; tolerances per matrix broadcast with the batch."""
    assert_matrices(a)
    batches = batch(a)
    if atol is not None:
        batches = broadcast(batches, atol)
    if rtol is not None:
        batches = broadcast(batches, rtol)
    return batches + [a[-1], a[-2]]


@dtype_function("aten.linalg_pinv.atol_rtol_tensor")
def pinv_dtype(
    a: tuple[int, int], atol: tuple[int, int] | None, rtol: tuple[int, int] | None, hermitian: bool
) -> int:
    """That of the matrices."""
    _, dtype = a
    return double_or_single(dtype)

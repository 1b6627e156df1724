"""Systems of linear equations, their factorisations by elimination, and determinants.

They are decomposed into loops over stacks of matrices (`elimination_loops`). Statuses are computed, but a status that
eager raises an error for is not looked at in a compiled program: its results are then infinite or NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import matrix_stacks as stacks
from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.linalg_lu_factor_ex.default")
def linalg_lu_factor_ex(
    a: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """There is no LU without pivoting on the CPU."""
    return stacks.lu_factor(a) if pivot else NotImplemented


@decomposes("aten.lu_unpack.default")
def lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """P, L and U; what is not asked for is empty."""
    rows, columns = lu.shape[-2:]
    side = min(rows, columns) if isinstance(rows, int) and isinstance(columns, int) else pivots.shape[-1]
    p = lower = upper = lu.new_empty([0])
    if unpack_pivots:
        p = _permutation_matrix(lu, stacks.permutation(pivots, rows))
    if unpack_data:
        lower = lu[..., :side].tril(-1) + stacks.eye_like(lu, rows, side)
        upper = lu[..., :side, :].triu()
    return p, lower, upper


def _permutation_matrix(lu: Tensor, order: Tensor) -> Tensor:
    """P of A = P L U: row order[i] of A is row i of L U."""
    import torch

    rows = torch.arange(order.shape[-1], dtype=torch.int32, device=order.device)
    return (rows.unsqueeze(-1) == order.unsqueeze(-2)).to(lu.dtype)


@decomposes("aten.linalg_lu.default")
def linalg_lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The factors one by one."""
    if not pivot:
        return NotImplemented
    factors, pivots, _ = stacks.lu_factor(a)
    return lu_unpack(factors, pivots)


@decomposes("aten.linalg_lu_solve.default")
def linalg_lu_solve(
    lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X A = B is Aᴴ Xᴴ = Bᴴ."""
    if left:
        return stacks.lu_solve(lu, pivots, b, adjoint)
    return stacks.adjoint(stacks.lu_solve(lu, pivots, stacks.adjoint(b), not adjoint))


def _determinant_factors(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """torch factorises the transposed matrix where `a` is contiguous, which the gradients rely on."""
    return stacks.lu_factor(a.mT if a.is_contiguous() and not a.is_complex() else a)


@decomposes("aten._linalg_solve_ex.default")
def linalg_solve_ex(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The right side may be a vector for each matrix. Gradients use the factors of `a` itself, not transposed."""
    lu, pivots, info = stacks.lu_factor(a)
    vectors = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    columns = b.unsqueeze(-1) if vectors else b
    x = linalg_lu_solve(lu, pivots, columns, left=left)
    return x.squeeze(-1) if vectors else x, lu, pivots, info


@decomposes("aten.linalg_inv_ex.default")
def linalg_inv_ex(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """The solution for the columns of the identity."""
    lu, pivots, info = stacks.lu_factor(a)
    return stacks.lu_solve(lu, pivots, stacks.eye_like(a, a.shape[-1], a.shape[-1]), False), info


@decomposes("aten._linalg_det.default")
def linalg_det(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The product of the pivots, negative for an odd number of swaps."""
    lu, pivots, _ = _determinant_factors(a)
    diagonal = lu.diagonal(dim1=-2, dim2=-1)
    return diagonal.prod(-1) * _parity(pivots).to(lu.dtype), lu, pivots


def _parity(pivots: Tensor) -> Tensor:
    """1, or -1 for an odd number of swaps."""
    import torch

    places = torch.arange(1, pivots.shape[-1] + 1, dtype=torch.int32, device=pivots.device)
    swaps = (pivots != places).to(torch.int32).sum(-1, dtype=torch.int32)
    return 1 - 2 * (swaps & 1)


@decomposes("aten._linalg_slogdet.default")
def linalg_slogdet(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sign and logarithm apart: the product of many pivots overflows."""
    lu, pivots, _ = _determinant_factors(a)
    diagonal = lu.diagonal(dim1=-2, dim2=-1)
    sign = diagonal.sgn().prod(-1) * _parity(pivots).to(lu.dtype)
    return sign, diagonal.abs().log().sum(-1), lu, pivots


@decomposes("aten.linalg_cholesky_ex.default")
def linalg_cholesky_ex(
    a: Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    """The upper factor is the adjoint of the lower one of the adjoint."""
    factor, info = stacks.cholesky(stacks.adjoint(a) if upper else a)
    return stacks.adjoint(factor) if upper else factor, info


@decomposes("aten.cholesky.default")
def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    """The factor alone."""
    return linalg_cholesky_ex(a, upper=upper)[0]


@decomposes("aten.cholesky_solve.default", "aten._cholesky_solve_helper.default")
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """A = L Lᴴ = Uᴴ U."""
    other = stacks.adjoint(factor)
    first, second = (other, factor) if upper else (factor, other)
    halfway = stacks.solve_triangular(first, b, upper=False, unit=False)
    return stacks.solve_triangular(second, halfway, upper=True, unit=False)


@decomposes("aten.cholesky_inverse.default")
def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """The solution for the columns of the identity."""
    return cholesky_solve(stacks.eye_like(factor, factor.shape[-1], factor.shape[-1]), factor, upper)


@decomposes("aten.linalg_solve_triangular.default")
def linalg_solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X A = B is Aᵀ Xᵀ = Bᵀ."""
    if left:
        return stacks.solve_triangular(a, b, upper, unitriangular)
    return stacks.solve_triangular(a.mT, b.mT, not upper, unitriangular).mT


@decomposes("aten.triangular_solve.default")
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """The solution and the coefficients with the batch of both."""
    b, a = stacks.broadcast_batches(b, a)
    matrix, is_upper = (a.mT, not upper) if transpose else (a, upper)
    return stacks.solve_triangular(matrix, b, is_upper, unitriangular), a.clone()


@decomposes("aten.linalg_slogdet.default")
def slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    """Without what gradients need."""
    sign, logarithm, _, _ = linalg_slogdet(a)
    return sign, logarithm

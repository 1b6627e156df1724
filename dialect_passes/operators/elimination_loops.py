"""Elimination in stacks of matrices, as loops: LU, Cholesky, and the systems that their factors solve.

The operators are what the decompositions of `linear_systems` are made of. Their meanings are torch's own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..custom_operators.declaration import op
from ..loops.functions import conj, imag, real, sqrt
from ..loops.lowering import loops


def _same(rows, columns):
    """Scratch memory `w` of the size of the first matrix."""
    return {"w": (rows, columns)}


def copy(a, b):
    """b[...] = a"""
    rows, columns = a.shape
    for i in range(rows):
        for j in range(columns):
            b[i, j] = a[i, j]


def _swap(a, i, k):
    """Swaps two rows."""
    for j in range(a.shape[1]):
        x = a[i, j]
        a[i, j] = a[k, j]
        a[k, j] = x


@op("pipeline::lu_factor", gradient="none")
def lu_factor(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """LU with partial pivoting of [batch, rows, columns]: both factors in one, pivots, and statuses."""
    lu, pivots, info = torch.linalg.lu_factor_ex(a)
    return lu, pivots, info


@loops(lu_factor, scratch=_same)
def lu_loop(a, lu, pivots, info, w):
    """Pivots as LAPACK's: the first of the largest, where complex numbers count as |re| + |im|."""
    rows, columns = a.shape
    copy(a, w)
    status = 0
    for j in range(min(rows, columns)):
        pivot = j
        largest = abs(real(w[j, j])) + abs(imag(w[j, j]))
        for i in range(j + 1, rows):
            size = abs(real(w[i, j])) + abs(imag(w[i, j]))
            if size > largest:
                largest = size
                pivot = i
        pivots[j] = pivot + 1
        if largest != 0.0:
            if pivot != j:
                _swap(w, j, pivot)
            for i in range(j + 1, rows):
                factor = w[i, j] / w[j, j]
                w[i, j] = factor
                for k in range(j + 1, columns):
                    w[i, k] = w[i, k] - factor * w[j, k]
        elif status == 0:
            status = j + 1
    info[()] = status
    copy(w, lu)


@op("pipeline::permutation", gradient="none")
def permutation(pivots: Tensor, rows: int) -> Tensor:
    """The order of rows that the row swaps `pivots`, [batch, count], lead to: int32, [batch, rows]."""
    order = torch.arange(rows, dtype=torch.int32, device=pivots.device).repeat(pivots.shape[0], 1)
    for j in range(pivots.shape[1]):
        target = pivots[:, j : j + 1].long() - 1
        here, there = order[:, j : j + 1].clone(), order.gather(1, target)
        order = order.scatter(1, target, here)
        order[:, j : j + 1] = there
    return order


@loops(permutation)
def permutation_loop(pivots, rows, order):
    """One swap after the other."""
    for i in range(order.shape[0]):
        order[i] = i
    for j in range(pivots.shape[0]):
        there = pivots[j] - 1
        x = order[j]
        order[j] = order[there]
        order[there] = x


@op("pipeline::solve_triangular", gradient="none")
def solve_triangular(b: Tensor, a: Tensor, upper: bool, unit: bool) -> Tensor:
    """x in a @ x = b, of [batch, n, n] and [batch, n, k]; unit: the diagonal counts as ones."""
    return torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)


@loops(solve_triangular, scratch=_same)
def triangular_loop(b, a, upper, unit, x, w):
    """Substitution."""
    copy(b, w)
    substitute(a, w, upper, unit, False)
    copy(w, x)


def substitute(a, w, upper, unit, adjoint):
    """Solves for w in place. upper: of the matrix that is solved with, which is a, or its adjoint."""
    n = w.shape[0]
    if upper:
        for i in range(n - 1, -1, -1):
            _substitute_row(a, w, i, i + 1, n, unit, adjoint)
    else:
        for i in range(n):
            _substitute_row(a, w, i, 0, i, unit, adjoint)


def _substitute_row(a, w, i, first, last, unit, adjoint):
    columns = w.shape[1]
    for k in range(first, last):
        factor = conj(a[k, i]) if adjoint else a[i, k]
        for j in range(columns):
            w[i, j] = w[i, j] - factor * w[k, j]
    if not unit:
        pivot = conj(a[i, i]) if adjoint else a[i, i]
        for j in range(columns):
            w[i, j] = w[i, j] / pivot


@op("pipeline::lu_solve", gradient="none")
def lu_solve(b: Tensor, lu: Tensor, pivots: Tensor, adjoint: bool) -> Tensor:
    """x in a @ x = b, or with the adjoint of a, where `lu` and `pivots` are a's."""
    return torch.linalg.lu_solve(lu, pivots, b, adjoint=adjoint)


@loops(lu_solve, scratch=_same)
def lu_solve_loop(b, lu, pivots, adjoint, x, w):
    """a = P L U: the swaps first, or last."""
    n = pivots.shape[0]
    copy(b, w)
    if adjoint:
        substitute(lu, w, False, False, True)
        substitute(lu, w, True, True, True)
        for i in range(n - 1, -1, -1):
            _swap(w, i, pivots[i] - 1)
    else:
        for i in range(n):
            _swap(w, i, pivots[i] - 1)
        substitute(lu, w, False, True, False)
        substitute(lu, w, True, False, False)
    copy(w, x)


@op("pipeline::cholesky", gradient="none")
def cholesky(a: Tensor) -> tuple[Tensor, Tensor]:
    """The lower factor of [batch, n, n], of which the lower triangle is read, and statuses."""
    factor, info = torch.linalg.cholesky_ex(a)
    return factor, info


@loops(cholesky, scratch=_same)
def cholesky_loop(a, factor, info, w):
    """Row by row. It stops where a matrix is not positive definite; the status is then the order of that minor."""
    n = a.shape[0]
    copy(a, w)
    status = 0
    for j in range(n):
        if status == 0:
            for k in range(j):
                total = w[j, k]
                for p in range(k):
                    total = total - w[j, p] * conj(w[k, p])
                w[j, k] = total / w[k, k]
            pivot = real(w[j, j])
            for p in range(j):
                pivot = pivot - real(w[j, p] * conj(w[j, p]))
            w[j, j] = pivot
            if pivot > 0.0:
                w[j, j] = sqrt(pivot)
            else:
                status = j + 1
    info[()] = status
    for i in range(n):
        for j in range(n):
            factor[i, j] = w[i, j] if j <= i else 0.0

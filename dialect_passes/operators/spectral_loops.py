"""Eigenvalues of Hermitian matrices and singular values of stacks of matrices, as loops."""

from __future__ import annotations

import torch
from torch import Tensor

from ..custom_operators.declaration import op
from ..loops.functions import conj, copysign, epsilon, real, sqrt
from ..loops.lowering import loops
from .elimination_loops import copy
from .reflection_loops import reflect, reflect_right, reflection, squared, triangularize


def _swap_rows(a, i, k):
    for j in range(a.shape[1]):
        x = a[i, j]
        a[i, j] = a[k, j]
        a[k, j] = x


def identity(a):
    """a[...] = 1"""
    rows, columns = a.shape
    for i in range(rows):
        for j in range(columns):
            a[i, j] = 1.0 if i == j else 0.0


def _sort(d, a, b, sign):
    """Sorts d, ascending for a sign of 1, descending for -1, and the rows of a and b with it."""
    n = d.shape[0]
    for i in range(n):
        least = i
        for j in range(i + 1, n):
            if sign * d[j] < sign * d[least]:
                least = j
        x = d[i]
        d[i] = d[least]
        d[least] = x
        _swap_rows(a, i, least)
        _swap_rows(b, i, least)


@op("pipeline::eigh", gradient="none")
def eigh(a: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """Ascending eigenvalues and eigenvectors of [batch, n, n], of which the lower triangle is read."""
    values, found = torch.linalg.eigh(a)
    return values, found


def _eigh_work(rows, columns):
    return {"w": (rows, columns), "z": (rows, columns), "row": (rows,), "d": (rows,), "e": (rows,)}


@loops(eigh, scratch=_eigh_work, real=("d", "e"))
def eigh_loop(a, vectors, values, found, w, z, row, d, e):
    """Reflections make the matrix tridiagonal, implicit QL steps make it diagonal."""
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            w[i, j] = a[i, j]
            w[j, i] = conj(a[i, j])
        w[i, i] = real(a[i, i])
    identity(found)
    _tridiagonalize(w, z, row, d, e)
    # The rows of w become the eigenvectors: they are rotated, and rows lie together in memory.
    for i in range(n):
        for j in range(n):
            w[i, j] = z[j, i]
    _diagonalize(w, d, e, vectors)
    _sort(d, w, z, 1.0)
    for i in range(n):
        values[i] = d[i]
        if vectors:
            for j in range(n):
                found[j, i] = w[i, j]


def _tridiagonalize(w, z, row, d, e):
    """Diagonal and subdiagonal (real) of Qᴴ w Q, and Q in z; e[n - 1] is zero."""
    n = w.shape[0]
    identity(z)
    for k in range(n - 1):
        beta, tau = reflection(w, k, k + 1)
        reflect(w, row, w, k, k + 1, k + 1, conj(tau))
        reflect_right(w, w, k, k + 1, k + 1, tau)
        reflect_right(z, w, k, k + 1, 0, tau)
        e[k] = beta
    e[n - 1] = 0.0
    for k in range(n):
        d[k] = real(w[k, k])


def _block_end(d, e, start):
    """The end of the block from `start` on that no zero of e divides."""
    n = d.shape[0]
    end = start
    while end < n - 1 and abs(e[end]) > epsilon() * (abs(d[end]) + abs(d[end + 1])):
        end = end + 1
    return end


def _diagonalize(zt, d, e, vectors):
    """Implicit QL with Wilkinson's shift; the rotations are applied to the rows of zt."""
    n = d.shape[0]
    for first in range(n):
        end = _block_end(d, e, first)
        steps = 0
        while end != first and steps < 60:
            _ql_step(zt, d, e, first, end, vectors)
            end = _block_end(d, e, first)
            steps = steps + 1


def _ql_step(zt, d, e, first, end, vectors):
    """One step on the block from `first` to `end`, whose subdiagonal has no zero."""
    half = (d[first + 1] - d[first]) / (2.0 * e[first])
    root = sqrt(half * half + 1.0)
    g = d[end] - d[first] + e[first] / (half + copysign(root, half))
    s = 1.0
    c = 1.0
    p = 0.0
    split = False
    for i in range(end - 1, first - 1, -1):
        if not split:
            f = s * e[i]
            b = c * e[i]
            r = sqrt(f * f + g * g)
            e[i + 1] = r
            if r == 0.0:
                # The block falls apart here.
                d[i + 1] = d[i + 1] - p
                e[end] = 0.0
                split = True
            else:
                s = f / r
                c = g / r
                g = d[i + 1] - p
                r = (d[i] - g) * s + 2.0 * c * b
                p = s * r
                d[i + 1] = g + p
                g = c * r - b
                if vectors:
                    _rotate(zt, i, i + 1, c, -s, s, c)
    if not split:
        d[first] = d[first] - p
        e[first] = g
        e[end] = 0.0


def _rotate(a, i, k, ii, ik, ki, kk):
    """Rows i and k become ii * i + ik * k and ki * i + kk * k."""
    for j in range(a.shape[1]):
        x = a[i, j]
        y = a[k, j]
        a[i, j] = ii * x + ik * y
        a[k, j] = ki * x + kk * y


@op("pipeline::svd", gradient="none")
def svd(a: Tensor, full: bool, vectors: bool) -> tuple[Tensor, Tensor, Tensor]:
    """U, descending singular values and Vᴴ of [batch, rows, columns] with no more columns than rows."""
    u, values, vh = torch.linalg.svd(a, full_matrices=full)
    return u, values, vh


def _svd_work(rows, columns):
    square = (columns, columns)
    return {
        "w": (rows, columns),
        "taus": (columns,),
        "row": (rows,),
        "h": square,
        "z": square,
        "d": (columns,),
    }


@loops(svd, scratch=_svd_work, real=("d",))
def svd_loop(a, full, vectors, u, values, vh, w, taus, row, h, z, d):
    """Jacobi's rotations make the rows of R, of a = Q R, orthogonal: J R = S Vᴴ, a = (Q Jᴴ) S Vᴴ."""
    n = a.shape[1]
    copy(a, w)
    triangularize(w, row, taus)
    for i in range(n):
        for j in range(n):
            h[i, j] = w[i, j] if j >= i else 0.0
    identity(z)
    floor = _floor(h)
    rotated = True
    sweeps = 0
    while rotated and sweeps < 60:
        rotated = _sweep(h, z, floor, vectors)
        sweeps = sweeps + 1
    for i in range(n):
        d[i] = sqrt(_squared_length(h, i))
    _sort(d, h, z, -1.0)
    for i in range(n):
        values[i] = d[i]
    identity(u)
    identity(vh)
    if vectors:
        _left_vectors(u, z, w, taus, row)
        _right_vectors(vh, h, z, w, taus, row)


def _squared_length(h, i):
    size = 0.0
    for j in range(h.shape[1]):
        size = size + squared(h[i, j])
    return size


def _floor(h):
    """A product of two rows below this is rounding, also of rows that have become next to nothing."""
    size = 0.0
    for i in range(h.shape[0]):
        size = size + _squared_length(h, i)
    return size * epsilon() * epsilon() * 0.01


def _sweep(h, z, floor, vectors):
    """Rotates every pair of rows that is not orthogonal; whether there was one."""
    n = h.shape[0]
    rotated = False
    for p in range(n - 1):
        for q in range(p + 1, n):
            alpha = 0.0
            beta = 0.0
            gamma = h[p, 0] * 0.0
            for j in range(n):
                x = h[p, j]
                y = h[q, j]
                alpha = alpha + squared(x)
                beta = beta + squared(y)
                gamma = gamma + x * conj(y)
            size = abs(gamma)
            if size > max(floor, 4.0 * epsilon() * sqrt(alpha) * sqrt(beta)):
                rotated = True
                zeta = (beta - alpha) / (2.0 * size)
                t = copysign(1.0, zeta) / (abs(zeta) + sqrt(1.0 + zeta * zeta))
                c = 1.0 / sqrt(1.0 + t * t)
                turn = (c * t / size) * gamma
                _rotate(h, p, q, c, -turn, conj(turn), c)
                if vectors:
                    _rotate(z, p, q, c, -turn, conj(turn), c)
    return rotated


def _left_vectors(u, z, w, taus, row):
    """Q times Jᴴ, and what Q has beyond."""
    n = z.shape[0]
    for i in range(n):
        for j in range(n):
            u[i, j] = conj(z[j, i])
    for k in range(n - 1, -1, -1):
        reflect(u, row, w, k, k, 0, taus[k])


def _right_vectors(vh, h, v, w, taus, row):
    """The rows of S Vᴴ without their lengths.

    By QR of the columns: V is orthogonal then even where lengths are zero, and R is diagonal but for rounding.
    """
    n = h.shape[0]
    for i in range(n):
        for j in range(n):
            v[j, i] = conj(h[i, j])
    triangularize(v, row, taus)
    for i in range(n):
        sign = copysign(1.0, real(v[i, i]))
        for j in range(n):
            h[j, i] = sign if i == j else 0.0
    for k in range(n - 1, -1, -1):
        reflect(h, row, v, k, k, 0, taus[k])
    for i in range(n):
        for j in range(n):
            vh[i, j] = conj(h[j, i])

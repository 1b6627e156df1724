"""Householder reflections of stacks of matrices, as loops: QR, and products with its Q.

A reflection is 1 - tau v vᴴ with v = (1, ...), whose other elements lie below the diagonal, as LAPACK has it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..custom_operators.declaration import op
from ..loops.functions import conj, copysign, imag, real, sqrt
from ..loops.lowering import loops
from .elimination_loops import copy


def _work(rows, columns):
    return {"w": (rows, columns), "row": (columns,)}


def squared(x):
    """|x|²"""
    return real(x) * real(x) + imag(x) * imag(x)


def reflect(w, row, v, column, pivot, first, tau):
    """Applies 1 - tau v vᴴ from the left to the columns of w from `first` on.

    v is a column: 1 in the row `pivot`, and what it holds below.
    """
    rows, columns = w.shape
    for j in range(first, columns):
        row[j] = w[pivot, j]
    for i in range(pivot + 1, rows):
        factor = conj(v[i, column])
        for j in range(first, columns):
            row[j] = row[j] + factor * w[i, j]
    for j in range(first, columns):
        row[j] = tau * row[j]
        w[pivot, j] = w[pivot, j] - row[j]
    for i in range(pivot + 1, rows):
        factor = v[i, column]
        for j in range(first, columns):
            w[i, j] = w[i, j] - factor * row[j]


def reflect_right(w, v, column, pivot, first, tau):
    """Applies 1 - tau v vᴴ from the right to the rows of w from `first` on."""
    rows, columns = w.shape
    for i in range(first, rows):
        total = w[i, pivot]
        for j in range(pivot + 1, columns):
            total = total + w[i, j] * v[j, column]
        total = total * tau
        w[i, pivot] = w[i, pivot] - total
        for j in range(pivot + 1, columns):
            w[i, j] = w[i, j] - total * conj(v[j, column])


def reflection(w, column, pivot):
    """The reflection whose adjoint makes a column zero below the row `pivot`: what is left there, and tau.

    It is left in the column, below the pivot.
    """
    rows = w.shape[0]
    rest = 0.0
    for i in range(pivot + 1, rows):
        rest = rest + squared(w[i, column])
    alpha = w[pivot, column]
    beta = real(alpha)
    tau = alpha * 0.0
    # `not`: of NaN too, which then spreads as it does in LAPACK.
    if not (rest == 0.0 and imag(alpha) == 0.0):
        beta = -copysign(sqrt(squared(alpha) + rest), real(alpha))
        tau = (beta - alpha) / beta
        scale = 1.0 / (alpha - beta)
        for i in range(pivot + 1, rows):
            w[i, column] = w[i, column] * scale
    return beta, tau


def triangularize(w, row, taus):
    """QR of w in place: R, and the reflections below it."""
    rows, columns = w.shape
    for k in range(min(rows, columns)):
        beta, tau = reflection(w, k, k)
        reflect(w, row, w, k, k, k + 1, conj(tau))
        w[k, k] = beta
        taus[k] = tau


@op("pipeline::geqrf", gradient="none")
def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """QR of [batch, rows, columns]: R with the reflections below it, and their factors."""
    factors, taus = torch.geqrf(a)
    return factors, taus


@geqrf.fake
def geqrf_fake(a: Tensor) -> tuple[Tensor, Tensor]:
    """torch has none for symbolic sizes."""
    shorter: Any = torch.sym_min(a.shape[1], a.shape[2])
    return torch.empty_like(a), a.new_empty(a.shape[0], shorter)


@loops(geqrf, scratch=_work)
def geqrf_loop(a, factors, taus, w, row):
    """Column by column."""
    copy(a, w)
    triangularize(w, row, taus)
    copy(w, factors)


@op("pipeline::reflect", gradient="none")
def reflect_rows(b: Tensor, v: Tensor, taus: Tensor, adjoint: bool) -> Tensor:
    """Q @ b, or Qᴴ @ b, of [batch, rows, columns], with Q the product of the reflections in v, [batch, rows, count]."""
    rows = v.shape[-2]
    q = torch.eye(rows, dtype=v.dtype, device=v.device).repeat(v.shape[0], 1, 1)
    places = torch.arange(rows, device=v.device)
    for k in range(taus.shape[-1]):
        vector = torch.where(places > k, v[..., k], (places == k).to(v.dtype))
        q = q - (q @ vector.unsqueeze(-1)) * taus[:, k, None, None] @ vector.conj().unsqueeze(-2)
    return (q.mH if adjoint else q) @ b


@loops(reflect_rows, scratch=_work)
def reflect_loop(b, v, taus, adjoint, x, w, row):
    """Q is H(1) H(2) ... H(n): the last one first, for Qᴴ the first."""
    count = taus.shape[0]
    copy(b, w)
    if adjoint:
        for k in range(count):
            reflect(w, row, v, k, k, 0, conj(taus[k]))
    else:
        for k in range(count - 1, -1, -1):
            reflect(w, row, v, k, k, 0, taus[k])
    copy(w, x)

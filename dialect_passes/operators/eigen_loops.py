"""Eigenvalues and exponentials of general square matrices in stacks, as loops."""

from __future__ import annotations

import torch
from torch import Tensor

from ..custom_operators.declaration import op
from ..loops.functions import conj, copysign, epsilon, imag, pair, real, sqrt
from ..loops.lowering import loops
from .elimination_loops import copy
from .reflection_loops import reflect, reflect_right, reflection, squared
from .spectral_loops import identity


@op("pipeline::eig", gradient="none")
def eig(a: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of complex matrices [batch, n, n]."""
    values, found = torch.linalg.eig(a)
    return values, found


def _eig_work(rows, columns):
    return {"w": (rows, columns), "z": (rows, columns), "row": (rows,), "cs": (rows,), "sn": (rows,)}


@loops(eig, scratch=_eig_work, real=("cs",))
def eig_loop(a, vectors, values, found, w, z, row, cs, sn):
    """Reflections leave one subdiagonal, QR steps make that zero; eigenvectors of what is left by substitution."""
    n = a.shape[0]
    copy(a, w)
    identity(z)
    for k in range(n - 2):
        beta, tau = reflection(w, k, k + 1)
        reflect(w, row, w, k, k + 1, k + 1, conj(tau))
        reflect_right(w, w, k, k + 1, 0, tau)
        reflect_right(z, w, k, k + 1, 0, tau)
        w[k + 1, k] = beta
        for i in range(k + 2, n):
            w[i, k] = 0.0
    last = n - 1
    steps = 0
    while last > 0 and steps < 60 * n:
        first = _block_start(w, last)
        if first == last:
            last = last - 1
        else:
            _qr_step(w, z, cs, sn, first, last, steps)
            steps = steps + 1
    for k in range(n):
        values[k] = w[k, k]
    identity(found)
    if vectors:
        _eigenvectors(w, z, row, found)


def _block_start(w, last):
    """Where the block that ends with `last` begins; a subdiagonal that is rounding becomes zero."""
    first = last
    searching = True
    while searching:
        if first == 0:
            searching = False
        elif abs(w[first, first - 1]) <= epsilon() * (abs(w[first, first]) + abs(w[first - 1, first - 1])):
            w[first, first - 1] = 0.0
            searching = False
        else:
            first = first - 1
    return first


def _square_root(x):
    """Of a complex number, with a real part that is not negative."""
    size = abs(x)
    re = sqrt(max(0.0, 0.5 * (size + real(x))))
    im = sqrt(max(0.0, 0.5 * (size - real(x))))
    return pair(re, copysign(im, imag(x)))


def _shift(w, last, steps):
    """The eigenvalue of the last two rows that is closer to the last element; now and then another."""
    a = w[last - 1, last - 1]
    d = w[last, last]
    half = (a - d) * 0.5
    root = _square_root(half * half + w[last - 1, last] * w[last, last - 1])
    near = half - root
    if squared(half + root) < squared(near):
        near = half + root
    shift = d + near
    if steps % 11 == 10:
        shift = d + abs(w[last, last - 1])
    return shift


def _qr_step(w, z, cs, sn, first, last, steps):
    """QR of the shifted block, and R Q; the rotations go into z too."""
    n = w.shape[0]
    shift = _shift(w, last, steps)
    for i in range(first, last + 1):
        w[i, i] = w[i, i] - shift
    for k in range(first, last):
        x = w[k, k]
        y = w[k + 1, k]
        size = sqrt(squared(x) + squared(y))
        c = 1.0
        s = y * 0.0
        if size != 0.0:
            along = abs(x)
            c = along / size
            turn = x * 0.0 + 1.0
            if along != 0.0:
                turn = x / along
            s = turn * conj(y) / size
        cs[k] = c
        sn[k] = s
        for j in range(k, n):
            p = w[k, j]
            q = w[k + 1, j]
            w[k, j] = c * p + s * q
            w[k + 1, j] = c * q - conj(s) * p
    for k in range(first, last):
        _rotate_columns(w, k, cs[k], sn[k], min(k + 2, last + 1))
        _rotate_columns(z, k, cs[k], sn[k], n)
    for i in range(first, last + 1):
        w[i, i] = w[i, i] + shift


def _rotate_columns(a, k, c, s, rows):
    for i in range(rows):
        p = a[i, k]
        q = a[i, k + 1]
        a[i, k] = c * p + conj(s) * q
        a[i, k + 1] = c * q - s * p


def _eigenvectors(w, z, x, found):
    """Of the triangle w, turned by z; of length 1, the largest element real."""
    n = w.shape[0]
    size = 0.0
    for i in range(n):
        for j in range(i, n):
            size = max(size, abs(w[i, j]))
    for k in range(n):
        value = w[k, k]
        x[k] = 1.0
        for i in range(k - 1, -1, -1):
            total = w[i, k]
            for j in range(i + 1, k):
                total = total + w[i, j] * x[j]
            gap = w[i, i] - value
            if abs(gap) <= epsilon() * size:
                gap = gap * 0.0 + epsilon() * size
            x[i] = -total / gap if size != 0.0 else total
        _turned(z, x, k, found)


def _turned(z, x, k, found):
    n = z.shape[0]
    length = 0.0
    largest = 0.0
    turn = x[0] * 0.0 + 1.0
    for i in range(n):
        total = x[0] * 0.0
        for j in range(k + 1):
            total = total + z[i, j] * x[j]
        found[i, k] = total
        length = length + squared(total)
        if squared(total) > largest:
            largest = squared(total)
            turn = conj(total) / abs(total)
    scale = turn / sqrt(length)
    for i in range(n):
        found[i, k] = found[i, k] * scale


@op("pipeline::matrix_exp", gradient="none")
def matrix_exp(a: Tensor, largest: float) -> Tensor:
    """Of [batch, n, n]. largest: the norm up to which a sum of 18 terms is exact to the last place."""
    return torch.linalg.matrix_exp(a)


def _exp_work(rows, columns):
    return {"w": (rows, columns), "power": (rows, columns), "total": (rows, columns)}


@loops(matrix_exp, scratch=_exp_work)
def matrix_exp_loop(a, largest, x, w, power, total):
    """exp(a) is exp(a / 2ᵏ), a sum of 18 terms, squared k times."""
    n = a.shape[0]
    norm = 0.0
    for i in range(n):
        size = 0.0
        for j in range(n):
            size = size + abs(a[i, j])
        norm = max(norm, size)
    scale = 1.0
    squarings = 0
    while norm * scale > largest and squarings < 1200:
        scale = scale * 0.5
        squarings = squarings + 1
    for i in range(n):
        for j in range(n):
            w[i, j] = a[i, j] * scale
    identity(total)
    # 1 + a (1 + a/2 (1 + a/3 (...)))
    for term in range(18, 0, -1):
        _product(w, total, power)
        for i in range(n):
            for j in range(n):
                total[i, j] = power[i, j] / term
            total[i, i] = total[i, i] + 1.0
    for _ in range(squarings):
        _product(total, total, power)
        copy(power, total)
    copy(total, x)


def _product(a, b, c):
    """c[...] = a @ b"""
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            c[i, j] = 0.0
        for k in range(n):
            factor = a[i, k]
            for j in range(n):
                c[i, j] = c[i, j] + factor * b[k, j]

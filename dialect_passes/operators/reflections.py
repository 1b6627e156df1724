"""QR and what is made of its reflections: decomposed into loops over stacks of matrices (`reflection_loops`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import matrix_stacks as stacks
from .registry import decomposes, traced_by_decomposition

if TYPE_CHECKING:
    from torch import Tensor


@traced_by_decomposition("aten.geqrf.default")
def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """R with the reflections below it, and their factors."""
    return stacks.geqrf(a)


@decomposes("aten.linalg_qr.default")
def linalg_qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Q by applying the reflections to the identity; as many columns as asked for."""
    rows = a.shape[-2]
    factors, taus = stacks.geqrf(a)
    side = taus.shape[-1]
    if mode == "r":
        return a.new_empty([0]), factors[..., :side, :].triu()
    size = rows if mode == "complete" else side
    q = stacks.reflect(stacks.eye_like(a, rows, size), factors[..., :side], taus, False)
    return q, factors[..., :size, :].triu()


@decomposes("aten.linalg_householder_product.default")
def linalg_householder_product(a: Tensor, taus: Tensor) -> Tensor:
    """The first columns of Q."""
    rows, columns = a.shape[-2:]
    return stacks.reflect(stacks.eye_like(a, rows, columns), a, taus, False)


@decomposes("aten.ormqr.default")
def ormqr(a: Tensor, taus: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """other Q is (Qᴴ otherᴴ)ᴴ."""
    if left:
        return stacks.reflect(other, a, taus, transpose)
    return stacks.adjoint(stacks.reflect(stacks.adjoint(other), a, taus, not transpose))

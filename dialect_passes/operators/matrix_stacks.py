"""The loops over single matrices as functions of tensors with any batch: batches broadcast, nothing may be empty.

What the decompositions of linear algebra are made of. Loops are for stacks, [batch, rows, columns], with elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def is_empty(*tensors: Tensor) -> bool:
    """Whether one of the tensors is known to have no elements."""
    return any(isinstance(size, int) and size == 0 for tensor in tensors for size in tensor.shape)


def adjoint(a: Tensor) -> Tensor:
    """The conjugate of the transposed matrix."""
    return a.mH if a.is_complex() else a.mT


def eye_like(a: Tensor, rows: Any, columns: Any) -> Tensor:
    """A matrix of that size with ones on its diagonal, for every matrix of `a`."""
    import torch

    identity = torch.eye(rows, columns, dtype=a.dtype, device=a.device)
    return identity.expand(*a.shape[:-2], rows, columns)


def broadcast_batches(*tensors: Tensor) -> list[Tensor]:
    """The matrices with a common batch."""
    import torch

    batch = torch.broadcast_shapes(*(tensor.shape[:-2] for tensor in tensors))
    return [tensor.expand(*batch, *tensor.shape[-2:]) for tensor in tensors]


def _zeros(a: Tensor, shape: Sequence[Any]) -> Tensor:
    """Of the dtype of `a`. (new_zeros leaves an operator that torch-mlir lacks.)"""
    import torch

    return torch.zeros(*shape, dtype=a.dtype, device=a.device)


def _stacked(tensor: Tensor, rank: int) -> Tensor:
    """With one dimension for the batch and `rank` behind it."""
    batch = tensor.dim() - rank
    if batch == 0:
        return tensor.unsqueeze(0)
    return tensor if batch == 1 else tensor.flatten(0, batch - 1)


def _unstacked(tensor: Tensor, batch: Sequence[Any]) -> Tensor:
    if len(batch) == 0:
        return tensor.squeeze(0)
    return tensor if len(batch) == 1 else tensor.reshape(*batch, *tensor.shape[1:])


def lu_factor(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both factors in one, pivots counted from 1, and statuses."""
    import torch

    from .elimination_loops import lu_factor as loop

    batch = a.shape[:-2]
    if is_empty(a):
        side = min(a.shape[-2:])
        numbers = torch.zeros(*batch, side, dtype=torch.int32, device=a.device)
        return _zeros(a, a.shape), numbers, torch.zeros(batch, dtype=torch.int32, device=a.device)
    lu, pivots, info = loop(_stacked(a, 2))
    return _unstacked(lu, batch), _unstacked(pivots, batch), _unstacked(info, batch)


def permutation(pivots: Tensor, rows: Any) -> Tensor:
    """The order of `rows` rows after the swaps: int32."""
    import torch

    from .elimination_loops import permutation as loop

    batch = pivots.shape[:-1]
    if is_empty(pivots):
        return torch.arange(rows, dtype=torch.int32, device=pivots.device).expand(*batch, rows)
    return _unstacked(loop(_stacked(pivots, 1), rows), batch)


def lu_solve(lu: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    """x in a @ x = b, or with the adjoint of a."""
    from .elimination_loops import lu_solve as loop

    lu, b = broadcast_batches(lu, b)
    pivots = pivots.expand(lu.shape[:-1])
    if is_empty(lu, b):
        return _zeros(b, b.shape)
    return _unstacked(loop(_stacked(b, 2), _stacked(lu, 2), _stacked(pivots, 1), adjoint), b.shape[:-2])


def solve_triangular(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """x in a @ x = b."""
    from .elimination_loops import solve_triangular as loop

    a, b = broadcast_batches(a, b)
    if is_empty(a, b):
        return _zeros(b, b.shape)
    return _unstacked(loop(_stacked(b, 2), _stacked(a, 2), upper, unit), b.shape[:-2])


def cholesky(a: Tensor) -> tuple[Tensor, Tensor]:
    """The lower factor, from the lower triangle, and statuses."""
    import torch

    from .elimination_loops import cholesky as loop

    batch = a.shape[:-2]
    if is_empty(a):
        return _zeros(a, a.shape), torch.zeros(batch, dtype=torch.int32, device=a.device)
    factor, info = loop(_stacked(a, 2))
    return _unstacked(factor, batch), _unstacked(info, batch)


def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """R with the reflections below it, and their factors."""
    from .reflection_loops import geqrf as loop

    if is_empty(a):
        return _zeros(a, a.shape), _zeros(a, [*a.shape[:-2], min(a.shape[-2:])])
    factors, taus = loop(_stacked(a, 2))
    return _unstacked(factors, a.shape[:-2]), _unstacked(taus, a.shape[:-2])


def reflect(b: Tensor, v: Tensor, taus: Tensor, adjoint: bool) -> Tensor:
    """Q @ b, or Qᴴ @ b."""
    from .reflection_loops import reflect_rows as loop

    if is_empty(b):
        return _zeros(b, b.shape)
    if is_empty(taus):
        return b.clone()
    return _unstacked(loop(_stacked(b, 2), _stacked(v, 2), _stacked(taus, 1), adjoint), b.shape[:-2])


def eigh(a: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """Ascending eigenvalues and eigenvectors, from the lower triangle."""
    from .spectral_loops import eigh as loop

    if is_empty(a):
        return _zeros(a, a.shape[:-1]).abs(), _zeros(a, a.shape)
    values, found = loop(_stacked(a, 2), vectors)
    return _unstacked(values, a.shape[:-2]), _unstacked(found, a.shape[:-2])


def svd(a: Tensor, full: bool, vectors: bool) -> tuple[Tensor, Tensor, Tensor]:
    """U, descending singular values and Vᴴ of matrices with no more columns than rows."""
    from .spectral_loops import svd as loop

    batch, (rows, columns) = a.shape[:-2], a.shape[-2:]
    if is_empty(a):
        values = _zeros(a, [*batch, columns]).abs()
        size = rows if full else columns
        return eye_like(a, rows, size).clone(), values, eye_like(a, columns, columns).clone()
    u, values, vh = loop(_stacked(a, 2), full and vectors, vectors)
    return _unstacked(u, batch), _unstacked(values, batch), _unstacked(vh, batch)


def eig(a: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors, complex."""
    from .eigen_loops import eig as loop

    a = a.to(a.dtype.to_complex())
    if is_empty(a):
        return _zeros(a, a.shape[:-1]), _zeros(a, a.shape)
    values, found = loop(_stacked(a, 2), vectors)
    return _unstacked(values, a.shape[:-2]), _unstacked(found, a.shape[:-2])


def matrix_exp(a: Tensor) -> Tensor:
    """The exponential of each matrix."""
    import torch

    from .eigen_loops import matrix_exp as loop

    if is_empty(a):
        return _zeros(a, a.shape)
    # x^19 / 19! is beyond the last place; each halving of the matrix doubles the error of rounding.
    largest = 1.0 if a.dtype in (torch.float64, torch.complex128) else 3.0
    return _unstacked(loop(_stacked(a, 2), largest), a.shape[:-2])

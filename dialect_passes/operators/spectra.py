"""Eigenvalues, singular values and what follows from them: decomposed into loops over stacks of matrices.

Signs and phases of vectors are free and differ from LAPACK's; so does the order of the eigenvalues of general
matrices, which torch leaves open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import matrix_stacks as stacks
from .once_rounded import takes_narrow
from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten._linalg_eigh.default")
def linalg_eigh(a: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    """The loop reads the lower triangle."""
    values, vectors = stacks.eigh(stacks.adjoint(a) if UPLO.upper() == "U" else a, compute_v)
    return values, vectors if compute_v else a.new_empty([0])


@decomposes("aten.linalg_eig.default")
def linalg_eig(a: Tensor) -> tuple[Tensor, Tensor]:
    """Complex, of real matrices too."""
    return stacks.eig(a, True)


@decomposes("aten.linalg_eigvals.default", "aten._linalg_eigvals.default")
def linalg_eigvals(a: Tensor) -> Tensor:
    """Without eigenvectors."""
    return stacks.eig(a, False)[0]


@decomposes("aten._linalg_svd.default")
def linalg_svd(
    a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The loop takes no more columns than rows: A = U S Vᴴ is Aᴴ = V S Uᴴ."""
    rows, columns = a.shape[-2:]
    wide = rows < columns
    u, values, vh = stacks.svd(stacks.adjoint(a) if wide else a, full_matrices, compute_uv)
    if not compute_uv:
        return a.new_empty([0]), values, a.new_empty([0])
    return (stacks.adjoint(vh), values, stacks.adjoint(u)) if wide else (u, values, vh)


@decomposes("aten.linalg_matrix_exp.default")
def linalg_matrix_exp(a: Tensor) -> Tensor:
    """Of each matrix. Half precision is computed in f32, which is closer than eager's rounding of each step."""
    wide = a.float() if takes_narrow([a]) else a
    return stacks.matrix_exp(wide).to(a.dtype)


@decomposes("aten.linalg_pinv.atol_rtol_tensor")
def linalg_pinv(
    a: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """The inverse of what is above the tolerance; the rest counts as zero."""
    import torch

    if stacks.is_empty(a):
        return torch.zeros(*a.shape[:-2], a.shape[-1], a.shape[-2], dtype=a.dtype, device=a.device)
    if hermitian:
        values, left = linalg_eigh(a)
        right = left
    else:
        left, values, vh = linalg_svd(a)
        right = stacks.adjoint(vh)
    sizes = values.abs()
    absolute, relative = _tolerances(a, atol, rtol)
    tolerance = torch.maximum(absolute.unsqueeze(-1), relative.unsqueeze(-1) * sizes.amax(-1, keepdim=True))
    inverse = torch.where(sizes > tolerance, values.reciprocal(), 0.0).to(a.dtype)
    return (right * inverse.unsqueeze(-2)) @ stacks.adjoint(left)


def _tolerances(a: Tensor, atol: Tensor | None, rtol: Tensor | None) -> tuple[Tensor, Tensor]:
    """By default the rounding of the largest value; none where an absolute one is given."""
    import torch

    real = a.abs().dtype
    default = torch.full([], torch.finfo(real).eps * max(a.shape[-2:]), dtype=real, device=a.device)
    nothing = torch.zeros([], dtype=real, device=a.device)
    if rtol is None:
        rtol = default if atol is None else torch.where(atol > 0, nothing, default)
    return (nothing if atol is None else atol).to(real), rtol.to(real)


@decomposes("aten.linalg_norm.default", "aten.linalg_norm.ord_str")
def linalg_norm(
    a: Tensor,
    order: Any = None,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Of a vector, or of matrices where an order is given for two dimensions."""
    import torch

    if dim is None and order is not None and a.dim() == 2:
        dim = [0, 1]
    if dim is not None and len(dim) == 2 and order is not None:
        return torch.linalg.matrix_norm(a, order, dim, keepdim, dtype=dtype)
    return torch.linalg.vector_norm(a, 2 if order is None else order, dim, keepdim, dtype=dtype)

"""Least squares and covariances, whose results torch.export cannot tell without values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import matrix_stacks as stacks
from .registry import traced_by_decomposition
from .spectra import linalg_svd

if TYPE_CHECKING:
    from torch import Tensor


@traced_by_decomposition("aten.linalg_lstsq.default")
def linalg_lstsq(
    a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The shortest of the best solutions, by singular values.

    The drivers gelsd and gelss have no residuals where a rank is less than full, which is known only when the program
    runs: here they have them whatever the rank is. gels takes every rank for full.
    """
    import torch

    driver = driver or "gelsy"
    rows, columns = a.shape[-2:]
    vectors = b.dim() == a.dim() - 1
    right = b.unsqueeze(-1) if vectors else b
    u, values, vh = linalg_svd(a)
    tolerance = 0.0 if driver == "gels" else _tolerance(a, rcond)
    kept = values > tolerance * values[..., :1]
    inverse = torch.where(kept, values.reciprocal(), 0.0).to(a.dtype).unsqueeze(-1)
    x = stacks.adjoint(vh) @ (inverse * (stacks.adjoint(u) @ right))
    rank = kept.sum(-1) if driver != "gels" else torch.empty([0], dtype=torch.int64, device=a.device)
    residuals = a.new_empty([0], dtype=values.dtype)
    if rows > columns and driver != "gelsy":
        residuals = (a @ x - right).abs().square().sum(-2)
    if driver not in ("gelsd", "gelss"):
        values = values.new_empty([0])
    return x.squeeze(-1) if vectors else x, residuals, rank, values


def _tolerance(a: Tensor, rcond: float | None) -> float:
    import torch

    return torch.finfo(a.dtype).eps * max(a.shape[-2:]) if rcond is None else rcond


@traced_by_decomposition("aten.cov.default")
def cov(
    x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """torch looks whether the divisor is positive, to warn; then it is zero."""
    rows = x.reshape(1, -1) if x.dim() < 2 else x
    weights = aweights if fweights is None else fweights if aweights is None else fweights * aweights
    weighted = rows if weights is None else rows * weights
    total: Any = rows.shape[1] if weights is None else weights.sum()
    centred = rows - (weighted.sum(1) / total).unsqueeze(1)
    if weights is not None and aweights is not None and correction != 0:
        divisor = total - correction * (weights * aweights).sum() / total
    else:
        divisor = total - correction
    divisor = max(divisor, 0) if weights is None else divisor.clamp(min=0)
    other = centred if weights is None else centred * weights
    return ((centred @ stacks.adjoint(other)) / divisor).squeeze()

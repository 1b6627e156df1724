"""Distances between rows and their gradients, from the differences of all pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten._cdist_forward.default")
def cdist(a: Tensor, b: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """The p-norm of the difference of each row of `a` and each of `b`, exact also where eager takes matmuls."""
    return _norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)


def _norm(difference: Tensor, p: float) -> Tensor:
    import torch

    size = difference.abs()
    if p == 0:
        return (size != 0).sum(-1).to(size.dtype)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return torch.sqrt((size * size).sum(-1))
    if p == math.inf:
        return size.amax(-1) if size.shape[-1] else size.sum(-1)
    return torch.pow(torch.pow(size, p).sum(-1), 1 / p)


@decomposes("aten._cdist_backward.default")
def cdist_backward(grad: Tensor, a: Tensor, b: Tensor, p: float, distances: Tensor) -> Tensor:
    """That of `a`: of each pair the gradient times the derivative of its distance, 0 where that is none."""
    import torch

    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    grad, distances = grad.unsqueeze(-1), distances.unsqueeze(-1)
    size, sign = difference.abs(), torch.sign(difference)
    if p == 0:
        return (difference * 0 * grad).sum(-2)
    if p == 1:
        return (sign * grad).sum(-2)
    if p == math.inf:
        return torch.where(size == distances, sign * grad, 0.0).sum(-2)
    if p == 2:
        share = difference * grad / distances
    else:
        share = sign * torch.pow(size, p - 1) * grad / torch.pow(distances, p - 1)
    nothing = (distances == 0) | (difference == 0) if p < 2 else distances == 0
    return torch.where(nothing, 0.0, share).sum(-2)


@decomposes("aten._pdist_forward.default")
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Each row with each later one."""
    rows, columns = _pairs(x)
    return _norm(x.index_select(0, rows) - x.index_select(0, columns), p)


@decomposes("aten._pdist_backward.default")
def pdist_backward(grad: Tensor, x: Tensor, p: float, distances: Tensor) -> Tensor:
    """Both rows of a pair get their share: as one of each with all others."""
    count = x.shape[0]
    rows, columns = _pairs(x)

    def matrix(values: Tensor) -> Tensor:
        half = values.new_zeros((count, count)).index_put((rows, columns), values)
        return half + half.transpose(0, 1)

    return cdist_backward(matrix(grad), x, x, p, matrix(distances))


def _pairs(x: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    rows, columns = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device).unbind(0)
    return rows, columns


@decomposes("aten.dist.default")
def dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    import torch

    return torch.linalg.vector_norm(a - b, p)

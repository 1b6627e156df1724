"""Products of matrices and vectors: the linear layer as one product of all its rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.linear.default")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weight^T + bias, over the last dimension of x.

    torch's own makes a batched product of an x that is not contiguous, with the weight repeated for each of the batch:
    1.5 times as long where the batch is dynamic.
    """
    import torch

    if weight.dim() == 1:
        result = torch.matmul(x, weight)
        return result if bias is None else result + bias
    rows = x.reshape([math.prod(x.shape[:-1]), x.shape[-1]])
    columns = weight.t()
    result = torch.mm(rows, columns) if bias is None else torch.addmm(bias, rows, columns)
    return result.reshape([*x.shape[:-1], weight.shape[0]])


@decomposes("aten.addmv.default")
def addmv(added: Tensor, matrix: Tensor, vector: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """The vector as a matrix of one column."""
    import torch

    columns = torch.addmm(added.unsqueeze(-1), matrix, vector.unsqueeze(1), beta=beta, alpha=alpha)
    return columns.squeeze(1)


@decomposes("aten.addbmm.default")
def addbmm(added: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """torch-mlir makes floats of the factors of integers, and has no factors of float64.

    Of integers eager drops the factors' fractions.
    """
    import torch

    if added.is_complex() or added.dtype in (torch.float16, torch.bfloat16):
        return NotImplemented
    if not added.is_floating_point():
        beta, alpha = int(beta), int(alpha)
    return beta * added + alpha * torch.bmm(a, b).sum(0, dtype=added.dtype)


@decomposes("aten.addcmul.default")
def addcmul(added: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    """Of integers: eager drops the fraction of `value`, where torch's own decomposition raises."""
    if added.is_floating_point() or added.is_complex():
        return NotImplemented
    return added + int(value) * a * b

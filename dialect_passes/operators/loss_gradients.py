"""Gradients of the losses with margins over classes (aten/src/ATen/native/LossMulti*Margin.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

_NONE, _MEAN = 0, 1


@decomposes("aten.multi_margin_loss_backward.default")
def multi_margin_loss_backward(
    grad: Tensor,
    x: Tensor,
    target: Tensor,
    p: float,
    margin: float,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    """Of sum(max(0, margin - x[target] + x[other])^p) / classes over the others."""
    import torch

    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    index = target.reshape(-1, 1)
    short = margin - rows.gather(1, index) + rows
    slope = torch.ones_like(short) if p == 1 else 2 * short
    if weight is not None:
        slope = slope * weight.index_select(0, index.reshape(-1)).unsqueeze(1)
    other = torch.arange(rows.shape[1], device=x.device) != index
    share = torch.where(other & (short > 0), slope, 0.0) * _scale(grad, rows, reduction)
    return torch.where(other, share, -share.sum(1, keepdim=True)).reshape(x.shape)


@decomposes("aten.multilabel_margin_loss_backward.default")
def multilabel_margin_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    """Of sum(max(0, 1 - x[target] + x[other])) / classes over targets, up to the first of -1, and others."""
    import torch

    rows = x.reshape(-1, x.shape[-1] if x.dim() else 1)
    targets = target.reshape(rows.shape)
    valid = (targets < 0).cumsum(1) == 0
    index = torch.where(valid, targets, 0)
    short = 1 - rows.gather(1, index).unsqueeze(2) + rows.unsqueeze(1)
    other = (is_target.reshape(rows.shape) == 0).unsqueeze(1)
    active = (valid.unsqueeze(2) & other & (short > 0)).to(x.dtype)
    total = active.sum(1).scatter_add(1, index, -active.sum(2))
    return (total * _scale(grad, rows, reduction)).reshape(x.shape)


def _scale(grad: Tensor, rows: Tensor, reduction: int) -> Tensor:
    """The gradient of each row's loss."""
    if reduction == _NONE:
        return grad.reshape(-1, 1) / rows.shape[1]
    return grad / (rows.shape[1] * (rows.shape[0] if reduction == _MEAN else 1))

"""Batch norm in training as `_batch_norm_with_update` records it, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten._batch_norm_with_update_functional.default")
def batch_norm_with_update(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Output, mean, inverse of the deviation, what kernels of other devices reserve, and the new statistics."""
    import torch

    out, mean, inverse, new_mean, new_var = torch.ops.aten._native_batch_norm_legit_functional.default(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return out, mean, inverse, x.new_empty((0,), dtype=torch.uint8), new_mean, new_var


@decomposes("aten.batch_norm_backward.default")
def batch_norm_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_var: Tensor | None,
    update: bool,
    eps: float,
    output_mask: list[bool],
    reserve: Tensor,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """On the CPU the reserve is empty, and the saved variance is the inverse of the deviation."""
    import torch

    saved = running_mean, running_var, save_mean, save_var
    return torch.ops.aten.native_batch_norm_backward.default(
        grad, x, weight, *saved, update, eps, output_mask
    )

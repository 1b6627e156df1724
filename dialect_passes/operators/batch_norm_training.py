"""Batch norm in training as `_batch_norm_with_update` records it, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor | None, ...]:
    """Output, mean, inverse of the deviation and new statistics.

    Where all is float16 or bfloat16, eager normalizes by the mean and the inverse as it saves them, rounded.
    """
    import torch

    out, mean, inverse, *statistics = torch._decomp.decompositions.native_batch_norm_helper(
        x, weight, bias, running_mean, running_var, training, momentum, eps, True
    )
    given = [tensor.dtype for tensor in (x, weight, bias, running_mean) if tensor is not None]
    if training and x.dtype in (torch.float16, torch.bfloat16) and len(set(given)) == 1:
        factor = inverse.float() if weight is None else inverse.float() * weight.float()
        summand = -mean.float() * factor if bias is None else bias.float() - mean.float() * factor
        shape = [1, -1] + [1] * (x.dim() - 2)
        out = (x.float() * factor.reshape(shape) + summand.reshape(shape)).to(x.dtype)
    return out, mean, inverse, *statistics


@decomposes("aten._native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> tuple[Tensor | None, ...]:
    """Output, mean and inverse of the deviation."""
    return batch_norm_functional(x, weight, bias, None, None, training, momentum, eps)[:3]


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

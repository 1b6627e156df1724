"""Batch norm in eval mode, as eager's kernels compute it: one product and one sum per element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten._native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """x * scale + shift per channel, with scale = weight / sqrt(var + eps) and shift = bias - mean * scale.

    torch's own decomposition subtracts the mean and multiplies twice: two roundings more per element, in
    every layer of a deep network. scale and shift depend on weights alone and are computed once, at load.
    """
    import torch

    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    scale = torch.rsqrt(running_var.to(wide) + eps)
    if weight is not None:
        scale = scale * weight.to(wide)
    shift = -running_mean.to(wide) * scale
    if bias is not None:
        shift = shift + bias.to(wide)
    shape = [1, -1] + [1] * (x.dim() - 2)
    out = x.to(wide) * scale.reshape(shape) + shift.reshape(shape)
    nothing = x.new_zeros((0,))
    return out.to(x.dtype), nothing, nothing

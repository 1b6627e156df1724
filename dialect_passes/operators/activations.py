"""Activation functions that the lowering cannot do, and gradients as eager computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten._softmax.default")
def softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Of a single number: torch-mlir's lowering of it does not end."""
    import torch

    if x.dim():
        return NotImplemented
    return torch.ops.aten._softmax.default(x.unsqueeze(0), 0, half_to_float).squeeze(0)


@decomposes("aten._log_softmax.default")
def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """In float16 and bfloat16; along the last dimension eager rounds the sum and its logarithm."""
    import torch

    if x.dtype not in (torch.float16, torch.bfloat16) or not x.dim():
        return torch._decomp.decompositions._log_softmax(x, dim, half_to_float)
    last = dim in (-1, x.dim() - 1)
    shifted = _wide(x) - _wide(x.amax(dim, keepdim=True))
    total = torch.exp(shifted).sum(dim, keepdim=True)
    total = _wide(torch.log(total.to(x.dtype))) if last else torch.log(total)
    return (shifted - total).to(x.dtype)


@decomposes("aten.silu_backward.default")
def silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    """d/dx x sigmoid(x) = sigmoid(x) (1 + x (1 - sigmoid(x)))."""
    import torch

    wide, gate = _wide(x), torch.sigmoid(_wide(x))
    return (_wide(grad) * gate * (1 + wide * (1 - gate))).to(x.dtype)


@decomposes("aten.mish_backward.default")
def mish_backward(grad: Tensor, x: Tensor) -> Tensor:
    """d/dx x tanh(softplus(x)) = t + x sigmoid(x) (1 - t^2)."""
    import torch

    wide = _wide(x)
    t = torch.tanh(torch.nn.functional.softplus(wide))
    return (_wide(grad) * (t + wide * torch.sigmoid(wide) * (1 - t * t))).to(x.dtype)


@decomposes("aten.hardshrink_backward.default", "aten.softshrink_backward.default")
def shrink_backward(grad: Tensor, x: Tensor, lambd: float) -> Tensor:
    """Nothing where |x| <= lambd."""
    import torch

    inside = (x >= -lambd) & (x <= lambd)
    return torch.where(inside, torch.zeros((), dtype=grad.dtype, device=grad.device), grad)


def _wide(x: Tensor) -> Tensor:
    import torch

    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x

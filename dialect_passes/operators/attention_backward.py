"""Attention as training records it on the CPU, and its gradient.

torch's own decomposition returns the matrix of weights where the logarithms of the sums belong, which the backward
pass would take for them: forward and backward are replaced together.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten._scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The attention, and log(sum(exp(scores))) per row."""
    import torch

    groups = query.shape[1] // key.shape[1]
    scores = _scores(query, _repeated(key, groups), is_causal, attn_mask, scale)
    largest = scores.amax(-1, keepdim=True)
    # A row that the mask leaves empty has no weights, here and in the gradient: exp(-inf - 0).
    largest = largest.masked_fill(largest == -math.inf, 0)
    shares = torch.exp(scores - largest)
    total = shares.sum(-1, keepdim=True)
    total = total.masked_fill(total == 0, 1)
    # Eager divides last, and multiplies in the type of the values.
    rounded = _wide(shares.to(query.dtype))
    out = (torch.matmul(rounded, _wide(_repeated(value, groups))) / total).to(query.dtype)
    sums = (largest + torch.log(total)).squeeze(-1)
    if query.transpose(1, 2).is_contiguous():
        # Views of the result were recorded for the layout of eager's, which is that of the queries.
        out = out.transpose(1, 2).contiguous().transpose(1, 2)
    return out, sums


@decomposes("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Dao et al., FlashAttention (2022), appendix B.4: weights are computed anew from scores and their sums."""
    import torch

    heads, groups = key.shape[1], query.shape[1] // key.shape[1]
    keys, values = _wide(_repeated(key, groups)), _wide(_repeated(value, groups))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    weights = torch.exp(_scores(query, keys, is_causal, attn_mask, scale) - logsumexp.unsqueeze(-1))
    wide = _wide(grad)
    of_value = torch.matmul(weights.transpose(-2, -1), wide)
    mean = (wide * _wide(out)).sum(-1, keepdim=True)
    of_scores = weights * (torch.matmul(wide, values.transpose(-2, -1)) - mean) * factor
    of_query = torch.matmul(of_scores, keys)
    of_key = torch.matmul(of_scores.transpose(-2, -1), _wide(query))
    of_key, of_value = _summed(of_key, heads, groups), _summed(of_value, heads, groups)
    return of_query.to(query.dtype), of_key.to(key.dtype), of_value.to(value.dtype)


def _wide(x: Tensor) -> Tensor:
    import torch

    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _repeated(x: Tensor, groups: int) -> Tensor:
    """Each head of keys and values serves a group of heads of queries."""
    return x if isinstance(groups, int) and groups == 1 else x.repeat_interleave(groups, 1)


def _summed(x: Tensor, heads: int, groups: int) -> Tensor:
    if isinstance(groups, int) and groups == 1:
        return x
    return x.reshape(x.shape[0], heads, groups, *x.shape[2:]).sum(2)


def _scores(
    query: Tensor, key: Tensor, is_causal: bool, attn_mask: Tensor | None, scale: float | None
) -> Tensor:
    import torch

    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    # Widened and nothing else, float16 and bfloat16 are multiplied as such, with sums in float32.
    scores = torch.matmul(_wide(query), _wide(key).transpose(-2, -1)) * factor
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        rows = torch.arange(query.shape[-2], device=query.device).unsqueeze(1)
        columns = torch.arange(key.shape[-2], device=query.device)
        scores = scores.masked_fill(columns > rows, -math.inf)
    return scores

"""The fast paths of `nn.TransformerEncoderLayer` and `nn.MultiheadAttention` in evaluation mode, taken apart.

As ATen/native/transformers computes them: one operator for a whole layer, whose masks say what is left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

_OF_PADDING = 1
"""The type of a mask over the keys of each sample; others broadcast to the scores as they are."""


@decomposes("aten._native_multi_head_attention.default")
def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Projected attention, and its weights where they are asked for. Rows without a key are NaN, as in eager."""
    import torch
    from torch.nn import functional

    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    given = zip((query, key, value), weights, biases, strict=True)
    q, k, v = (_heads(functional.linear(x, weight, bias), num_head) for x, weight, bias in given)
    scores = (q / math.sqrt(embed_dim // num_head)) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(_over_scores(mask, mask_type).to(torch.bool), -math.inf)
    attention = scores.softmax(-1)
    out = functional.linear((attention @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if not need_weights:
        return out, None
    return out, attention.mean(1) if average_attn_weights else attention


def _heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def _over_scores(mask: Tensor, mask_type: int | None) -> Tensor:
    """The mask as one that broadcasts to [batch, heads, query, key]."""
    return mask[:, None, None] if mask_type == _OF_PADDING else mask


@decomposes("aten._transformer_encoder_layer_fwd.default")
def transformer_encoder_layer_fwd(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """Attention and two linear layers, each added to what it is of, with norms before or behind."""
    from torch.nn import functional

    def first_norm(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    x = first_norm(src) if norm_first else src
    projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    attended, _ = native_multi_head_attention(
        x, x, x, embed_dim, num_heads, *projections, mask, need_weights=False, mask_type=mask_type
    )
    x = src + attended if norm_first else first_norm(src + attended)
    hidden = functional.linear(second_norm(x) if norm_first else x, ffn_weight_1, ffn_bias_1)
    hidden = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
    x = x + functional.linear(hidden, ffn_weight_2, ffn_bias_2)
    return x if norm_first else second_norm(x)

"""Scaled dot product attention, as matmuls and a softmax."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pipeline.shape_lib.helpers.dims import assert_same
from pipeline.shape_lib.helpers.promotion import same
from pipeline.shape_lib.registry import dtype_function, shape_function

from .attention_backward import flash_attention
from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T * scale + mask) value, as PyTorch documents it.

    torch's own decomposition for CPU changes the result's strides under a later view (GPT-2 fails in
    it). A row that the mask leaves empty gives zeros, as eager's kernels do, not NaN.
    """
    import torch

    if query.dtype in (torch.float16, torch.bfloat16):
        return _narrow_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(query * scale, key.transpose(-2, -1))
    mask = _mask(query, key, attn_mask, is_causal)
    if mask is not None:
        blocked = torch.full((), -math.inf, dtype=scores.dtype, device=scores.device)
        scores = torch.where(mask, scores, blocked) if mask.dtype == torch.bool else scores + mask
    weights = torch.softmax(scores, -1)
    if mask is not None:
        empty = (scores == -math.inf).all(-1, keepdim=True)
        weights = torch.where(empty, torch.zeros((), dtype=weights.dtype, device=weights.device), weights)
    if dropout_p > 0.0:
        weights, _ = torch.native_dropout(weights, dropout_p, True)
    return torch.matmul(weights, value)


def _narrow_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    *rest: Any,
) -> Tensor:
    """In float32 and rounded once, as all of eager's ways do; the fused one, which most calls take, rounds weights."""
    import torch

    fused = query.dim() == 4 and dropout_p == 0.0 and not (is_causal and mask is not None)
    if not fused or not query.shape[-1] == key.shape[-1] == value.shape[-1]:
        wide = [
            x.float() if x is not None and x.is_floating_point() else x for x in (query, key, value, mask)
        ]
        return scaled_dot_product_attention(*wide, dropout_p, is_causal, *rest).to(query.dtype)
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -math.inf)
    return flash_attention(query, key, value, 0.0, is_causal, attn_mask=mask, scale=rest[0])[0]


def _mask(query: Tensor, key: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor | None:
    import torch

    if not is_causal:
        return attn_mask
    rows = torch.arange(query.shape[-2], device=query.device).unsqueeze(1)
    columns = torch.arange(key.shape[-2], device=query.device).unsqueeze(0)
    return columns <= rows


@shape_function("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward_shape(
    grad: list[int],
    query: list[int],
    key: list[int],
    value: list[int],
    out: list[int],
    logsumexp: list[int],
    dropout_p: float,
    is_causal: bool,
    attn_mask: list[int] | None,
    scale: float | None,
) -> tuple[list[int], list[int], list[int]]:
    """Those of query, key and value: [batch, heads, length, size]."""
    assert len(query) == 4 and len(key) == 4 and len(value) == 4, "query, key and value have four dimensions"
    assert_same(grad, out)
    return query, key, value


@dtype_function("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward_dtype(
    grad: tuple[int, int],
    query: tuple[int, int],
    key: tuple[int, int],
    value: tuple[int, int],
    out: tuple[int, int],
    logsumexp: tuple[int, int],
    dropout_p: float,
    is_causal: bool,
    attn_mask: tuple[int, int] | None,
    scale: float | None,
) -> tuple[int, int, int]:
    """Of all alike."""
    _, dtype = query
    _, key_dtype = key
    _, value_dtype = value
    return dtype, same(dtype, key_dtype), same(dtype, value_dtype)

"""Rotary position embedding of queries and keys.

The C kernel takes 1/1.3 (halves) to 1/1.6 (neighbours) of the time of the meaning in one pass, q and k in one dispatch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..custom_operators.declaration import op
from ..custom_operators.launch import Launch, TensorView
from ..custom_operators.lowering import Refused

_LANES = 16


@op("pipeline::rotary_embedding")
def rotary_embedding(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False
) -> tuple[Tensor, Tensor]:
    """q and k with x * cos + turned(x) * sin in their first `rotated` elements, as Hugging Face's models write it.

    q: [batch, heads, length, width]. k: the same with as many heads of its own.
    cos, sin: [length, rotated] or [batch or 1, length, rotated], with the angle of every element (not of every
        pair). Elements behind the first `rotated` stay as they are.
    interleaved: pairs are neighbours, turned(x) = (-x1, x0, -x3, x2, ...), as in GPT-J and Cohere; else they are
        halves, turned(x) = (-second half, first half), as in Llama and GPT-NeoX.

    float16 and bfloat16 are computed in float32 and rounded once, at the end.
    """
    _check(q, k, cos, sin)
    return _rotated(q, cos, sin, interleaved), _rotated(k, cos, sin, interleaved)


def _check(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> None:
    torch._check(
        q.dim() == 4 and k.dim() == 4 and q.shape[::2] == k.shape[::2] and q.shape[3] == k.shape[3],
        lambda: (
            "rotary_embedding: q and k must be [batch, heads, length, width], different in heads at most; they "
            f"are {list(q.shape)} and {list(k.shape)}"
        ),
    )
    torch._check(
        cos.shape == sin.shape and cos.dim() in (2, 3) and cos.shape[-2] == q.shape[2],
        lambda: (
            "rotary_embedding: cos and sin must be [length, rotated] or [batch, length, rotated] with the length "
            f"{q.shape[2]} of q; they are {list(cos.shape)} and {list(sin.shape)}"
        ),
    )
    torch._check(
        cos.shape[-1] % 2 == 0 and cos.shape[-1] <= q.shape[3],
        lambda: (
            f"rotary_embedding: the last dimension of cos, {cos.shape[-1]}, must be even and at most {q.shape[3]}"
        ),
    )
    torch._check(
        cos.dim() == 2 or cos.shape[0] == 1 or cos.shape[0] == q.shape[0],
        lambda: f"rotary_embedding: cos is for a batch of {cos.shape[0]}, q for {q.shape[0]}",
    )


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    rotated = cos.shape[-1]
    # Pairs along a dimension of their own: turning them is a flip, which IREE fuses; a concatenation it does not.
    pairs, dim = ((rotated // 2, 2), -1) if interleaved else ((2, rotated // 2), -2)
    part = x[..., :rotated].to(wide).unflatten(-1, pairs)
    signs = torch.tensor([-1.0, 1.0], dtype=wide, device=x.device).reshape(2 if dim == -2 else 1, -1)
    cos = cos.to(wide).unsqueeze(-3).unflatten(-1, pairs)
    sin = sin.to(wide).unsqueeze(-3).unflatten(-1, pairs) * signs
    result = (part * cos + part.flip(dim) * sin).flatten(-2).to(x.dtype)
    return result if rotated == x.shape[-1] else torch.cat((result, x[..., rotated:]), -1)


@rotary_embedding.kernel("cpu", source="native/rotary.c", function="rotary_f32", dtypes=[torch.float32])
@rotary_embedding.kernel("cpu", source="native/rotary.c", function="rotary_bf16", dtypes=[torch.bfloat16])
def _launch(q: TensorView, k: TensorView, cos: TensorView, interleaved: bool) -> Launch:
    if q.dtype == torch.bfloat16 and not interleaved:
        raise Refused("for halves in bfloat16, what IREE makes of the meaning is faster")
    batch, q_heads, length, width = q.shape
    k_heads = k.shape[1]
    rotated = cos.shape[-1]
    lanes = _LANES if interleaved else 2 * _LANES
    if not isinstance(rotated, int) or rotated % lanes:
        raise Refused(f"the last dimension of cos is no known multiple of {lanes}")
    angle_batch = cos.shape[0] if cos.ndim == 3 else 1
    constants = [q_heads, k_heads, length, width, angle_batch, rotated, int(interleaved)]
    return Launch([batch * (q_heads + k_heads)], constants)


@rotary_embedding.shape
def rotary_embedding_shape(
    q: list[int], k: list[int], cos: list[int], sin: list[int], interleaved: bool = False
) -> tuple[list[int], list[int]]:
    """Those of q and k."""
    assert len(q) == 4 and len(k) == 4, "rotary_embedding: q and k are [batch, heads, length, width]"
    assert cos == sin, "rotary_embedding: cos and sin have one shape"
    return q, k


@rotary_embedding.dtype
def rotary_embedding_dtype(
    q_rank_dtype: tuple[int, int],
    k_rank_dtype: tuple[int, int],
    cos_rank_dtype: tuple[int, int],
    sin_rank_dtype: tuple[int, int],
    interleaved: bool = False,
) -> tuple[int, int]:
    """Those of q and k."""
    return q_rank_dtype[1], k_rank_dtype[1]


def samples() -> list[tuple[Any, ...]]:
    """Calls for `rotary_embedding.check`."""
    q, k = torch.randn(2, 4, 3, 64), torch.randn(2, 2, 3, 64)
    one, each = torch.rand(2, 3, 32), torch.rand(2, 2, 3, 64)
    halves = [tensor.bfloat16() for tensor in (q, k, *each)]
    return [(q, k, *one), (q, k, *each, True), (*halves, True), (q, k, *(a[..., :6] for a in one))]

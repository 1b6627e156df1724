"""Causal attention over a key/value cache, and the writing of the cache.

`cached_attention` is a plain function over two operators. The cache is written in place, without a copy, in eager and
in a compiled program; attention is differentiated through its meaning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..custom_operators.call_types import CallTypes, TensorType
from ..custom_operators.declaration import op
from ..custom_operators.launch import Launch, TensorView
from ..custom_operators.lowering import Refused
from ..custom_operators.sizes import ceildiv

_ROWS = 64
"""Rows of queries per workgroup; the kernel knows it too."""
_WIDTHS = (64, 128, 192, 256)
"""The sizes of a head that the kernel takes."""


def cached_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    position: Tensor,
    scale: float | None = None,
) -> Tensor:
    """Causal attention of new tokens, whose keys and values it first writes into the caches, in place.

    q: [batch, heads, length, width], the queries of the new tokens. k, v: [batch, kv_heads, length, width], with
        heads a multiple of kv_heads (grouped queries).
    k_cache, v_cache: [batch, kv_heads, capacity, width], such as buffers of the model. They must hold finite numbers
        everywhere: make them with torch.zeros.
    position: where the first new token stands, which is how many tokens the caches hold: int64, without dimensions or
        [batch]. position + length must not exceed the capacity: that is an error when it runs.
    scale: of the scores; None for 1 / sqrt(width).
    """
    for cache, new in ((k_cache, k), (v_cache, v)):
        if torch.compiler.is_exporting():
            # In a captured program the new value takes the buffer's memory.
            cache.copy_(update_cache(cache, new, position))
        elif position.dim() == 0:
            cache.index_copy_(2, _places(new, position), new)
        else:
            cache.scatter_(2, _places(new, position), new)
    return attend_cache(q, k_cache, v_cache, position, scale)


def _places(new: Tensor, position: Tensor) -> Tensor:
    """Where new goes: [length], or for several positions the shape of new."""
    places = position.unsqueeze(-1) + torch.arange(new.shape[2], device=new.device)
    return places if position.dim() == 0 else places[:, None, :, None].expand(new.shape)


@op("pipeline::update_cache")
def update_cache(cache: Tensor, new: Tensor, position: Tensor) -> Tensor:
    """cache, [batch, heads, capacity, width], with new, [batch, heads, length, width], from `position` on.

    position: int64, one number, or one for each batch entry.
    """
    _check_cache(cache, new, position)
    places = _places(new, position)
    return cache.index_copy(2, places, new) if position.dim() == 0 else cache.scatter(2, places, new)


def _check_cache(cache: Tensor, new: Tensor, position: Tensor) -> None:
    fits = cache.dim() == 4 and new.dim() == 4 and cache.shape[:2] == new.shape[:2]
    torch._check(
        fits and cache.shape[3] == new.shape[3] and cache.dtype == new.dtype,
        lambda: (
            "cached_attention: keys and values must be [batch, kv_heads, length, width], the caches [batch, "
            f"kv_heads, capacity, width], of one dtype; they are {new.dtype} {list(new.shape)} and {cache.dtype} "
            f"{list(cache.shape)}"
        ),
    )
    _check_position(position, cache.shape[0])


def _check_position(position: Tensor, batch: int) -> None:
    torch._check(
        position.dtype == torch.int64 and (position.dim() == 0 or position.shape in ((1,), (batch,))),
        lambda: (
            f"cached_attention: position must be int64, one number or [{batch}] of them; it is {position.dtype} "
            f"{list(position.shape)}"
        ),
    )


@update_cache.shape
def update_cache_shape(cache: list[int], new: list[int], position: list[int]) -> list[int]:
    """That of the cache."""
    assert len(cache) == 4 and len(new) == 4, "cached_attention: keys, values and caches have four dimensions"
    return cache


@update_cache.dtype
def update_cache_dtype(
    cache_rank_dtype: tuple[int, int], new_rank_dtype: tuple[int, int], position_rank_dtype: tuple[int, int]
) -> int:
    """That of the cache."""
    return cache_rank_dtype[1]


@update_cache.lowering()
def _insert(call: CallTypes) -> str:
    """One slice per position, written into the cache's own memory; positions are checked before anything runs.

    As a composition (index_copy) it is a scatter of single elements, which checks nothing.
    """
    cache, new, position = call["cache"], call["new"], call["position"]
    count = position.shape[0] if position.rank else 1
    if count is None:
        raise Refused("how many positions there are is known only when it runs")
    lines = ["%c0 = arith.constant 0 : index", *_dims("new", new), *_dims("cache", cache)]
    result = "%cache"
    for entry in range(count):
        lines += _insert_one(entry, count, result, call)
        result = f"%cache{entry}"
    return "\n".join([*lines, f"return {result} : {cache.builtin}"])


def _dims(name: str, tensor: TensorType) -> Iterator[str]:
    """The sizes of %name as %name_0, %name_1, ..."""
    for dim, size in enumerate(tensor.shape):
        if size is not None:
            yield f"%{name}_{dim} = arith.constant {size} : index"
        else:
            yield f"%{name}_at{dim} = arith.constant {dim} : index"
            yield f"%{name}_{dim} = tensor.dim %{name}, %{name}_at{dim} : {tensor.builtin}"


def _insert_one(entry: int, count: int, before: str, call: CallTypes) -> list[str]:
    """Writes batch entry `entry` (with a single position, the whole batch) of %new into the value `before`."""
    cache, new, position = call["cache"], call["new"], call["position"]
    index, batch = ("%c0", "%new_0") if count == 1 else (f"%entry{entry}", "1")
    sizes = f"[{batch}, %new_1, %new_2, %new_3] [1, 1, 1, 1]"
    part = "tensor<?x?x?x?x" if count == 1 else "tensor<1x?x?x?x"
    part += f"{new.element}>"
    return [
        f"%entry{entry} = arith.constant {entry} : index",
        f"%p{entry} = tensor.extract %position[{index if position.rank else ''}] : {position.builtin}",
        f"%start{entry} = arith.index_cast %p{entry} : i64 to index",
        f"%end{entry} = arith.addi %start{entry}, %new_2 : index",
        f"%low{entry} = arith.cmpi sge, %start{entry}, %c0 : index",
        f"%high{entry} = arith.cmpi sle, %end{entry}, %cache_2 : index",
        f"%fits{entry} = arith.andi %low{entry}, %high{entry} : i1",
        f'cf.assert %fits{entry}, "cached_attention: position + length is more than the cache can hold"',
        f"%part{entry} = tensor.extract_slice %new[{index}, 0, 0, 0] {sizes} : {new.builtin} to {part}",
        f"%cache{entry} = tensor.insert_slice %part{entry} into {before}[{index}, 0, %start{entry}, 0] {sizes} : "
        f"{part} into {cache.builtin}",
    ]


@op("pipeline::attend_cache")
def attend_cache(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float | None = None
) -> Tensor:
    """Attention of the queries from `position` on to the keys up to their own place; see `cached_attention`.

    float16 and bfloat16 are computed in float32.
    """
    _check_queries(q, k_cache, v_cache)
    _check_position(position, q.shape[0])
    kv_heads, capacity = k_cache.shape[1], k_cache.shape[2]
    batch, heads, length, width = q.shape
    group = heads // kv_heads
    wide = torch.float32 if q.dtype in (torch.float16, torch.bfloat16) else q.dtype
    # All query heads of a key head are rows of one matrix: no key is copied once per query head.
    rows = (q.to(wide) * _scale(scale, width)).reshape(batch, kv_heads, group * length, width)
    scores = torch.matmul(rows, k_cache.to(wide).transpose(-2, -1))
    places = position.reshape(-1, 1) + torch.arange(length, device=q.device)
    hidden = torch.arange(capacity, device=q.device) > places[:, None, None, :, None]
    scores = scores.reshape(batch, kv_heads, group, length, capacity).masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, -1).reshape(batch, kv_heads, group * length, capacity)
    return torch.matmul(weights, v_cache.to(wide)).reshape(q.shape).to(q.dtype)


def _scale(scale: float | None, width: int) -> float:
    return 1 / math.sqrt(width) if scale is None else scale


def _check_queries(q: Tensor, k_cache: Tensor, v_cache: Tensor) -> None:
    fits = q.dim() == 4 and k_cache.dim() == 4 and k_cache.shape == v_cache.shape
    fits = fits and q.shape[0] == k_cache.shape[0] and q.shape[3] == k_cache.shape[3]
    torch._check(
        fits and q.shape[1] % k_cache.shape[1] == 0 and q.dtype == k_cache.dtype == v_cache.dtype,
        lambda: (
            "cached_attention: q must be [batch, heads, length, width], both caches [batch, kv_heads, capacity, "
            "width] with kv_heads a divisor of heads, of one dtype; they are "
            + ", ".join(f"{t.dtype} {list(t.shape)}" for t in (q, k_cache, v_cache))
        ),
    )


@attend_cache.shape
def attend_cache_shape(
    q: list[int], k_cache: list[int], v_cache: list[int], position: list[int], scale: float | None = None
) -> list[int]:
    """That of the queries."""
    assert len(q) == 4 and len(k_cache) == 4, "cached_attention: queries and caches have four dimensions"
    assert k_cache == v_cache, "cached_attention: both caches have one shape"
    return q


@attend_cache.dtype
def attend_cache_dtype(
    q_rank_dtype: tuple[int, int],
    k_cache_rank_dtype: tuple[int, int],
    v_cache_rank_dtype: tuple[int, int],
    position_rank_dtype: tuple[int, int],
    scale: float | None = None,
) -> int:
    """That of the queries."""
    return q_rank_dtype[1]


def _floats(dtype: torch.dtype) -> dict[str, list[torch.dtype]]:
    return {name: [dtype] for name in ("q", "k_cache", "v_cache")}


_SOURCE = "native/cached_attention.c"


@attend_cache.kernel("cpu", source=_SOURCE, function="cached_attention_bf16", dtypes=_floats(torch.bfloat16))
@attend_cache.kernel("cpu", source=_SOURCE, function="cached_attention_f32", dtypes=_floats(torch.float32))
def _launch(q: TensorView, k_cache: TensorView, position: TensorView, scale: float | None) -> Launch:
    batch, heads, length, width = q.shape
    kv_heads, capacity = k_cache.shape[1], k_cache.shape[2]
    if not isinstance(width, int) or width not in _WIDTHS:
        raise Refused(f"the size of a head is none of {', '.join(map(str, _WIDTHS))}")
    group = heads // kv_heads
    constants = [kv_heads, group, length, capacity, width, position.numel(), float(_scale(scale, width))]
    return Launch([ceildiv(group * length, _ROWS), batch * kv_heads], constants)


def samples() -> list[tuple[Any, ...]]:
    """Calls for `attend_cache.check`."""
    q, k, v = torch.randn(2, 6, 5, 64), torch.randn(2, 3, 40, 64), torch.randn(2, 3, 40, 64)
    halves = [tensor.bfloat16() for tensor in (q, k, v)]
    return [
        (q, k, v, torch.tensor(30)),
        (q, k, v, torch.tensor([35, 0]), 0.3),
        (*halves, torch.tensor([7])),
        (q[..., :8], k[..., :8], v[..., :8], torch.tensor(3)),
    ]


def cache_samples() -> list[tuple[Any, ...]]:
    """Calls for `update_cache.check`."""
    cache, new = torch.randn(2, 3, 9, 4), torch.randn(2, 3, 2, 4)
    return [
        (cache, new, torch.tensor(7)),
        (cache, new, torch.tensor([0, 4])),
        (cache, new, torch.tensor([1])),
    ]

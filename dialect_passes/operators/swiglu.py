"""SwiGLU, the gate of feed-forward layers: silu(gate) * x, optionally with bounded inputs.

It has no kernel: IREE makes one loop of the meaning, and a vectorised C kernel took 1.1 times as long. What the
operator gives is its gradient, for which eager and compiled training steps keep x and gate and nothing else.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.shape_lib import dtypes

from ..custom_operators.declaration import op


@op("pipeline::swiglu")
def swiglu(x: Tensor, gate: Tensor, limit: float | None = None) -> Tensor:
    """silu(gate) * x, element by element, for x and gate of one shape.

    limit: bounds gate from above and x on both sides first, as DeepSeek's `swiglu_limit`; None for no bounds.
    """
    torch._check(
        x.shape == gate.shape,
        lambda: f"swiglu: x and gate must have one shape; they are {list(x.shape)} and {list(gate.shape)}",
    )
    if limit is not None:
        gate = gate.clamp(max=limit)
        x = x.clamp(min=-limit, max=limit)
    return functional.silu(gate) * x


@swiglu.shape
def swiglu_shape(x: list[int], gate: list[int], limit: float | None = None) -> list[int]:
    """That of x."""
    assert x == gate, "swiglu: x and gate have one shape"
    return x


@swiglu.dtype
def swiglu_dtype(
    x_rank_dtype: tuple[int, int], gate_rank_dtype: tuple[int, int], limit: float | None = None
) -> int:
    """That of the product."""
    return dtypes.promote_dtypes([x_rank_dtype[0], gate_rank_dtype[0]], [x_rank_dtype[1], gate_rank_dtype[1]])


def samples() -> list[tuple[Any, ...]]:
    """Calls for `swiglu.check`."""
    x, gate = torch.randn(3, 21) * 4, torch.randn(3, 21) * 4
    return [(x, gate), (x, gate, 1.5), (x[0].half(), gate[0].half(), 7.0)]

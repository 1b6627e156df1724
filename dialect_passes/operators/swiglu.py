"""SwiGLU, the gate of feed-forward layers: silu(gate) * x, optionally with bounded inputs.

It has no kernel: IREE makes one loop of the meaning, and a vectorised C kernel took 1.1 times as long. What the
operator gives is its gradient, for which eager and compiled training steps keep x and gate and nothing else.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

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

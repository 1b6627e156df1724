"""Functions of f64 numbers for which IREE calls a C library that its executables do not hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


def _decomposes_wide(name: str) -> Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]]:
    """Registers a function for f64; other types are lowered whole."""

    def register(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def decomposition(x: Tensor) -> Tensor:
            import torch

            return function(x) if x.dtype == torch.float64 else NotImplemented

        decomposes(f"aten.{name}.default")(decomposition)
        return function

    return register


@_decomposes_wide("asin")
def asin(x: Tensor) -> Tensor:
    """atan(x / sqrt(1 - x²)); NaN beyond 1."""
    import torch

    return torch.atan(x / torch.sqrt((1 - x) * (1 + x)))


@_decomposes_wide("acos")
def acos(x: Tensor) -> Tensor:
    """2 atan(sqrt((1 - x) / (1 + x))); NaN beyond 1."""
    import torch

    return 2 * torch.atan(torch.sqrt((1 - x) / (1 + x)))


@_decomposes_wide("tanh")
def tanh(x: Tensor) -> Tensor:
    """By expm1(-2|x|), which does not overflow."""
    import torch

    e = torch.expm1(-2 * x.abs())
    value = -e / (2 + e)
    return torch.where(x < 0, -value, torch.where(x == 0, x, value))


@_decomposes_wide("log2")
def log2(x: Tensor) -> Tensor:
    """log(x) / log(2)."""
    import torch

    return torch.log(x) * (1 / math.log(2))


@decomposes("aten.logaddexp2.default")
def logaddexp2(a: Tensor, b: Tensor) -> Tensor:
    """The larger, and what the other adds to it."""
    import torch

    if torch.result_type(a, b) != torch.float64:
        return NotImplemented
    high = torch.maximum(a, b)
    value = high + torch.log1p(torch.exp2(torch.minimum(a, b) - high)) * (1 / math.log(2))
    return torch.where((a == b) & torch.isinf(high), high, value)


@decomposes("aten.gelu.default")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """The tanh form, which torch-mlir approximates; and f64."""
    import torch

    if approximate == "none":
        return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5))) if x.dtype == torch.float64 else NotImplemented
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return (0.5 * wide * (1 + torch.tanh(inner))).to(x.dtype)

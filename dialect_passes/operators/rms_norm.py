"""RMSNorm over the last dimension, with its statistics in float32.

It has no kernel: from this meaning IREE makes one fused dispatch, and a vectorised C kernel was no faster (1.0 times in
float32, 0.8 in bfloat16). torch.nn.functional.rms_norm is compiled as the same function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..custom_operators.declaration import op
from . import normalization


@op("pipeline::rms_norm")
def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, as torch.nn.functional.rms_norm.

    weight: a factor for each element of the last dimension. eps: None for the difference of 1 and the next number.
    float16 and bfloat16 are computed in float32 (eps too) and rounded once, at the end.
    """
    torch._check(
        x.dim() > 0 and (weight is None or weight.shape == x.shape[-1:]),
        lambda: (
            "rms_norm: weight must have a number for each element of the last dimension of x; x is "
            f"{list(x.shape)}" + ("" if weight is None else f", weight {list(weight.shape)}")
        ),
    )
    return normalization.rms_norm(x, list(x.shape[-1:]), weight, eps)


@rms_norm.shape
def rms_norm_shape(x: list[int], weight: list[int] | None = None, eps: float | None = None) -> list[int]:
    """That of x."""
    assert len(x) > 0, "rms_norm: x has a dimension to normalise over"
    if weight is not None:
        assert weight == [x[len(x) - 1]], (
            "rms_norm: weight has a number for each element of the last dimension"
        )
    return x


@rms_norm.dtype
def rms_norm_dtype(
    x_rank_dtype: tuple[int, int], weight_rank_dtype: tuple[int, int] | None = None, eps: float | None = None
) -> int:
    """That of x."""
    return x_rank_dtype[1]


def samples() -> list[tuple[Any, ...]]:
    """Calls for `rms_norm.check`."""
    x, weight = torch.randn(2, 5, 33), torch.randn(33)
    return [(x, weight, 1e-6), (x * 1e-4,), (x.bfloat16(), weight.bfloat16()), (x[0].half(), None, 1e-5)]

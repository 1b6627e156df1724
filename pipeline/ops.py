"""Operators that come with pipeline, each with a fused kernel or lowering of its own: ``pipeline.ops.swiglu(x, gate)``.

They work like any PyTorch operator, in eager and everywhere else; see `dialect_passes/operators`, where each is one
entry. Names load when first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.dialect_passes.operators.cached_attention import cached_attention
    from pipeline.dialect_passes.operators.cross_entropy import cross_entropy
    from pipeline.dialect_passes.operators.rms_norm import rms_norm
    from pipeline.dialect_passes.operators.rotary import rotary_embedding
    from pipeline.dialect_passes.operators.swiglu import swiglu

_HOMES = {
    "cached_attention": "cached_attention",
    "cross_entropy": "cross_entropy",
    "rms_norm": "rms_norm",
    "rotary_embedding": "rotary",
    "swiglu": "swiglu",
}

__all__ = ["cached_attention", "cross_entropy", "rms_norm", "rotary_embedding", "swiglu"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"pipeline.ops has no operator '{name}'; it has {', '.join(__all__)}")
    # Gives the operators' `check` the compiler.
    importlib.import_module("pipeline.operators")
    return getattr(importlib.import_module(f"pipeline.dialect_passes.operators.{_HOMES[name]}"), name)

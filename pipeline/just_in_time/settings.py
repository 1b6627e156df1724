"""What `torch.compile(options=..., mode=...)` says, checked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.api import compile_options
from pipeline.compiler import Options
from pipeline.errors import InputError

FALLBACKS = ("eager", "error")

_MODES = {
    "default": None,
    "reduce-overhead": "local-sync",
    "max-autotune": "local-task",
    "max-autotune-no-cudagraphs": "local-task",
}
"""PyTorch's names, and where programs for the CPU run: in the caller's thread, at once, or always in all threads."""

_NO_OPTIONS = ("weights", "callbacks")
"""What `compile_options` takes, and `torch.compile` does not."""


@dataclass(frozen=True)
class Settings:
    """How to compile graphs. fallback: "eager" or "error". device: where to load programs; None: the target's,
    for a CPU by the size of each graph. only_lower: see what is unsupported, compile nothing, and run in eager.
    """

    compiler: Options
    fallback: str = "eager"
    device: str | None = None
    only_lower: bool = False


def read_settings(options: Mapping[str, Any] | None, mode: str | None) -> Settings:
    """Raises InputError naming what is wrong."""
    if mode is not None and mode not in _MODES:
        raise InputError(f"mode '{mode}' is unknown; choose from {', '.join(_MODES)}")
    given = dict(options or {})
    fallback = given.pop("fallback", "eager")
    if fallback not in FALLBACKS:
        raise InputError(f"fallback '{fallback}' is unknown; choose from {', '.join(FALLBACKS)}")
    device = given.pop("device", None)
    if "weights" in given:
        raise InputError("option 'weights': torch.compile keeps the weights where the model has them")
    known = [name for name in inspect.signature(compile_options).parameters if name not in _NO_OPTIONS]
    unknown = [name for name in given if name not in known]
    if unknown:
        names = ", ".join(["fallback", "device", *known])
        raise InputError(f"unknown options for the backend 'pipeline': {', '.join(unknown)}; known: {names}")
    compiler = compile_options(given.pop("target", "cpu"), **{"cache": True, **given})
    if device is None and compiler.targets[0].device == "cpu":
        device = _MODES[mode or "default"]
    return Settings(replace(compiler, weights="bound"), fallback, device)

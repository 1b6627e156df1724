"""Compiles PyTorch programs into portable executables for CPU, CUDA and Vulkan.

    import pipeline
    exe = pipeline.compile(model, args=(x,), target="cpu")
    y = exe(x)
    exe.save("m.vmfb"); exe = pipeline.load("m.vmfb")

Names load when first used: a machine that only runs artifacts has neither torch nor the compilers.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline import ops
    from pipeline.api import compile, explain
    from pipeline.errors import InputError, InternalError, PipelineError, UnsupportedError
    from pipeline.just_in_time.counts import counters
    from pipeline.operators import CustomOp, Launch, Refused, ceildiv, op
    from pipeline.runtime import (
        ArgumentError,
        ArtifactError,
        Executable,
        IncompatibleDeviceError,
        TrainingStep,
        load,
    )
    from pipeline.training.compiling import compile_training

_HOMES = {
    "compile": "pipeline.api",
    "compile_training": "pipeline.training.compiling",
    "counters": "pipeline.just_in_time.counts",
    "explain": "pipeline.api",
    "load": "pipeline.runtime",
    "op": "pipeline.operators",
    "CustomOp": "pipeline.operators",
    "Launch": "pipeline.operators",
    "Refused": "pipeline.operators",
    "ceildiv": "pipeline.operators",
    "Executable": "pipeline.runtime",
    "TrainingStep": "pipeline.runtime",
    "PipelineError": "pipeline.errors",
    "InputError": "pipeline.errors",
    "UnsupportedError": "pipeline.errors",
    "InternalError": "pipeline.errors",
    "ArgumentError": "pipeline.runtime",
    "ArtifactError": "pipeline.runtime",
    "IncompatibleDeviceError": "pipeline.runtime",
}

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "CustomOp",
    "Executable",
    "IncompatibleDeviceError",
    "InputError",
    "InternalError",
    "Launch",
    "PipelineError",
    "Refused",
    "TrainingStep",
    "UnsupportedError",
    "ceildiv",
    "compile",
    "compile_training",
    "counters",
    "explain",
    "load",
    "op",
    "ops",
]


def __getattr__(name: str) -> Any:
    if name == "ops":
        return importlib.import_module("pipeline.ops")
    if name not in _HOMES:
        raise AttributeError(f"module 'pipeline' has no attribute '{name}'")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "torch_mlir", "iree.compiler"):
            raise ImportError(
                f"pipeline.{name} needs {error.name}, and only the runtime is installed here; "
                "install the whole of pipeline to compile"
            ) from error
        raise

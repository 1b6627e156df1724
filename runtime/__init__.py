"""Loads and runs artifacts: devices, tensors, executables and their state, weights.

Imports nothing of the compiler. A machine that only runs artifacts needs iree-base-runtime, NumPy,
ml_dtypes and, if its callers use torch tensors, torch.
"""

from .artifact import Artifact, open_artifact, read_manifest
from .errors import ArgumentError, ArtifactError, ExecutionError, IncompatibleDeviceError, RuntimeRoomError
from .executable import Executable
from .loading import load
from .training import TrainingStep

__all__ = [
    "ArgumentError",
    "Artifact",
    "ArtifactError",
    "Executable",
    "ExecutionError",
    "IncompatibleDeviceError",
    "RuntimeRoomError",
    "TrainingStep",
    "load",
    "open_artifact",
    "read_manifest",
]

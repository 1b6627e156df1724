"""`load`: from an artifact's file to what can be called."""

from __future__ import annotations

import os

from .artifact import open_artifact
from .executable import Executable
from .training import TrainingStep


def load(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> Executable:
    """Loads an artifact onto a device; a `TrainingStep` where it holds one.

    device: "cpu", "vulkan", "cuda" or an IREE device URI; by default the artifact's first target.
    weights: another `.irpa` than the one beside the artifact, with tensors of the same names and types.
    Raises ArtifactError and IncompatibleDeviceError with what to do.
    """
    artifact = open_artifact(path, weights=weights)
    kind = TrainingStep if artifact.manifest.training is not None else Executable
    return kind(artifact, device=device)

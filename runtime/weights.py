"""Weights files: IREE's parameter archive (`.irpa`), each tensor under its name in the model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import iree.runtime as iree
import numpy as np

from . import dtypes
from .errors import ArtifactError
from .manifest import WEIGHTS_SCOPE, TensorSpec, spec_nbytes
from .tensors import to_numpy


def write(path: Path, tensors: Mapping[str, Any]) -> None:
    """Writes torch tensors or NumPy arrays as an `.irpa`, straight from their memory.

    Each entry's metadata is its type (``768x768xf32``), which `check` compares at load.
    """
    _index(tensors).create_archive_file(str(path))


def _index(tensors: Mapping[str, Any]) -> iree.ParameterIndex:
    """The tensors' own memory by name; NumPy arrays of it keep it alive."""
    index = iree.ParameterIndex()
    for name, tensor in tensors.items():
        array = to_numpy(tensor)
        flat = array.reshape(-1).view(np.uint8)
        index.add_buffer(name, flat if array.size else np.zeros(1, np.uint8), metadata=_type_text(array))
    return index


def _type_text(array: np.ndarray[Any, Any]) -> str:
    dtype = dtypes.from_numpy(array.dtype)
    assert dtype is not None, array.dtype
    return str(TensorSpec(dtype.name, tuple(array.shape)))


def read_index(path: Path) -> iree.ParameterIndex:
    """The archive at `path`, its data mapped into memory. Raises ArtifactError when it is not one."""
    index = iree.ParameterIndex()
    try:
        index.load(os.fspath(path), format="irpa")
    except Exception as error:
        raise ArtifactError(f"{path}: not a readable .irpa weights file, or truncated") from error
    return index


def check(path: Path, table: Mapping[str, TensorSpec]) -> None:
    """Raises ArtifactError unless the archive holds every tensor of `table` with its type and size."""
    found = {key: entry for key, entry in read_index(path).items()}
    missing = [name for name in table if name not in found]
    if missing:
        raise ArtifactError(f"{path}: these weights are for another model: it lacks {_listing(missing)}")
    for name, spec in table.items():
        entry = found[name]
        stated = bytes(entry.metadata).decode(errors="replace")
        if stated and stated != str(spec):
            raise ArtifactError(
                f"{path}: these weights are for another model: '{name}' is {stated}, expected {spec}"
            )
        if entry.length != max(spec_nbytes(spec), 1):
            raise ArtifactError(
                f"{path}: '{name}' has {entry.length} bytes, expected {spec_nbytes(spec)} ({spec})"
            )


def read(path: Path, table: Mapping[str, TensorSpec]) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of `table`, mapped from the archive. Raises ArtifactError for a file that is not one."""
    found = dict(read_index(path).items())
    return {name: _array(found.get(name), spec) for name, spec in table.items()}


def _array(entry: Any, spec: TensorSpec) -> np.ndarray[Any, Any]:
    """A tensor without elements has no entry."""
    shape, dtype = [int(dim) for dim in spec.shape], dtypes.BY_NAME[spec.dtype].numpy
    if entry is None or 0 in shape:
        return np.zeros(shape, dtype)
    return np.frombuffer(entry.file_view, dtype).reshape(shape)


def provider_module(source: Path | Mapping[str, Any], instance: Any) -> Any:
    """The VM module through which an executable reads its weights: those of a file, or tensors by name."""
    index = read_index(source) if isinstance(source, Path) else _index(source)
    return iree.create_io_parameters_module(instance, index.create_provider(scope=WEIGHTS_SCOPE))


def _listing(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"

"""Batches of a training step from an ``.npz``: the arrays of its arguments, by name or in order."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from .runtime.errors import ArgumentError
from .runtime.manifest import EntryPoint, ValueSpec

Array = np.ndarray[Any, Any]


class Batches:
    """The batches of a run; number `i` is always the same, so that a resumed run goes on where it was.

    Arrays hold samples, one after the other (``60000x28x28`` for an argument ``64x28x28``), of which those that fill
    no batch at the end are left out, or whole batches (``900x64x28x28``). With `shuffle_seed` each pass over the data
    has another order, of the samples if all arrays hold samples and else of the batches.
    """

    def __init__(self, entry: EntryPoint, path: Path, *, shuffle_seed: int | None = None) -> None:
        self._specs = {spec.name: spec for spec in entry.inputs}
        self._arrays = _named(entry, _load(path), path)
        counts = {name: _count(spec, self._arrays[name], path) for name, spec in self._specs.items()}
        self._count = min(counts.values())
        _check_counts(counts, "batches", path)
        samples = {
            name: len(self._arrays[name])
            for name, spec in self._specs.items()
            if not _holds_batches(spec, self._arrays[name])
        }
        _check_counts(samples, "samples", path)
        # What is shuffled: samples, but where some arrays hold whole batches.
        self._by_batch = len(samples) < len(counts)
        self._shuffled_count = self._count if self._by_batch else min(samples.values())
        self._seed = shuffle_seed
        self._order: tuple[int, Array] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> dict[str, Array]:
        """Batch `number`, which may be any: the data repeats."""
        epoch, place = divmod(number, self._count)
        return {name: self._part(name, epoch, place) for name in self._specs}

    def _part(self, name: str, epoch: int, place: int) -> Array:
        array, spec = self._arrays[name], self._specs[name]
        order = self._shuffled(epoch)
        if order is not None and self._by_batch:
            place = int(order[place])
        if _holds_batches(spec, array):
            return array[place]
        size = _shape(spec)[0]
        chosen = slice(place * size, (place + 1) * size)
        return array[chosen if order is None or self._by_batch else order[chosen]]

    def _shuffled(self, epoch: int) -> Array | None:
        """The order of an epoch, None where nothing is shuffled."""
        if self._seed is None:
            return None
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self._seed, epoch]).permutation(self._shuffled_count)
        return self._order[1]


def _load(path: Path) -> dict[str, Array]:
    try:
        archive = np.load(path)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ArgumentError(f"{path} holds one array; write those of a step with numpy.savez(path, x, y)")
        with archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, BadZipFile, zlib.error) as error:
        raise ArgumentError(f"{path}: not a readable .npz: {error}") from error


def _check_counts(counts: Mapping[str, int], what: str, path: Path) -> None:
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise ArgumentError(f"{path}: the arrays hold different numbers of {what} ({listing})")


def _named(entry: EntryPoint, arrays: Mapping[str, Array], path: Path) -> dict[str, Array]:
    """By argument; ``numpy.savez(path, x, y)`` names its arrays arr_0, arr_1."""
    names = [spec.name for spec in entry.inputs]
    unnamed = [f"arr_{i}" for i in range(len(names))]
    if list(arrays) == unnamed:
        return dict(zip(names, arrays.values(), strict=True))
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ArgumentError(
            f"{path} lacks {', '.join(missing)}; it holds {', '.join(arrays) or 'nothing'}, and a step takes "
            + ", ".join(f"{spec.name}: {spec}" for spec in entry.inputs)
        )
    return {name: arrays[name] for name in names}


def _shape(spec: ValueSpec) -> tuple[int, ...]:
    assert spec.tensor is not None
    sizes = spec.tensor.shape
    if not all(isinstance(size, int) for size in sizes):
        raise ArgumentError(
            f"'{spec.name}' takes several sizes ({spec}), and an .npz does not say how large a batch is; call it "
            "from Python, or compile it without dynamic_shapes"
        )
    return tuple(map(int, sizes))


def _holds_batches(spec: ValueSpec, array: Array) -> bool:
    return array.ndim == len(_shape(spec)) + 1


def _count(spec: ValueSpec, array: Array, path: Path) -> int:
    shape = _shape(spec)
    if _holds_batches(spec, array) and array.shape[1:] == shape:
        count = len(array)
    elif shape and array.ndim == len(shape) and array.shape[1:] == shape[1:]:
        count = len(array) // shape[0]
    else:
        samples, sizes = (
            ", ".join(["samples", *map(str, shape[1:])]),
            ", ".join(map(str, ["batches", *shape])),
        )
        raise ArgumentError(
            f"{path}: '{spec.name}' has the shape {list(array.shape)}; a step takes {spec}, so it must be "
            f"[{samples}] or [{sizes}]"
        )
    if not count:
        raise ArgumentError(f"{path}: '{spec.name}' holds {len(array)} samples, too few for a batch ({spec})")
    return count

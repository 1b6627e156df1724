"""Example inputs inside an artifact, for ``pipeline run``: small ones whole, large float ones as a recipe."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

from . import dtypes
from .manifest import EntryPoint, TensorSpec

WHOLE_BYTES = 1 << 20
"""Float inputs above this many bytes become a recipe; integer inputs never do, their values are indices."""


def encode(value: Any, number: int) -> dict[str, Any]:
    """One flat example input (a NumPy array or an int) as JSON.

    {"int": 3} | {"shape": [...], "zlib": "..."} | {"shape": [...], "normal": SEED}
    """
    if isinstance(value, int):
        return {"int": value}
    shape = list(value.shape)
    is_float = dtypes.from_numpy(value.dtype).name.startswith(("float", "bfloat", "complex"))  # type: ignore[union-attr]
    if is_float and value.nbytes > WHOLE_BYTES:
        return {"shape": shape, "normal": number}
    return {"shape": shape, "zlib": base64.b64encode(zlib.compress(value.tobytes(), 9)).decode()}


def decode(entry: EntryPoint) -> list[Any]:
    """The flat example inputs of an entry point: NumPy arrays and ints; empty when it carries none."""
    encoded = entry.example.get("inputs", [])
    return [_decode(item, spec.tensor) for item, spec in zip(encoded, entry.inputs, strict=False)]


def is_recipe(entry: EntryPoint) -> bool:
    """Whether some example input is made up by a seeded generator and not the one given at compile time."""
    return any("normal" in item for item in entry.example.get("inputs", []))


def _decode(item: dict[str, Any], spec: TensorSpec | None) -> Any:
    if spec is None:
        return item["int"]
    dtype = dtypes.BY_NAME[spec.dtype].numpy
    shape = item["shape"]
    if "normal" in item:
        return random_normal(shape, dtype, item["normal"])
    data = zlib.decompress(base64.b64decode(item["zlib"]))
    return np.frombuffer(bytearray(data), dtype).reshape(shape)


def random_normal(shape: list[int], dtype: np.dtype[Any], seed: int) -> np.ndarray[Any, Any]:
    """Standard normal values (both parts, for complex types) from NumPy's PCG64 with `seed`."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(shape, np.float32)
    if dtype.kind == "c":
        values = values + 1j * generator.standard_normal(shape, np.float32)
    return values.astype(dtype)

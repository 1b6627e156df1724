"""``pipeline run``: needs only the runtime."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import runtime
from .runtime import dtypes, examples, structure
from .runtime.dtypes import Dtype
from .runtime.errors import ArgumentError
from .runtime.manifest import EntryPoint
from .runtime.tensors import to_numpy

_INPUT = re.compile(r"(?P<type>[\dx]*(?:%s))=(?P<value>.+)" % "|".join(dtypes.BY_SHORT), re.DOTALL)  # noqa: UP031


def run(
    artifact: Path,
    entry: str | None,
    inputs: tuple[str, ...],
    outputs: tuple[Path, ...],
    device: str | None,
    weights: Path | None,
) -> None:
    """Runs one entry point once and prints (and with `outputs` saves) its results."""
    executable = runtime.load(artifact, device=device, weights=weights)
    point = _entry_point(executable, entry)
    flat = _given(point, inputs) if inputs else examples.decode(point)
    if len(flat) != len(point.inputs):
        raise ArgumentError(
            f"{point.name} takes {len(point.inputs)} inputs ({_listing(point)}), "
            + (
                f"got {len(flat)}"
                if inputs
                else "and the artifact carries no examples; give each with --input"
            )
        )
    if not inputs and examples.is_recipe(point):
        print("inputs: seeded random values, the example was too large to travel with the artifact")
    args, kwargs = _nest(point, flat)
    start = time.perf_counter()
    result = executable.entry_point(point.name)(*args, **kwargs)
    print(f"{point.name} on {executable.device.uri}: {1000 * (time.perf_counter() - start):.2f} ms")
    _show(point, result, outputs)


def _entry_point(executable: runtime.Executable, name: str | None) -> EntryPoint:
    executable.entry_point(name)  # says which names there are
    entries = executable.manifest.entry_points
    return entries[name] if name else entries.get("main", next(iter(entries.values())))


def _given(point: EntryPoint, inputs: tuple[str, ...]) -> list[Any]:
    """The values of ``--input``; a symbolic int is written like a scalar (``i64=3``)."""
    arrays = [_parse(text) for text in inputs]
    specs = [*point.inputs, *([None] * len(arrays))]
    return [
        array.item() if spec is not None and spec.tensor is None and array.ndim == 0 else array
        for spec, array in zip(specs, arrays, strict=False)
    ]


def _parse(text: str) -> np.ndarray[Any, Any]:
    """The array that one ``--input`` describes. Raises ArgumentError saying how to write it."""
    match = _INPUT.fullmatch(text)
    if match is None:
        raise ArgumentError(f"--input {text}: write it as 1x3x224x224xf32=@x.npy, 2x3xi64=0 or 4xf32=1,2,3,4")
    *sizes, short = match["type"].split("x")
    dtype, shape = dtypes.BY_SHORT[short], [int(size) for size in sizes]
    if match["value"].startswith("@"):
        array = _load(text, match["value"][1:], dtype)
    else:
        array = _numbers(text, match["value"], dtype, shape)
    if list(array.shape) != shape:
        raise ArgumentError(f"--input {text}: the data has shape {list(array.shape)}")
    return array


def _load(text: str, path: str, dtype: Dtype) -> np.ndarray[Any, Any]:
    try:
        array = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise ArgumentError(f"--input {text}: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"--input {text}: {path} holds several arrays; save one with numpy.save")
    if array.dtype.newbyteorder("=") == dtype.numpy:
        return array
    # .npy files know no bf16: it is saved as its 16 bits.
    if dtype.name == "bfloat16" and array.dtype.itemsize == dtype.itemsize and array.dtype.kind in "Vui":
        return array.view(dtype.numpy)
    raise ArgumentError(f"--input {text}: the data is {array.dtype}")


def _numbers(text: str, value: str, dtype: Dtype, shape: list[int]) -> np.ndarray[Any, Any]:
    # Integers never pass through a float, which would round the large ones.
    read: type = {"i": int, "u": int, "b": int, "c": complex}.get(dtype.numpy.kind, float)
    try:
        numbers = [read(item) for item in value.split(",")]
        array = np.array(numbers, np.int64 if dtype.name == "bool" else None).astype(dtype.numpy)
        if read is int and [int(item) for item in array] != numbers:
            raise OverflowError(f"not all values fit {dtype.name}")
    except (ValueError, OverflowError) as error:
        raise ArgumentError(f"--input {text}: {error}") from error
    if array.size == 1:
        return np.full(shape, array[0], dtype.numpy)
    if array.size != math.prod(shape):
        raise ArgumentError(f"--input {text}: {array.size} numbers for the shape {shape}")
    return array.reshape(shape)


def _listing(point: EntryPoint) -> str:
    return ", ".join(f"{spec.name}: {spec}" for spec in point.inputs)


def _nest(point: EntryPoint, flat: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The Python arguments whose leaves are `flat`."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in point.parameters:
        value = structure.unflatten(parameter.structure, flat)
        if parameter.positional:
            args.append(value)
        else:
            kwargs[parameter.name] = value
    return args, kwargs


def _show(point: EntryPoint, result: Any, outputs: tuple[Path, ...]) -> None:
    flat = structure.flatten(point.result, result, "result")
    if outputs and len(outputs) != len(flat):
        raise ArgumentError(f"{point.name} has {len(flat)} outputs, got {len(outputs)} --output")
    for i, (spec, value) in enumerate(zip(point.outputs, flat, strict=True)):
        array = to_numpy(value)
        with np.printoptions(precision=4, threshold=8, edgeitems=3):
            print(
                f"{spec.name}: {'x'.join([*map(str, array.shape), spec.tensor.dtype if spec.tensor else 'int'])}"
            )
            print(array)
        if outputs:
            _save(outputs[i], array)


def _save(path: Path, array: np.ndarray[Any, Any]) -> None:
    try:
        np.save(path, array)
    except OSError as error:
        raise ArgumentError(f"--output {path}: {error.strerror}") from error

"""``pipeline run``: needs only the runtime."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import runtime
from .runtime import dtypes, examples, structure
from .runtime.errors import ArgumentError
from .runtime.manifest import EntryPoint

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
    flat = [_parse(text) for text in inputs] if inputs else examples.decode(point)
    if len(flat) != len(point.inputs):
        raise ArgumentError(
            f"{point.name} takes {len(point.inputs)} inputs, got {len(flat)}: {_listing(point)}"
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


def _parse(text: str) -> Any:
    match = _INPUT.fullmatch(text)
    if match is None:
        raise ArgumentError(f"--input {text}: write it as 1x3x224x224xf32=@x.npy, 2x3xi64=0 or 4xf32=1,2,3,4")
    *sizes, short = match["type"].split("x")
    dtype, shape = dtypes.BY_SHORT[short], [int(size) for size in sizes]
    array = (
        _load(match["value"][1:]) if match["value"].startswith("@") else _numbers(text, match["value"], shape)
    )
    if list(array.shape) != shape:
        raise ArgumentError(f"--input {text}: the data has shape {list(array.shape)}")
    if match["value"].startswith("@") and array.dtype != dtype.numpy:
        # .npy files know no bf16: it is saved as its 16 bits.
        if array.dtype.itemsize != dtype.itemsize or dtype.name != "bfloat16":
            raise ArgumentError(f"--input {text}: the data is {array.dtype}")
        return array.view(dtype.numpy)
    return array.astype(dtype.numpy)


def _load(path: str) -> np.ndarray[Any, Any]:
    try:
        return np.load(path)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--input @{path}: {error}") from error


def _numbers(text: str, value: str, shape: list[int]) -> np.ndarray[Any, Any]:
    try:
        numbers = np.array([complex(item) if "j" in item else float(item) for item in value.split(",")])
    except ValueError as error:
        raise ArgumentError(f"--input {text}: {error}") from error
    if numbers.size == 1:
        return np.broadcast_to(numbers, shape)
    if numbers.size != np.prod(shape):
        raise ArgumentError(f"--input {text}: {numbers.size} numbers for the shape {shape}")
    return numbers.reshape(shape)


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
        array = np.asarray(value)
        with np.printoptions(precision=4, threshold=8, edgeitems=3):
            print(
                f"{spec.name}: {'x'.join([*map(str, array.shape), spec.tensor.dtype if spec.tensor else 'int'])}"
            )
            print(array)
        if outputs:
            np.save(outputs[i], array)

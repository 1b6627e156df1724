"""Calls under IREE's own profiler: `iree-benchmark-module` makes them, `iree-profile` reads what it noted."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import iree._runtime_libs
import numpy as np

from pipeline.errors import InputError, InternalError
from pipeline.runtime import Artifact, draws, dtypes, examples
from pipeline.runtime.device import WORKER_STACK_BYTES
from pipeline.runtime.dtypes import Dtype
from pipeline.runtime.manifest import WEIGHTS_SCOPE, EntryPoint
from pipeline.runtime.tensors import stored_as, to_numpy

_TIMEOUT = 1800.0


@dataclass(frozen=True)
class Event:
    """One dispatch. function: its name. start: nanoseconds after the call's first. duration: nanoseconds until all of
    its threads are done. busy: of all threads together."""

    function: str
    start: int
    duration: int
    busy: int


def profiled_calls(
    artifact: Artifact, entry: EntryPoint, state: Mapping[str, Any], *, calls: int, threads: int
) -> list[list[Event]]:
    """The dispatches of each of `calls` calls of `entry` on the CPU, in the order in which they ran.

    Arguments are the artifact's examples. state: the state's values by name, to begin with. Raises InputError where
    the artifact has no examples, InternalError where IREE's tools fail.
    """
    with tempfile.TemporaryDirectory(prefix="pipeline-") as name:
        folder = Path(name)
        bundle = folder / "calls.ireeprof"
        command = [_tool("iree-benchmark-module"), f"--module={artifact.vmfb}", f"--function={entry.name}"]
        command += _device(threads)
        if artifact.weights is not None:
            command.append(f"--parameters={WEIGHTS_SCOPE}={artifact.weights}")
        command += [f"--input={text}" for text in _inputs(entry, state, folder)]
        # One more: in the first nothing is in the caches.
        command += [f"--benchmark_min_time={calls + 1}x", "--device_profiling_mode=host-execution"]
        _run([*command, f"--device_profiling_output={bundle}"])
        rows = _run([_tool("iree-profile"), "dispatch", "--format=jsonl", "--dispatch_events", str(bundle)])
    return _by_call([json.loads(line) for line in rows.splitlines()], calls + 1)[1:]


def _device(threads: int) -> list[str]:
    if threads == 1:
        return ["--device=local-sync"]
    stack = f"--task_worker_stack_size={WORKER_STACK_BYTES}"
    return ["--device=local-task", f"--task_topology_group_count={threads}", stack]


def _inputs(entry: EntryPoint, state: Mapping[str, Any], folder: Path) -> list[str]:
    """What the function takes, as the tool spells it, with the values in files."""
    values = examples.decode(entry)
    if len(values) != len(entry.inputs):
        raise InputError("the artifact holds no example inputs to call it with")
    specs = [spec.tensor for spec in entry.inputs]
    values += draws.make(entry.draws, _sizes(entry, values))
    specs += [draw.tensor for draw in entry.draws]
    texts = []
    for number, (value, spec) in enumerate(zip(values, specs, strict=True)):
        dtype = dtypes.BY_NAME[spec.dtype] if spec else None
        texts.append(_input(value, dtype, folder / f"{number}.bin"))
    for name in entry.state_inputs:
        value = state[name]
        dtype = dtypes.from_torch(value.dtype)
        texts.append(_input(value, dtype, folder / f"{len(texts)}.bin"))
    return texts


def _sizes(entry: EntryPoint, values: Sequence[Any]) -> dict[str, int]:
    """Dynamic dimensions in the example inputs."""
    return {
        dim: size
        for spec, value in zip(entry.inputs, values, strict=True)
        if spec.tensor
        for dim, size in zip(spec.tensor.shape, value.shape, strict=True)
        if isinstance(dim, str) and dim.isidentifier()
    }


def _input(value: Any, dtype: Dtype | None, file: Path) -> str:
    """``2x3xf32=@0.bin``; a number as it is."""
    if dtype is None:
        return str(value)
    array = to_numpy(value)
    shape, stored = stored_as(list(array.shape), dtype)
    np.ascontiguousarray(array).tofile(file)
    # IREE's integers have no sign, and its bools are bytes.
    element = {"bool": "i8"}.get(stored.short, stored.short.replace("u", "i"))
    return "x".join([*map(str, shape), element]) + f"=@{file}"


def _by_call(rows: list[dict[str, Any]], calls: int) -> list[list[Event]]:
    found = [row for row in rows if row["type"] == "host_dispatch_event"]
    each, rest = divmod(len(found), calls)
    if rest:
        raise InternalError(f"{calls} calls of the same arguments made {len(found)} dispatches")
    return [_call(found[i * each : (i + 1) * each]) for i in range(calls)]


def _call(rows: list[dict[str, Any]]) -> list[Event]:
    first = min((row["start_host_time_ns"] for row in rows), default=0)
    return [
        Event(row["key"], row["start_host_time_ns"] - first, row["duration_ns"], row["tile_duration_sum_ns"])
        for row in rows
    ]


def _tool(name: str) -> str:
    return str(Path(iree._runtime_libs.__file__).parent / name)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        raise InternalError(f"{Path(command[0]).name} did not end after {_TIMEOUT:.0f} s") from error
    if done.returncode:
        raise InternalError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-400:]}")
    return done.stdout

"""A loaded artifact: call it with tensors, read and set its state, save it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import iree.runtime as iree

from . import draws, dtypes, structure, tensors, weights
from .arguments import bind
from .artifact import Artifact, open_artifact
from .device import Device, open_for
from .dims import evaluate
from .errors import ArgumentError, ArtifactError, ExecutionError
from .manifest import EntryPoint, Manifest, ValueSpec
from .state import State


def load(
    path: str | os.PathLike[str],
    *,
    device: str | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> Executable:
    """Loads an artifact onto a device.

    device: "cpu", "vulkan", "cuda" or an IREE device URI; by default the artifact's first target.
    weights: another `.irpa` than the one beside the artifact, with tensors of the same names and types.
    Raises ArtifactError and IncompatibleDeviceError with what to do.
    """
    return Executable(open_artifact(path, weights=weights), device=device)


class Executable:
    """An artifact on a device.

    ``exe(...)`` calls its only entry point (or the one named ``main``); ``exe.NAME(...)`` and
    ``exe.entry_point(NAME)(...)`` call the others. Results nest like the model's; they are torch
    tensors, or NumPy arrays when only NumPy arrays were passed. Calls on one state are serialised;
    `new_state` gives an independent one over the same weights.
    """

    def __init__(self, artifact: Artifact, *, device: str | None = None) -> None:
        self._artifact = artifact
        self._device = open_for(artifact.manifest, device, artifact.vmfb.name)
        self._program = _Program(artifact, self._device)
        self._state = State(self._program.initial_state, artifact.manifest.state, self._device)

    @property
    def manifest(self) -> Manifest:
        """What the artifact says about itself."""
        return self._artifact.manifest

    @property
    def device(self) -> Device:
        """The device it was loaded onto."""
        return self._device

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the only entry point, or the one named ``main``."""
        return self.entry_point()(*args, **kwargs)

    def entry_point(self, name: str | None = None) -> Callable[..., Any]:
        """The callable of an entry point. Raises ArgumentError listing the names when it is not there."""
        entries = self.manifest.entry_points
        chosen = name or (next(iter(entries)) if len(entries) == 1 else "main")
        if chosen not in entries:
            raise ArgumentError(
                f"no entry point '{chosen}'; this artifact has: {', '.join(entries)}"
                if name
                else f"this artifact has several entry points, call one by name: {', '.join(entries)}"
            )
        entry = entries[chosen]
        return lambda *args, **kwargs: self._invoke(entry, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.manifest.entry_points:
            raise AttributeError(f"{type(self).__name__} has no attribute or entry point '{name}'")
        return self.entry_point(name)

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of the state by buffer name (torch tensors where torch is imported)."""
        return self._state.snapshot()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets the state. Raises ArgumentError for missing or unknown names, dtypes and shapes."""
        self._state.set(state)

    def reset(self) -> None:
        """Puts the state back to its value at compile time."""
        self._state.reset()

    def new_state(self) -> Executable:
        """An executable with a state of its own, at the initial value, that shares program and weights."""
        fork = object.__new__(Executable)
        fork._artifact, fork._device, fork._program = self._artifact, self._device, self._program
        fork._state = State(self._program.initial_state, self.manifest.state, self._device)
        return fork

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Writes the `.vmfb` (and its `.irpa`); returns the files. The current state is not part of it."""
        return self._artifact.save(path)

    def __repr__(self) -> str:
        names = ", ".join(self.manifest.entry_points)
        return f"<Executable {names} on {self._device.uri}>"

    def _invoke(self, entry: EntryPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values, sizes = bind(entry, self.manifest.dimensions, args, kwargs)
        want_torch = _wants_torch(values)
        with self._state.lock:
            flat = self._program.call(entry, values, draws.make(entry.draws, sizes), self._state)
        outputs = flat[: len(entry.outputs)]
        updates = flat[len(entry.outputs) : len(entry.outputs) + len(entry.mutated_inputs)]
        results = [
            self._result(spec, view, sizes, want_torch)
            for spec, view in zip(entry.outputs, outputs, strict=True)
        ]
        for number, view in zip(entry.mutated_inputs, updates, strict=True):
            _write_back(values[number], self._result(entry.inputs[number], view, sizes, want_torch))
        return structure.unflatten(entry.result, results)

    def _result(self, spec: ValueSpec, value: Any, sizes: dict[str, int], want_torch: bool) -> Any:
        if spec.tensor is None:
            return value
        expected = [evaluate(dim, sizes) for dim in spec.tensor.shape if _known(dim, sizes)]
        if len(expected) == len(value.shape) and list(value.shape) != expected:
            raise ExecutionError(f"result '{spec.name}' has shape {list(value.shape)}, expected {expected}")
        return tensors.from_device(value, dtypes.BY_NAME[spec.tensor.dtype], self._device, want_torch)


class _Program:
    """The loaded module: shared by every state that `Executable.new_state` makes."""

    def __init__(self, artifact: Artifact, device: Device) -> None:
        self._device = device
        module = iree.VmModule.mmap(device.instance, str(artifact.vmfb))
        modules = [iree.create_hal_module(device.instance, device.hal)]
        if artifact.weights is not None:
            modules.append(weights.provider_module(artifact.weights, device.instance))
        try:
            self._context = iree.VmContext(device.instance, [*modules, module])
        except Exception as error:
            raise ArtifactError(f"{artifact.vmfb}: cannot be loaded on {device.uri}: {error}") from error
        names = [*artifact.manifest.entry_points, *(["initial_state"] if artifact.manifest.state else [])]
        self._functions = {name: module.lookup_function(name) for name in names}
        self._state_count = len(artifact.manifest.state)

    def initial_state(self) -> list[Any]:
        """Fresh buffers with the state's initial values, in the manifest's order."""
        views = self._run("initial_state", [], self._state_count)
        return [tensors.clone_on_device(view, self._device) for view in views]

    def call(self, entry: EntryPoint, values: list[Any], drawn: list[Any], state: State) -> list[Any]:
        """Runs an entry point and stores the state it returns; gives outputs and updated inputs."""
        arguments = [
            tensors.to_device(value, dtypes.BY_NAME[spec.tensor.dtype], self._device)
            if spec.tensor
            else int(value)
            for spec, value in zip(entry.inputs, values, strict=True)
        ]
        arguments += [
            tensors.to_device(value, dtypes.BY_NAME[draw.tensor.dtype], self._device)
            for draw, value in zip(entry.draws, drawn, strict=True)
        ]
        arguments += [state.buffers[name] for name in entry.state_inputs]
        returned = len(entry.outputs) + len(entry.mutated_inputs)
        results = self._run(entry.name, arguments, returned + len(entry.state_outputs))
        state.buffers.update(zip(entry.state_outputs, results[returned:], strict=True))
        return results[:returned]

    def _run(self, name: str, arguments: list[Any], result_count: int) -> list[Any]:
        inputs = iree.VmVariantList(len(arguments))
        for argument in arguments:
            if isinstance(argument, int):
                inputs.push_int(argument)
            else:
                inputs.push_ref(argument)
        outputs = iree.VmVariantList(result_count)
        try:
            self._context.invoke(self._functions[name], inputs, outputs)
        except Exception as error:
            raise ExecutionError(f"the call of '{name}' failed on {self._device.uri}: {error}") from error
        return [_take(outputs, i) for i in range(len(outputs))]


def _take(outputs: Any, index: int) -> Any:
    value = outputs.get_variant(index)
    return value.deref(iree.HalBufferView) if isinstance(value, iree.VmRef) else value


def _wants_torch(values: list[Any]) -> bool:
    arrays = [value for value in values if tensors.is_array(value)]
    if arrays:
        return any(tensors.is_torch(value) for value in arrays)
    return tensors.torch_is_loaded()


def _known(dim: int | str, sizes: dict[str, int]) -> bool:
    try:
        evaluate(dim, sizes)
    except KeyError:
        return False
    return True


def _write_back(target: Any, value: Any) -> None:
    """Gives the caller's own tensor the contents that the model left in it."""
    if tensors.is_torch(target):
        import torch

        with torch.no_grad():
            target.copy_(value)
    else:
        target[...] = value

"""Calls of an entry point: arguments in, results out, state kept."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import iree.runtime as iree
import numpy as np

from . import draws, dtypes, structure, tensors, weights
from .arguments import Signature
from .artifact import Artifact
from .device import Device
from .dims import Bounds, evaluate, symbols
from .direct_calls import DirectCall, is_direct
from .errors import ArtifactError, ExecutionError
from .interrupts import interrupts_wait
from .manifest import INITIAL_STATE, EntryPoint, ValueSpec
from .sharing import NOWHERE, Span, sharers
from .state import State, StateTensor


class Program:
    """The loaded module and its entry points: shared by every state that `Executable.new_state` makes."""

    def __init__(self, artifact: Artifact, device: Device, bound: Mapping[str, Any] | None = None) -> None:
        self._device = device
        self._context, module = _load(artifact, device, bound)
        manifest = artifact.manifest
        names = [*manifest.entry_points, *([INITIAL_STATE] if manifest.state else [])]
        self._functions = {name: module.lookup_function(name) for name in names}
        self._state_count = len(manifest.state)
        self.calls = {
            name: EntryCall(entry, manifest.dimensions, self, device)
            for name, entry in manifest.entry_points.items()
        }

    def initial_state(self) -> list[Any]:
        """Fresh buffers with the state's initial values, in the manifest's order."""
        views = self.run(INITIAL_STATE, [], self._state_count)
        return [tensors.clone_on_device(view, self._device) for view in views]

    def run(self, name: str, arguments: list[Any], result_count: int) -> list[Any]:
        """Calls a function of the module with buffer views and ints. Raises ExecutionError when it fails."""
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
            raise self.failed(name, error) from error
        return [_take(outputs, i) for i in range(result_count)]

    def failed(self, name: str, error: Exception) -> ExecutionError:
        """What to raise where IREE raised `error` in a call of the function `name`."""
        return ExecutionError(f"the call of '{name}' failed on {self._device.uri}: {error}")

    def direct_call(self, entry: EntryPoint) -> DirectCall | None:
        """The short way to call `entry`, if it has one."""
        if not is_direct(entry, self._device):
            return None
        return DirectCall(entry, self._device, self._context, self._functions[entry.name])


def _load(artifact: Artifact, device: Device, bound: Mapping[str, Any] | None) -> tuple[Any, Any]:
    module = iree.VmModule.mmap(device.instance, str(artifact.vmfb))
    modules = [iree.create_hal_module(device.instance, device.hal)]
    source = bound or artifact.weights
    if source is not None:
        modules.append(weights.provider_module(source, device.instance))
    try:
        return iree.VmContext(device.instance, [*modules, module]), module
    except Exception as error:
        raise ArtifactError(f"{artifact.vmfb}: cannot be loaded on {device.uri}: {error}") from error


def _take(outputs: Any, index: int) -> Any:
    value = outputs.get_variant(index)
    return value.deref(iree.HalBufferView) if isinstance(value, iree.VmRef) else value


class EntryCall:
    """One entry point, ready to call: all that does not depend on the arguments is worked out once."""

    def __init__(
        self, entry: EntryPoint, dimensions: dict[str, Bounds], program: Program, device: Device
    ) -> None:
        self._entry = entry
        self._program = program
        self._device = device
        self._signature = Signature(entry, dimensions)
        self._input_types = [
            dtypes.BY_NAME[spec.tensor.dtype] if spec.tensor else None for spec in entry.inputs
        ]
        self._draw_types = [dtypes.BY_NAME[draw.tensor.dtype] for draw in entry.draws]
        updated = [entry.inputs[number] for number in entry.mutated_inputs]
        self._results = [_Result(spec, device) for spec in [*entry.outputs, *updated]]
        self._result_count = len(self._results) + len(entry.state_outputs)
        self._has_state = bool(entry.state_inputs or entry.state_outputs)
        self._direct = program.direct_call(entry)

    @property
    def draws(self) -> bool:
        """Whether each call takes random numbers."""
        return bool(self._entry.draws)

    def __call__(
        self,
        state: State,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        source: draws.NumpySource | None = None,
    ) -> Any:
        """The results for these arguments; `state` and mutated arguments hold their new values.

        source: of the random numbers, if it is not the common one.
        """
        if self._direct is not None and not kwargs:
            try:
                direct = self._direct(args)
            except Exception as error:  # IREE raises several kinds
                raise self._program.failed(self._entry.name, error) from error
            if direct is not None:
                return structure.unflatten(self._entry.result, direct)
        values, sizes = self._signature.bind(args, kwargs)
        arguments = [
            tensors.to_device(value, dtype, self._device) if dtype else value
            for dtype, value in zip(self._input_types, values, strict=True)
        ]
        if self._draw_types:
            drawn = draws.make(self._entry.draws, sizes, source)
            arguments += [
                tensors.to_device(value, dtype, self._device)
                for dtype, value in zip(self._draw_types, drawn, strict=True)
            ]
        results = self._run(state, values, arguments, sizes)
        if self._wants_torch(values):
            results = [result.to_torch(value) for result, value in zip(self._results, results, strict=True)]
        count = len(self._entry.outputs)
        for number, value in zip(self._entry.mutated_inputs, results[count:], strict=True):
            _write_back(values[number], value)
        return structure.unflatten(self._entry.result, results[:count])

    def _run(self, state: State, values: list[Any], arguments: list[Any], sizes: dict[str, int]) -> list[Any]:
        """Runs the function and stores the state; the results are ints, and arrays that share no memory."""
        with contextlib.ExitStack() as stack:
            if self._has_state:
                stack.enter_context(state.lock)
                stack.enter_context(interrupts_wait())
            before = [state.tensors[name] for name in self._entry.state_inputs]
            views = [*arguments, *(tensor.view for tensor in before)]
            flat = self._program.run(self._entry.name, views, self._result_count)
            results = [result.read(value, sizes) for result, value in zip(self._results, flat, strict=False)]
            moved = self._moved_state(state, flat[len(results) :])
            if self._device.is_host:
                given = [tensors.span(value) for value in values if not isinstance(value, _UNSHARED)]
                self._unshare([*given, *(tensor.span for tensor in before)], moved, results)
            state.tensors.update(moved)
        return results

    def _moved_state(self, state: State, views: list[Any]) -> dict[str, StateTensor]:
        """The new state tensors that were not updated in place."""
        found = {}
        for name, view in zip(self._entry.state_outputs, views, strict=True):
            if view.get_buffer() != state.tensors[name].buffer:
                # Off the host nothing says whether it shares memory with another state tensor.
                own = view if self._device.is_host else tensors.clone_on_device(view, self._device)
                found[name] = StateTensor.of(own, self._device)
        return found

    def _unshare(self, fixed: list[Span], moved: dict[str, StateTensor], results: list[Any]) -> None:
        """Gives memory of its own to what shares some with an argument, the state or another result.

        fixed: places of the arguments and of the state before the call. Changes `moved` and `results`.
        """
        spans = [*fixed, *(tensor.span for tensor in moved.values())]
        spans += [tensors.span(value) if isinstance(value, np.ndarray) else NOWHERE for value in results]
        names = list(moved)
        for number in sharers(spans):
            place = number - len(fixed)
            if place >= len(names):
                results[place - len(names)] = results[place - len(names)].copy()
            elif place >= 0:
                view = tensors.clone_on_device(moved[names[place]].view, self._device)
                moved[names[place]] = StateTensor.of(view, self._device)

    def _wants_torch(self, values: list[Any]) -> bool:
        """Torch tensors come back where one was passed, or where no tensor at all was and torch is in use."""
        if any(self._input_types):
            return any(not isinstance(value, _UNSHARED) for value in values)
        return tensors.torch_is_loaded()


# What is not a torch tensor among bound values. NumPy arrays are always copied to the device.
_UNSHARED = (np.ndarray, int)


class _Result:
    """How one flat result (an output, or the new value of an argument) is read."""

    def __init__(self, spec: ValueSpec, device: Device) -> None:
        self._name = spec.name
        self._device = device
        self._dtype = dtypes.BY_NAME[spec.tensor.dtype] if spec.tensor else None
        self._shape = list(spec.tensor.shape) if spec.tensor else []
        self._symbols = {name for dim in self._shape if isinstance(dim, str) for name in symbols(dim)}

    def read(self, value: Any, sizes: dict[str, int]) -> Any:
        """The array or int. Raises ExecutionError for a shape that the program cannot have for `sizes`."""
        if self._dtype is None:
            return value
        if self._symbols <= sizes.keys():
            expected = [evaluate(dim, sizes) for dim in self._shape] if self._symbols else self._shape
            expected, _ = tensors.stored_as(expected, self._dtype)
            if value.shape != expected:
                raise ExecutionError(f"result '{self._name}' has shape {value.shape}, expected {expected}")
        return tensors.from_device(value, self._dtype, self._device)

    def to_torch(self, value: Any) -> Any:
        """The same as a torch tensor; ints stay ints."""
        return tensors.to_torch(value, self._dtype) if self._dtype else value


def _write_back(target: Any, value: Any) -> None:
    """Gives the caller's own tensor the contents that the model left in it."""
    if isinstance(target, np.ndarray):
        target[...] = value
        return
    import torch

    with torch.no_grad():
        target.copy_(value)

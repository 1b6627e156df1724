"""Eager PyTorch as the judge: runs of the user's model, as it is and in float64, that leave it untouched."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from pipeline.runtime import structure
from pipeline.runtime.manifest import EntryPoint

_WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


@dataclass(frozen=True)
class Call:
    """Arguments for one call of an entry point's method, and the seed of what it draws."""

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    seed: int = 0

    def fresh_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies that the call may update in place."""
        return tree_map(_cloned, (self.args, dict(self.kwargs)))


@dataclass(frozen=True)
class Run:
    """What one call left behind. result: as the model returned it. inputs: flat, after the call."""

    result: Any
    inputs: list[Any]
    state: dict[str, torch.Tensor]


class Reference:
    """The user's model in eager, from a copy: running it must not move the user's batch norm statistics."""

    def __init__(self, model: torch.nn.Module | ExportedProgram) -> None:
        module = model.module() if isinstance(model, ExportedProgram) else model
        self._model = copy.deepcopy(module)

    def state(self, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """Copies of the named buffers and parameters."""
        return _copies(self._model, names)

    def run(self, call: Call, entry: EntryPoint | None, state: Sequence[str]) -> Run:
        """One call. The model's errors come through.

        entry: None where what becomes of inputs does not matter. state: names of the tensors to keep of what it leaves.
        """
        return _run(self._model, call, entry, call.fresh_arguments(), state)

    def run_in_float64(
        self, call: Call, entry: EntryPoint | None, state: Mapping[str, torch.Tensor]
    ) -> Run | None:
        """The same call on a copy, from `state`, with every float tensor widened, also where the model
        asks for float32 by name.

        None where that would be another computation: it draws random numbers, which depend on the dtype,
        or cannot run in float64 at all.
        """
        model = copy.deepcopy(self._model)
        tensors = _tensors(model)
        for name, value in state.items():
            tensors[name].data = value.clone()
        for tensor in tensors.values():
            tensor.data = _widened(tensor.data)
        arguments = tree_map(_widened, call.fresh_arguments())
        mode = _Widening()
        try:
            with mode:
                run = _run(model, call, entry, arguments, list(state))
        except (RuntimeError, TypeError, AssertionError, NotImplementedError, ValueError):
            return None
        return None if mode.drew else run


def _run(
    model: torch.nn.Module, call: Call, entry: EntryPoint | None, arguments: Any, state: Sequence[str]
) -> Run:
    args, kwargs = arguments
    with torch.no_grad(), seeded(call.seed):
        result = getattr(model, call.method)(*args, **kwargs)
    return Run(result, flat_inputs(entry, args, kwargs) if entry else [], _copies(model, state))


class _Widening(TorchDispatchMode):
    """Runs every operator in float64. Models cast to float32 in their middle (norms, softmax), which
    would round the run that others are measured against."""

    drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._assert_tensor_metadata.default:
            return None
        self.drew = self.drew or torch.Tag.nondeterministic_seeded in func.tags
        # What an operator updates must stay the caller's tensor, not become a wider copy of it.
        widen = _widened_dtype if func._schema.is_mutable else _widened
        args, kwargs = tree_map(widen, (args, kwargs or {}))
        return func(*args, **kwargs)


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype in _WIDE:
        return value.to(_WIDE[value.dtype])
    return _widened_dtype(value)


def _widened_dtype(value: Any) -> Any:
    return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def _cloned(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = dict(model.named_buffers(remove_duplicate=False))
    tensors.update(model.named_parameters(remove_duplicate=False))
    return tensors


def _copies(model: torch.nn.Module, names: Sequence[str]) -> dict[str, torch.Tensor]:
    tensors = _tensors(model)
    return {name: tensors[name].detach().clone() for name in names}


def flat_inputs(entry: EntryPoint, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The inputs of `entry` in the manifest's order, as the caller's own objects."""
    positional = [parameter.name for parameter in entry.parameters if parameter.positional]
    given = {**dict(zip(positional, args, strict=False)), **kwargs}
    return [
        leaf
        for parameter in entry.parameters
        if parameter.name in given
        for leaf in structure.flatten(parameter.structure, given[parameter.name], parameter.name)
    ]


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draws from torch's generator start at `seed`; afterwards it is as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield

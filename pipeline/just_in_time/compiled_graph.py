"""One graph of AOTAutograd's, compiled: a function from its flat arguments to its flat results.

In training every argument is passed by reference. In inference, parameters and buffers are bound as globals of the
loaded program, so that what IREE computes from them alone (packing, folding) happens once. Each call looks whether they
are the same tensors with the same contents; if not, the program is loaded again with what they are now.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import optimization_hint

from pipeline.capture import capture
from pipeline.compiler import compile_program, lower
from pipeline.entry_points import EntrySpec
from pipeline.errors import InputError, UnsupportedError
from pipeline.importer import import_program
from pipeline.probe import has_unknown
from pipeline.program import Program
from pipeline.runtime import Artifact, Executable
from pipeline.runtime.device import SMALL_MODEL_BYTES

from . import counts
from .border import Border
from .optimizer_steps import watch_optimizer_steps
from .settings import Settings
from .traced_graph import as_exported

_MOST_BINDINGS = 8
_FEW_CALLS = 16
"""So many bindings in a row for few calls each, and weights are passed by reference: packing them costs more."""

Graph = Callable[..., list[Any]]


def compile_graph(module: GraphModule, settings: Settings, weights: Sequence[int] = ()) -> Graph:
    """Compiles `module`. weights: numbers of the arguments to bind; dynamic ones among them are passed.

    Raises UnsupportedError and InternalError as `pipeline.compile` does.
    """
    border = Border(module)
    if settings.only_lower:
        lower_graph(module, settings)
        counts.count("programs", int(border.computes))
        return module.forward
    placeholders = list(module.graph.find_nodes(op="placeholder"))
    settings = replace(settings, device=settings.device or _device(placeholders, settings))
    fixed = [i for i in weights if i in border.arguments and _is_fixed(placeholders[i].meta["val"])]
    return _Bound(border, settings, fixed) if fixed and border.computes else _ByReference(border, settings)


def _device(placeholders: list[Node], settings: Settings) -> str | None:
    """One thread for a small graph. An artifact would be judged by its weights, of which these have none inside."""
    if settings.compiler.targets[0].device != "cpu":
        return None
    values = [node.meta.get("val") for node in placeholders]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    nbytes = sum(optimization_hint(tensor.numel()) * tensor.element_size() for tensor in tensors)
    return "local-sync" if nbytes < SMALL_MODEL_BYTES else "local-task"


def _is_fixed(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and all(isinstance(size, int) for size in value.shape)


_loaded: weakref.WeakSet[Any] = weakref.WeakSet()
"""Graphs with programs. Dynamo keeps them to the very end, when IREE's library complains of what is still there."""


@atexit.register
def _unload() -> None:
    for graph in list(_loaded):
        graph.unload()


class _ByReference:
    """A compiled graph that takes all its arguments at each call."""

    def __init__(self, border: Border, settings: Settings) -> None:
        self._border = border
        self._program: Callable[..., Any] | None = None
        if border.computes:
            compiled = _compile(border.module, settings, {})
            self._program = compiled.load(settings.device, {})
            _loaded.add(self)

    def unload(self) -> None:
        """Frees the program; no call may follow."""
        self._program = None

    def __call__(self, *args: Any) -> list[Any]:
        values = () if self._program is None else self._program(*self._border.enter(args))
        return self._border.leave(values, args)


class _Bound:
    """A compiled graph whose weights are part of the loaded program."""

    def __init__(self, border: Border, settings: Settings, weights: Sequence[int]) -> None:
        self._settings = settings
        self._border = border
        self._names = {i: f"weight {i}" for i in weights}
        self._lock = threading.Lock()
        self._by_reference: Graph | None = None
        self._short_bindings = 0
        self._calls = _FEW_CALLS
        self._stamps: list[Any] = []
        self._program: Callable[..., Any] | None = None
        watch_optimizer_steps()
        names = {border.placeholder(i): name for i, name in self._names.items()}
        self._compiled = _compile(border.module, settings, names)

    def __call__(self, *args: Any) -> list[Any]:
        with self._lock:
            if self._by_reference is None and not self._is_bound(args):
                self._bind(args)
            self._calls += 1
            by_reference, program = self._by_reference, self._program
        if by_reference is not None:
            return by_reference(*args)
        given = zip(self._border.arguments, self._border.enter(args), strict=True)
        assert program is not None, "weights are bound before the first call"
        return self._border.leave(program(*(x for i, x in given if i not in self._names)), args)

    def unload(self) -> None:
        """Frees the program and the weights; no call may follow."""
        self._program, self._stamps = None, []

    def _is_bound(self, args: Sequence[Any]) -> bool:
        return bool(self._stamps) and all(
            args[i] is tensor and tensor._version == version and tensor.data_ptr() == place
            for i, (tensor, version, place) in zip(self._names, self._stamps, strict=True)
        )

    def _bind(self, args: Sequence[Any]) -> None:
        """Loads the program with the weights among `args`, or gives up on that for good."""
        tensors = [args[i] for i in self._names]
        self._short_bindings = self._short_bindings + 1 if self._calls < _FEW_CALLS else 0
        if self._short_bindings == _MOST_BINDINGS or any(map(_has_no_version, tensors)):
            # In a thread of its own: this one may be in inference mode, below autograd and so on.
            with ThreadPoolExecutor(1) as threads:
                self._by_reference = threads.submit(_ByReference, self._border, self._settings).result()
            self.unload()
            return
        self._calls, self._stamps = 0, []
        stamps = [(tensor, tensor._version, tensor.data_ptr()) for tensor in tensors]
        given = zip(self._border.arguments, self._border.enter(args), strict=True)
        bound = {self._names[i]: tensor for i, tensor in given if i in self._names}
        self._program = self._compiled.load(self._settings.device, bound)
        self._stamps = stamps  # and not where loading raised
        _loaded.add(self)
        counts.count("bindings")


def _has_no_version(tensor: torch.Tensor) -> bool:
    """Nothing tells when a tensor that was made in inference mode changes."""
    return tensor.is_inference()


@dataclass(frozen=True)
class _Compiled:
    """constants: values that the graph holds itself, by name, as far as they are not inside of the artifact."""

    artifact: Artifact
    constants: dict[str, torch.Tensor]

    def load(self, device: str | None, weights: Mapping[str, Any]) -> Callable[..., Any]:
        """The program with these weights."""
        with _plain_modes():
            bound = {**self.constants, **weights}
            return Executable(self.artifact, device=device, bound=bound).entry_point()


def _compile(module: GraphModule, settings: Settings, weights: dict[str, str]) -> _Compiled:
    with _plain_modes():
        program = _capture(module, settings, weights)
        artifact = compile_program(program, settings.compiler)
    counts.count("programs")
    given = set(weights.values())
    return _Compiled(artifact, {name: value for name, value in program.weights.items() if name not in given})


@contextlib.contextmanager
def _plain_modes() -> Iterator[None]:
    """AOTAutograd calls its compilers with every new tensor a fake one, and in the user's inference mode."""
    with unset_fake_temporarily(), torch.inference_mode(False), torch.no_grad():
        yield


def _capture(module: GraphModule, settings: Settings, weights: dict[str, str]) -> Program:
    options = settings.compiler
    try:
        return capture(
            as_exported(module, weights),
            {"main": EntrySpec()},
            decompositions=options.decompositions,
            custom=options.custom_lowerings,
        )
    except InputError as error:
        # The arguments are the graph's own, so what is wrong with them is no fault of the user's.
        raise UnsupportedError(str(error)) from error


def lower_graph(module: GraphModule, settings: Settings, *, only_import: bool = False) -> None:
    """Goes as far as an operator that is unsupported can show. Raises as `compile_graph` does.

    only_import: as far as one can show that says nothing of where it is.
    """
    border = Border(module)
    if border.computes:
        with _plain_modes():
            program = _capture(border.module, settings, {})
            if not only_import:
                lower(program, settings.compiler)
            elif has_unknown(import_program(program)):
                raise UnsupportedError("an operator that cannot be compiled")

"""What is timed: one entry point of a model at the sizes of its example arguments, or a training step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from pipeline.errors import InputError
from pipeline.model_file import LoadedModel, LoadedTraining, load_model, load_training


@dataclass(frozen=True)
class Subject:
    """What to time, in words that another process understands.

    model: as on the command line. entry: None for the only entry point. options: of `pipeline.compile`.
    """

    model: str
    entry: str | None = None
    train: bool = False
    threads: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Workload:
    """A call to make again and again. model: a copy, which nobody else updates."""

    model: nn.Module
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    threads: int
    options: Mapping[str, Any]

    def call(self, function: Callable[..., Any] | None = None) -> Any:
        """The results of `function`, by default the model's own method."""
        return (function or getattr(self.model, self.method))(*self.args, **self.kwargs)

    def flat(self) -> tuple[Flat, tuple[Tensor, ...]]:
        """The model as others take it, and the arguments."""
        leaves, spec = tree_flatten((self.args, dict(self.kwargs)))
        tensors = tuple(leaf for leaf in leaves if isinstance(leaf, Tensor))
        return Flat(self.model, self.method, leaves, spec).train(self.model.training), tensors


@dataclass(frozen=True)
class Training:
    """A training step to do again and again, on one batch."""

    loaded: LoadedTraining
    threads: int
    options: Mapping[str, Any]


class Flat(nn.Module):
    """A model that takes and returns tensors and nothing else, whatever its own arguments and results nest like.

    leaves, spec: the arguments, of which tensors are given anew in each call and all else is fixed.
    """

    def __init__(self, model: nn.Module, method: str, leaves: list[Any], spec: Any) -> None:
        super().__init__()
        self.model = model
        self._method, self._leaves, self._spec = method, leaves, spec

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The tensors among the model's results."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in self._leaves]
        args, kwargs = tree_unflatten(leaves, self._spec)
        return tuple(tensors_of(getattr(self.model, self._method)(*args, **kwargs)))


def tensors_of(result: Any) -> list[Tensor]:
    """The tensors in what a model returned, in pytree order."""
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


def load(subject: Subject) -> Workload | Training:
    """Reads the model's file. Raises InputError where it is not what the subject says."""
    if subject.train:
        loaded = load_training(subject.model)
        return Training(loaded, subject.threads, {**subject.options, **loaded.options})
    return _workload(load_model(subject.model, benchmark=True), subject)


def _workload(loaded: LoadedModel, subject: Subject) -> Workload:
    name = subject.entry or next(iter(loaded.entries))
    if name not in loaded.entries or (subject.entry is None and len(loaded.entries) > 1):
        raise InputError(f"{subject.model}: choose an entry point with --entry: {', '.join(loaded.entries)}")
    spec = loaded.entries[name]
    model = loaded.model.module() if isinstance(loaded.model, ExportedProgram) else loaded.model
    options = {**subject.options, **loaded.options}
    return Workload(copy.deepcopy(model), spec.method, spec.args, spec.kwargs, subject.threads, options)


def name_of(model: str) -> str:
    """``resnet18``, ``t5:get_encoder``."""
    head, colon, tail = model.rpartition(".py:")
    path = head if colon else model
    stem = path.replace("\\", "/").rpartition("/")[2].removesuffix(".py").removesuffix(".pt2")
    return f"{stem}:{tail}" if colon else stem

"""What ``MODEL`` on the command line may be: ``model.py``, ``model.py:NAME`` or a ``.pt2`` ExportedProgram.

A Python file holds, at module level,

    model            or get_model()            the torch.nn.Module, in the mode (eval, train) to compile
    example_inputs   or get_example_inputs()   a tuple of arguments, a dict of keyword arguments, or both
    dynamic_shapes   (optional)                as for torch.export.export
    further_inputs   or get_further_inputs()   (optional) a list of more inputs, of other sizes, to verify with
    benchmark_inputs or get_benchmark_inputs() (optional) what `pipeline bench` takes instead of example_inputs
    decompositions, keep     (optional)            as for `pipeline.compile`
    entry_points     or get_entry_points()     (optional) instead of the two above: see `pipeline.compile`

``model.py:NAME`` takes NAME (a module, or a function that returns one) instead of ``model``.

For training (``pipeline compile --train``) `example_inputs` is a batch, a tuple, and the file holds beside it

    loss_fn                                    as for `pipeline.compile_training`
    optimizer        or get_optimizer(model)   of torch.optim, over the model's parameters
    scaler           or get_scaler()           (optional) a torch.amp.GradScaler, as for `pipeline.compile_training`
    dynamic_shapes   (optional)                over the batch, as for `pipeline.compile_training`
    clip_norm, forward_args, recompute, memory_budget, generator  (optional)   as for `pipeline.compile_training`
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.export import ExportedProgram

from .entry_points import EntrySpec, as_args, further_inputs, split_inputs
from .errors import InputError

_OPTIONS = ("decompositions", "keep")
_TRAINING_OPTIONS = (
    "clip_norm",
    "forward_args",
    "dynamic_shapes",
    "recompute",
    "memory_budget",
    "generator",
)
_OF_EXAMPLES = ("transformers", "sklearn")


@dataclass(frozen=True)
class LoadedModel:
    """A model with the entry points to compile. options: those of `pipeline.compile` that the file gives."""

    model: torch.nn.Module | ExportedProgram
    entries: dict[str, EntrySpec]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedTraining:
    """What `pipeline.compile_training` takes. args: an example batch. how: its own options. options: `compile`'s."""

    model: torch.nn.Module
    loss_fn: Any
    optimizer: Any
    args: tuple[Any, ...]
    how: dict[str, Any]
    options: dict[str, Any]


def load_model(text: str, *, benchmark: bool = False) -> LoadedModel:
    """Reads ``MODEL`` as above; benchmark: with `benchmark_inputs`. Raises InputError for each way to get it wrong."""
    path, attribute = _existing(text)
    if path.suffix == ".pt2":
        return _load_exported(path)
    module = _run_file(path)
    model = _model(module, path, attribute)
    options = {name: getattr(module, name) for name in _OPTIONS if hasattr(module, name)}
    return LoadedModel(model, _entries(module, path, benchmark), options)


def load_training(text: str) -> LoadedTraining:
    """Reads ``MODEL`` for training. Raises InputError for each way to get it wrong."""
    path, attribute = _existing(text)
    if path.suffix == ".pt2":
        raise InputError(f"{path}: training needs the Python file of the model, its loss and its optimizer")
    module = _run_file(path)
    model = _model(module, path, attribute)
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"{path}: training needs a torch.nn.Module, got {type(model).__name__}")
    given = {name: getattr(module, name) for name in _TRAINING_OPTIONS if hasattr(module, name)}
    given["scaler"] = _value(module, path, "scaler")
    options = {name: getattr(module, name) for name in _OPTIONS if hasattr(module, name)}
    args = as_args(_needed(module, path, "example_inputs"), f"{path}: example_inputs")
    loss_fn = _needed(module, path, "loss_fn")
    return LoadedTraining(model, loss_fn, _optimizer(module, path, model), args, given, options)


def _existing(text: str) -> tuple[Path, str | None]:
    path, attribute = _split(text)
    if not path.is_file():
        raise InputError(f"{path}: no such file; MODEL is model.py, model.py:NAME or a .pt2 file")
    if path.suffix not in (".py", ".pt2"):
        raise InputError(f"{path}: MODEL is model.py, model.py:NAME or a .pt2 file")
    return path, attribute


def _needed(module: ModuleType, path: Path, name: str) -> Any:
    found = _value(module, path, name)
    if found is None:
        raise InputError(f"{path} has no '{name}' at module level, which training needs")
    return found


def _optimizer(module: ModuleType, path: Path, model: torch.nn.Module) -> Any:
    if hasattr(module, "optimizer"):
        return module.optimizer
    if not hasattr(module, "get_optimizer"):
        raise InputError(
            f"{path} has no 'optimizer' or 'get_optimizer(model)' at module level, which training needs"
        )
    return _call(lambda: module.get_optimizer(model), path, "get_optimizer")


def _split(text: str) -> tuple[Path, str | None]:
    head, separator, tail = text.rpartition(":")
    if separator and head.endswith(".py"):
        if not tail.isidentifier():
            raise InputError(f"{text}: '{tail}' is no Python name; write model.py:NAME")
        return Path(head), tail
    return Path(text), None


class _FirstAttempt(logging.Filter):
    """Keeps the error that torch.export.load only logs before it tries older formats, such as a missing operator."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        while error is not None and error.__cause__ is not None:
            error = error.__cause__
        self.error = self.error or error
        return False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        logger = logging.getLogger("torch.export")
        logger.addFilter(self)
        try:
            yield
        finally:
            logger.removeFilter(self)


def _why_unreadable(error: BaseException) -> str:
    absent = re.search(r"failed to resolve torch\.ops\.(\w+)\.(\w+)", str(error))
    if absent is None:
        return f"torch.export.load cannot read it: {_first_line(error)[:300]}"
    return (
        f"it uses the operator {absent[1]}::{absent[2]}, which is not declared here; compile a .py file that imports "
        "its declaration and has model = torch.export.load(...).module()"
    )


def _load_exported(path: Path) -> LoadedModel:
    attempt = _FirstAttempt()
    try:
        with attempt.watched():
            program = torch.export.load(path)
    except Exception as error:
        raise InputError(f"{path}: {_why_unreadable(attempt.error or error)}") from error
    if program.example_inputs is None:
        raise InputError(f"{path}: the ExportedProgram holds no example inputs; save it with them")
    args, kwargs = program.example_inputs
    return LoadedModel(program, {"main": EntrySpec(tuple(args), dict(kwargs))})


def _run_file(path: Path) -> ModuleType:
    """Imports the file under its own name, with its folder importable, as `python model.py` would."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise InputError(
            f"{path}: {error} ({_line_in(error, path)}); install it"
            + (", for the examples by: pip install -e '.[examples]'" if error.name in _OF_EXAMPLES else "")
        ) from error
    except Exception as error:
        raise InputError(
            f"{path} cannot be imported: {type(error).__name__}: {_first_line(error)} ({_line_in(error, path)})"
        ) from error
    finally:
        sys.path.pop(0)
    return module


def _line_in(error: BaseException, path: Path) -> str:
    """``model.py:12``, the last line of the user's file that was running."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if Path(frame.filename).name == path.name]
    if isinstance(error, SyntaxError):
        own = [error.lineno]
    return f"{path}:{own[-1]}" if own else str(path)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _model(module: ModuleType, path: Path, attribute: str | None) -> torch.nn.Module | ExportedProgram:
    name = attribute or ("model" if hasattr(module, "model") else "get_model")
    if not hasattr(module, name):
        wanted = f"'{attribute}'" if attribute else "'model' or 'get_model()'"
        raise InputError(f"{path} has no {wanted} at module level")
    found = getattr(module, name)
    if callable(found) and not isinstance(found, torch.nn.Module):
        found = _call(found, path, name)
    if not isinstance(found, (torch.nn.Module, ExportedProgram)):
        raise InputError(f"{path}: '{name}' must be a torch.nn.Module, got {type(found).__name__}")
    return found


def _call(function: Any, path: Path, name: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise InputError(
            f"{path}: {name}() failed: {type(error).__name__}: {_first_line(error)} ({_line_in(error, path)})"
        ) from error


def _value(module: ModuleType, path: Path, name: str) -> Any:
    """The attribute `name`, or the result of ``get_NAME()``; None when there is neither."""
    if hasattr(module, name):
        return getattr(module, name)
    getter = getattr(module, f"get_{name}", None)
    return _call(getter, path, f"get_{name}") if getter is not None else None


def _entries(module: ModuleType, path: Path, benchmark: bool) -> dict[str, EntrySpec]:
    several = _value(module, path, "entry_points")
    if several is not None:
        if not isinstance(several, dict) or not several:
            raise InputError(f"{path}: 'entry_points' must be a dict of entry points, got {several!r}")
        return {name: EntrySpec.from_user(name, value) for name, value in several.items()}
    inputs = _value(module, path, "benchmark_inputs") if benchmark else None
    if inputs is None:
        inputs = _value(module, path, "example_inputs")
    if inputs is None:
        raise InputError(
            f"{path} has no 'example_inputs' or 'get_example_inputs()' at module level: "
            "a tuple of arguments, a dict of keyword arguments, or (tuple, dict)"
        )
    args, kwargs = split_inputs(inputs, f"{path}: example_inputs")
    further = further_inputs(_value(module, path, "further_inputs") or (), f"{path}: further_inputs")
    dynamic_shapes = getattr(module, "dynamic_shapes", None)
    return {"main": EntrySpec(args, kwargs, dynamic_shapes, further_inputs=further)}

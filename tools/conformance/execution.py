"""One case from start to end: eager, compile, run, compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pipeline import api
from pipeline.compiler import compile_program
from pipeline.errors import InputError, InternalError, UnsupportedError
from pipeline.runtime import Executable
from pipeline.runtime.errors import RuntimeRoomError

from . import judge
from .cases import Case, operators, quiet, samples, seeded
from .programs import OperatorModule, fresh, gradient_program, gradients, strided
from .records import Record

_LARGEST = 1_000_000
"""Elements; larger samples take minutes and show nothing new."""


@dataclass(frozen=True)
class Outcome:
    """A case's end. status: one of `judge`'s."""

    status: str
    message: str = ""


@dataclass(frozen=True)
class _Run:
    """What to compile, with which arguments, and what eager gives; again: eager for other arguments."""

    program: torch.nn.Module
    arguments: list[Any]
    expected: list[Any]
    again: Callable[..., Sequence[Any]]

    def in_float64(self) -> Sequence[Any]:
        """Eager's results from the same values in float64; no results where it cannot compute them so."""
        try:
            with quiet(), seeded():
                return self.again(*map(_wide, self.arguments))
        except Exception:
            return [None] * len(self.expected)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def execute(case: Case, timeout: float) -> Record:
    """Runs `case`. timeout: seconds that one compiler process may take. Raises nothing."""
    start = time.perf_counter()
    with quiet():
        try:
            outcome = _execute(case, timeout)
        except Exception as error:
            outcome = Outcome(judge.FAILURE, f"the runner: {type(error).__name__}: {error}")
    return Record(case, outcome.status, outcome.message[:2000], time.perf_counter() - start)


def _execute(case: Case, timeout: float) -> Outcome:
    try:
        sample = samples(case.operator, case.dtype, case.kind)[case.sample]
    except Exception as error:
        return Outcome(judge.EAGER, f"the samples: {type(error).__name__}: {error}")
    if case.kind == "errors":
        return _refused(case, sample, timeout)
    factors = case.kind == "forward" and judge.reconstructs(case.operator) is not None
    module = OperatorModule(operators()[case.operator].op, sample, raw=factors)
    reason = _unfit(module)
    if reason:
        return Outcome(judge.SKIPPED, reason)
    return (_backward if case.kind == "backward" else _forward)(case, module, timeout)


def _unfit(module: OperatorModule) -> str | None:
    if any(tensor.layout is not torch.strided for tensor in module.tensors):
        return "the sample is sparse"
    if sum(tensor.numel() for tensor in module.tensors) > _LARGEST:
        return f"the sample has more than {_LARGEST} elements"
    return None


def _forward(case: Case, module: OperatorModule, timeout: float) -> Outcome:
    arrange = strided if case.layout == "strided" else fresh
    try:
        with seeded(), torch.no_grad():
            expected = list(module(*map(arrange, module.tensors)))
    except Exception as error:
        return Outcome(judge.EAGER, f"{type(error).__name__}: {error}")
    run = _Run(module, list(map(arrange, module.tensors)), expected, module)
    return _judged(case, run, timeout)


def _backward(case: Case, module: OperatorModule, timeout: float) -> Outcome:
    try:
        with seeded():
            traced = gradient_program(module, module.tensors)
    except Exception as error:
        return _untraceable(case, module, error)
    if traced is None:
        return Outcome(judge.SKIPPED, "no result depends on a differentiable argument")
    graph, cotangents = traced
    with seeded():
        expected = gradients(module, module.tensors, cotangents)

    def again(*values: torch.Tensor) -> list[torch.Tensor]:
        count = len(module.tensors)
        return gradients(module, list(values[:count]), list(values[count:]))

    run = _Run(graph, [*map(fresh, module.tensors), *cotangents], expected, again)
    return _judged(case, run, timeout)


def _untraceable(case: Case, module: OperatorModule, error: Exception) -> Outcome:
    """Whether eager can differentiate this at all."""
    message = f"{type(error).__name__}: {error}"
    try:
        with seeded(), torch.enable_grad():
            leaves = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in module.tensors]
            results = [r for r in module(*leaves) if isinstance(r, torch.Tensor) and r.requires_grad]
            sources = [leaf for leaf in leaves if leaf.requires_grad]
            torch.autograd.grad(results, sources, [torch.ones_like(r) for r in results], allow_unused=True)
    except Exception:
        return Outcome(judge.EAGER, message)
    return Outcome(judge.NOT_CAPTURED, f"tracing the gradient: {message}")


def _judged(case: Case, run: _Run, timeout: float) -> Outcome:
    built = _compiled(case, run.program, run.arguments, timeout)
    if isinstance(built, Outcome) or built is None:
        return built or Outcome(judge.RIGHT, "compiled, not run: no device")
    try:
        with seeded():
            actual = _flat(built(*run.arguments))
    except RuntimeRoomError as error:
        return Outcome(judge.RUNTIME, str(error))
    try:
        _compare(case, run, actual)
    except judge.Wrong as error:
        return Outcome(error.status, str(error))
    return Outcome(judge.RIGHT)


def _compare(case: Case, run: _Run, actual: list[Any]) -> None:
    expected = run.expected
    if case.kind == "forward" and judge.reconstructs(case.operator) and len(actual) > 1:
        half = len(actual) // 2
        judge.compare(case.operator, actual[:half], expected[:half], run.in_float64)
        _check_factors(case.operator, actual[half:], expected[half:], run.arguments[0])
        return
    judge.compare(case.operator, actual, expected, run.in_float64)


def _check_factors(operator: str, ours: list[Any], eager: list[Any], given: torch.Tensor) -> None:
    """Only where eager's own factors rebuild the input: some modes return one factor, or another input's."""
    try:
        judge.check_factors(operator, eager, given)
    except (judge.Wrong, RuntimeError, IndexError):
        return
    judge.check_factors(operator, ours, given)


def _compiled(
    case: Case, module: torch.nn.Module, arguments: list[Any], timeout: float
) -> Executable | Outcome | None:
    """The loaded program; None where it compiled for a device that is not here."""
    dynamic = [_all_dynamic(argument) for argument in arguments] if case.dynamic else None
    try:
        settings = api.compile_options(case.target, timeout=timeout)
        entries = api.entry_specs(tuple(arguments), None, _shapes(dynamic, module), None)
        artifact = compile_program(api.capture_checked(module, entries, settings), settings)
        return None if case.target == "cuda" else Executable(artifact)
    except UnsupportedError as error:
        return Outcome(judge.UNSUPPORTED, str(error))
    except InputError as error:
        return Outcome(judge.NOT_CAPTURED, str(error))
    except InternalError as error:
        slow = "longer than the time limit" in str(error) or "did not end" in str(error)
        return Outcome(judge.HANG if slow else judge.FAILURE, str(error))


def _shapes(dynamic: list[Any] | None, module: torch.nn.Module) -> Any:
    return (tuple(dynamic),) if dynamic is not None and isinstance(module, OperatorModule) else dynamic


def _all_dynamic(value: Any) -> Any:
    """Every size of two or more; torch.export specialises the others."""
    if not isinstance(value, torch.Tensor):
        return None
    auto = torch.export.Dim.AUTO
    return {axis: auto for axis, size in enumerate(value.shape) if size > 1}


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _flat(item)]
    return [value]


def _refused(case: Case, sample: Any, timeout: float) -> Outcome:
    """An error input: whatever eager refuses must not compile and run."""
    module = OperatorModule(operators()[case.operator].op, sample)
    if _unfit(module):
        return Outcome(judge.SKIPPED, "sparse or large")
    try:
        with seeded(), torch.no_grad():
            module(*map(fresh, module.tensors))
    except Exception as error:
        return _compiles(case, module, timeout, f"{type(error).__name__}: {error}")
    return Outcome(judge.SKIPPED, "eager takes it")


def _compiles(case: Case, module: OperatorModule, timeout: float, eager: str) -> Outcome:
    arguments: Sequence[Any] = [fresh(tensor) for tensor in module.tensors]
    built = _compiled(case, module, list(arguments), timeout)
    if isinstance(built, Outcome):
        clear = built.status in judge.CLEAR
        return Outcome(judge.RIGHT, built.message) if clear else built
    try:
        if built is not None:
            built(*arguments)
    except RuntimeRoomError as error:
        return Outcome(judge.RIGHT, str(error))
    return Outcome(judge.ACCEPTED, f"eager raises {eager}")

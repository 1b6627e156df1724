"""Cases from start to end: compile, run, compare. Several may share one program, which saves most of the time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from pipeline import api
from pipeline.compiler import compile_program
from pipeline.errors import InputError, InternalError, UnsupportedError
from pipeline.just_in_time.counts import apart
from pipeline.runtime import Executable
from pipeline.runtime.errors import RuntimeRoomError

from . import judge
from .cases import Case, quiet, seeded
from .records import Record
from .runs import Outcome, Run, prepare


def execute(cases: Sequence[Case], timeout: float) -> list[Record]:
    """The records of `cases`, which differ in their samples only. timeout: seconds for one compiler process.

    They are compiled as one program. If that fails, its halves are; a case that differs from eager is judged
    again alone. Raises nothing.
    """
    start = time.perf_counter()
    with quiet():
        prepared = [_guarded(case) for case in cases]
        runs = [item for item in prepared if isinstance(item, Run)]
        found = dict(_judge_together(runs, timeout))
    seconds = (time.perf_counter() - start) / len(cases)
    outcomes = [item if isinstance(item, Outcome) else found[item.case] for item in prepared]
    return [
        Record(case, outcome.status, outcome.message[:2000], seconds)
        for case, outcome in zip(cases, outcomes, strict=True)
    ]


def _guarded(case: Case) -> Run | Outcome:
    try:
        return prepare(case)
    except Exception as error:
        return Outcome(judge.FAILURE, f"the runner: {type(error).__name__}: {error}")


def _judge_together(runs: list[Run], timeout: float) -> list[tuple[Case, Outcome]]:
    if not runs:
        return []
    if len(runs) == 1 or isinstance(runs[0].expected, str) or runs[0].case.kind == "just-in-time":
        return [(run.case, _judge_alone(run, timeout)) for run in runs]
    results = _run_together(runs, timeout)
    if results is None:
        middle = len(runs) // 2
        return _judge_together(runs[:middle], timeout) + _judge_together(runs[middle:], timeout)
    found = []
    for run, actual in zip(runs, results, strict=True):
        outcome = _compared(run, actual)
        right = outcome.status == judge.RIGHT
        found.append((run.case, outcome if right else _judge_alone(run, timeout)))
    return found


class _Together(torch.nn.Module):
    """Several programs over all their arguments, one after the other."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__()
        self._programs = torch.nn.ModuleList([run.program for run in runs])
        self._counts = [len(run.arguments) for run in runs]

    def forward(self, *arguments: torch.Tensor) -> tuple[tuple[Any, ...], ...]:
        """The results of each."""
        results, start = [], 0
        for program, count in zip(self._programs, self._counts, strict=True):
            results.append(tuple(program(*arguments[start : start + count])))
            start += count
        return tuple(results)


def _run_together(runs: list[Run], timeout: float) -> list[list[Any]] | None:
    """Flat results of each, or None if the whole does not compile or run."""
    arguments = [argument for run in runs for argument in run.arguments]
    built = _compiled(runs[0].case, _Together(runs), arguments, timeout, graph=False)
    if isinstance(built, Outcome):
        return None
    if built is None:
        return [list(run.expected) for run in runs]
    try:
        with seeded():
            return [_flat(result) for result in built(*arguments)]
    except RuntimeRoomError:
        return None


def _judge_alone(run: Run, timeout: float) -> Outcome:
    try:
        return _refusal(run, timeout) if isinstance(run.expected, str) else _result(run, timeout)
    except Exception as error:
        return Outcome(judge.FAILURE, f"the runner: {type(error).__name__}: {error}")


def _result(run: Run, timeout: float) -> Outcome:
    if run.case.kind == "just-in-time":
        return _through_torch_compile(run, timeout)
    built = _compiled(
        run.case, run.program, run.arguments, timeout, graph=isinstance(run.program, torch.fx.GraphModule)
    )
    if isinstance(built, Outcome):
        return built
    if built is None:
        return Outcome(judge.RIGHT, "compiled, not run: no device")
    try:
        with seeded():
            actual = _flat(built(*run.arguments))
    except RuntimeRoomError as error:
        return Outcome(judge.RUNTIME, str(error))
    return _compared(run, actual)


def _through_torch_compile(run: Run, timeout: float) -> Outcome:
    """Forward and backward through the backend. What ran in eager is another status: Dynamo may leave out all."""
    torch._dynamo.reset()
    options: Any = {"timeout": timeout, "cache": False}
    compiled = torch.compile(run.program, backend="pipeline", options=options)
    try:
        with apart() as counters, seeded():
            actual = _flat(run.again(*run.arguments, called=compiled))
    except Exception as error:
        return Outcome(judge.FAILURE, f"{type(error).__name__}: {error}")
    found = _compared(run, actual)
    left = [*counters.eager, *counters.failures] or ([] if counters.graphs else ["all of it"])
    if found.status == judge.RIGHT and left:
        return Outcome(judge.IN_EAGER, ", ".join(left))
    return found


def _compared(run: Run, actual: list[Any]) -> Outcome:
    try:
        _compare(run, actual)
    except judge.Wrong as error:
        return Outcome(error.status, str(error))
    return Outcome(judge.RIGHT)


def _compare(run: Run, actual: list[Any]) -> None:
    operator: str = run.case.operator
    expected: list[Any] = list(run.expected)
    if run.case.kind == "forward":
        actual = judge.in_order_of(operator, actual, expected)
    if run.case.kind == "forward" and judge.reconstructs(operator) and len(actual) > 1:
        processed = len(actual) - judge.factor_count(operator)
        judge.compare(operator, actual[:processed], expected[:processed], run.in_float64)
        _check_factors(operator, actual[processed:], expected[processed:], run.arguments[0])
        return
    if run.case.kind == "forward" and judge.places_are_free(operator):
        judge.check_places(actual, expected, run.arguments[0])
        return
    judge.compare(operator, actual, expected, run.in_float64)


def _check_factors(operator: str, ours: list[Any], eager: list[Any], given: torch.Tensor) -> None:
    """Only where eager's own factors rebuild the input: some modes return one factor, or another input's."""
    try:
        judge.check_factors(operator, eager, given)
    except (judge.Wrong, RuntimeError, IndexError):
        return
    judge.check_factors(operator, ours, given)


def _refusal(run: Run, timeout: float) -> Outcome:
    """What eager refuses is right when it is refused, at compile time or when run."""
    built = _compiled(run.case, run.program, run.arguments, timeout, graph=False)
    if isinstance(built, Outcome):
        return Outcome(judge.RIGHT, built.message) if built.status in judge.CLEAR else built
    try:
        if built is not None:
            built(*run.arguments)
    except RuntimeRoomError as error:
        return Outcome(judge.RIGHT, str(error))
    return Outcome(judge.ACCEPTED, f"eager raises {run.expected}")


def _compiled(
    case: Case, module: torch.nn.Module, arguments: list[Any], timeout: float, *, graph: bool
) -> Executable | Outcome | None:
    """The loaded program; None where it compiled for a device that is not here. graph: `module` is a traced one."""
    dynamic: Any = tuple(map(_all_dynamic, arguments)) if case.dynamic else None
    try:
        settings = api.compile_options(case.target, timeout=timeout)
        shapes = dynamic if graph or dynamic is None else (dynamic,)
        entries = api.entry_specs(tuple(arguments), None, shapes, None)
        artifact = compile_program(api.capture_checked(module, entries, settings), settings)
        return None if case.target == "cuda" else Executable(artifact)
    except UnsupportedError as error:
        return Outcome(judge.UNSUPPORTED, str(error))
    except InputError as error:
        return Outcome(judge.NOT_CAPTURED, str(error))
    except InternalError as error:
        slow = "longer than the time limit" in str(error) or "did not end" in str(error)
        return Outcome(judge.HANG if slow else judge.FAILURE, str(error))


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

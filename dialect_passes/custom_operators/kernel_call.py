"""One call of a kernel: its tensors with their sizes, its workgroups and its constants."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .call_types import CallTypes, TensorType
from .declared import Declared, failing_line
from .launch import Constant, Launch, operand_sizes, typed_constants, view, views
from .lowering import LoweringError, Refused
from .sizes import Size

LaunchFunction = Callable[..., Launch]

RESULTS = "results"
"""The parameter of a launch function that gets views of the results."""


@dataclass(frozen=True)
class KernelCall:
    """operands: flattened, with names; sizes: an int, or a `Size` where unknown, for every dimension."""

    operands: tuple[tuple[str, TensorType], ...]
    operand_sizes: tuple[tuple[int | Size, ...], ...]
    results: tuple[TensorType, ...]
    result_sizes: tuple[tuple[int | Size, ...], ...]
    workgroups: tuple[int | Size, ...]
    constants: tuple[Constant, ...]

    @property
    def operand_types(self) -> list[TensorType]:
        """The types of the operands."""
        return [tensor for _, tensor in self.operands]

    def named_results(self) -> list[tuple[str, TensorType]]:
        """The results with a name each that no operand has."""
        taken = {name for name, _ in self.operands}
        names = ["out"] if len(self.results) == 1 else [f"out_{i}" for i in range(len(self.results))]
        return [(_free(name, taken), tensor) for name, tensor in zip(names, self.results, strict=True)]


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def plan(launch: LaunchFunction, where: Declared, call: CallTypes, device: str) -> KernelCall:
    """What `launch` says about `call`. where: its place, for messages.

    Raises Refused for a call that the kernel does not take, LoweringError for a wrong launch function.
    """
    operands = tuple(call.tensors())
    sizes = tuple(tuple(operand_sizes(tensor, number)) for number, (_, tensor) in enumerate(operands))
    answer = _ask(launch, where, call)
    workgroups = _workgroups(answer, where, call)
    result_sizes = _result_sizes(answer, where, call)
    try:
        constants = tuple(typed_constants(answer, call, device))
    except ValueError as error:
        raise LoweringError(f"{where}: {error}") from error
    return KernelCall(operands, sizes, call.results, result_sizes, workgroups, constants)


def parameters_of(launch: LaunchFunction) -> list[str]:
    """The names of its parameters."""
    return list(inspect.signature(launch).parameters)


def _ask(launch: LaunchFunction, where: Declared, call: CallTypes) -> Launch:
    known = {RESULTS: _result_views(call)} | views(call)
    try:
        answer = launch(**{name: known[name] for name in parameters_of(launch)})
    except (Refused, LoweringError):
        raise
    except Exception as error:
        raise LoweringError(
            f"{where}: {type(error).__name__}: {error}{failing_line(error, where)}"
        ) from error
    if not isinstance(answer, Launch):
        raise LoweringError(f"{where}: must return Launch(workgroups=..., constants=...), not {answer!r}")
    return answer


def _result_views(call: CallTypes) -> list[Any]:
    """Views of the results; of one whose sizes nobody told, None."""
    sizes: Sequence[Sequence[int | Size | None]] = call.result_sizes or [
        result.shape for result in call.results
    ]
    pairs = zip(call.results, sizes, strict=True)
    return [None if any(size is None for size in row) else view(result, row) for result, row in pairs]  # type: ignore[arg-type]


def _workgroups(answer: Launch, where: Declared, call: CallTypes) -> tuple[int | Size, ...]:
    counts = tuple(answer.workgroups)
    right = all(isinstance(count, Size) or (isinstance(count, int) and count >= 0) for count in counts)
    if not right or not 1 <= len(counts) <= 3:
        raise LoweringError(f"{where}: workgroups must be one to three counts, not {answer.workgroups!r}")
    if any(isinstance(count, int) and count == 0 for count in counts) and not has_no_elements(call.results):
        raise LoweringError(
            f"{where}: no workgroup would write the results {', '.join(map(str, call.results))}"
        )
    return counts


def has_no_elements(results: Sequence[TensorType]) -> bool:
    """Whether there is nothing to compute, whatever the unknown sizes are."""
    return all(0 in result.shape for result in results)


def _result_sizes(answer: Launch, where: Declared, call: CallTypes) -> tuple[tuple[int | Size, ...], ...]:
    told = _told_sizes(answer, call)
    rows = [list(row) for row in told]
    if [len(row) for row in rows] != [result.rank for result in call.results]:
        raise LoweringError(f"{where}: shapes must name every size of every result, not {answer.shapes!r}")
    for row, result in zip(rows, call.results, strict=True):
        for size, static in zip(row, result.shape, strict=True):
            if static is not None and isinstance(size, int) and size != static:
                raise LoweringError(f"{where}: shapes says {size} for a size that is {static} in {result}")
            if not isinstance(size, (int, Size)):
                raise LoweringError(f"{where}: shapes holds {size!r}, which is no size")
    return tuple(map(tuple, rows))


def _told_sizes(answer: Launch, call: CallTypes) -> Sequence[Sequence[int | Size]]:
    """The sizes of the results, from the launch function or from capture, or because all are static."""
    if answer.shapes is not None:
        return answer.shapes
    if call.result_sizes is not None:
        return call.result_sizes
    static = [[size for size in result.shape if size is not None] for result in call.results]
    if [len(row) for row in static] != [result.rank for result in call.results]:
        raise Refused("the sizes of its results are not known; return Launch(shapes=...) to tell them")
    return static

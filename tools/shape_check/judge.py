"""What shape and dtype functions say of a call, and whether PyTorch says the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.dialect_passes import operators
from pipeline.shape_lib.registry import registered
from pipeline.shape_lib.sizes import unknown_size

from .calls import Call, Tensor
from .reasons import excused

_UNKNOWN = unknown_size()


@dataclass
class Entry:
    """The functions of one operator, by kind, and how they fared.

    checked: calls compared. errors: calls that PyTorch refuses and the functions refuse too. excused: calls that
    PyTorch refuses for what is no matter of shapes and dtypes. wrong: a sentence per disagreement.
    """

    operator: str
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    checked: int = 0
    errors: int = 0
    excused: int = 0
    compiled: int = 0
    wrong: list[str] = field(default_factory=list)


def entries() -> dict[str, Entry]:
    """All operators that have functions beside our operators, by name: not those that a user declares elsewhere."""
    found: dict[str, Entry] = {}
    ours = [entry for entry in registered() if entry.function.__module__.startswith(f"{operators.__name__}.")]
    for function in ours:
        name = full_name(function.operator)
        found.setdefault(name, Entry(name)).functions[function.kind] = function.function
    return found


def full_name(operator: str) -> str:
    """``aten.relu`` -> ``aten.relu.default``."""
    return operator if operator.count(".") == 2 else f"{operator}.default"


def judge(entry: Entry, call: Call) -> None:
    """Compares the functions with the outcome of a call and notes it."""
    told = {kind: _ask(function, call, kind) for kind, function in entry.functions.items()}
    crashed = [(kind, answer) for kind, answer in told.items() if isinstance(answer, _Crash)]
    if crashed:
        kind, answer = crashed[0]
        entry.wrong.append(f"{call}: the {kind} function fails: {answer.problem}")
    elif call.error is not None:
        _judge_error(entry, call, told)
    else:
        problem = next(filter(None, (_compare(call, kind, answer) for kind, answer in told.items())), None)
        entry.checked += 1
        if problem:
            entry.wrong.append(f"{call}: {problem}")


@dataclass(frozen=True)
class _Refusal:
    message: str


@dataclass(frozen=True)
class _Crash:
    problem: str


def _ask(function: Callable[..., Any], call: Call, kind: str) -> Any:
    try:
        return function(*(_argument(value, kind) for value in call.arguments))
    except AssertionError as error:
        return _Refusal(str(error)) if str(error) else _Crash("an assertion without a message")
    except Exception as error:
        return _Crash(f"{type(error).__name__}: {error}")


def _argument(value: Any, kind: str) -> Any:
    if isinstance(value, Tensor):
        return list(value.shape) if kind == "shape" else (len(value.shape), value.dtype)
    return [_argument(item, kind) for item in value] if isinstance(value, tuple) else value


def _judge_error(entry: Entry, call: Call, told: dict[str, Any]) -> None:
    assert call.error is not None
    if any(isinstance(answer, _Refusal) for answer in told.values()):
        entry.errors += 1
    elif excused(call.operator, call.error):
        entry.excused += 1
    else:
        entry.errors += 1
        first = re.sub(r"\s+", " ", call.error)[:200]
        entry.wrong.append(f"{call}: PyTorch raises '{first}', the functions do not")


def _compare(call: Call, kind: str, answer: Any) -> str | None:
    if isinstance(answer, _Refusal):
        return f"the {kind} function raises '{answer.message}', PyTorch does not"
    told = _per_result(answer, kind, len(call.results))
    if len(told) != len(call.results):
        return f"the {kind} function tells {len(told)} results, there are {len(call.results)}"
    for i, (said, result) in enumerate(zip(told, call.results, strict=True)):
        if result is None:
            continue
        is_ = list(result.shape) if kind == "shape" else result.dtype
        if said != is_ and not (kind == "shape" and _fits(said, result.shape)):
            return f"the {kind} of result {i} is {is_}, the function says {said}"
    return None


def open_sizes(entry: Entry, call: Call) -> set[tuple[int, int]]:
    """(result, dimension) of the sizes that the shape function leaves to the data."""
    if "shape" not in entry.functions:
        return set()
    told = _per_result(_ask(entry.functions["shape"], call, "shape"), "shape", len(call.results))
    shapes = [shape if isinstance(shape, list) else [] for shape in told]
    return {(i, k) for i, shape in enumerate(shapes) for k, size in enumerate(shape) if size == _UNKNOWN}


def _fits(said: Any, shape: Sequence[int]) -> bool:
    """Whether a shape is right but for sizes that only the data tell."""
    return (
        isinstance(said, list)
        and len(said) == len(shape)
        and all(told in (size, _UNKNOWN) for told, size in zip(said, shape, strict=True))
    )


def _per_result(answer: Any, kind: str, results: int) -> list[Any]:
    """A tuple has one answer per result, and a list of tensors is a list of shapes with one dtype."""
    if isinstance(answer, tuple):
        return list(answer)
    if kind == "shape" and answer and isinstance(answer[0], list):
        return answer
    return [answer] * results if kind == "dtype" else [answer]

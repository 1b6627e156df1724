"""`op.check`: the parts of an operator compared with its meaning, on samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import composition, fakes
from .comparison import Outcome, Tolerances, compared_results, leaf, outcome, repeatable, short
from .compiled_checks import Machine, compiled
from .errors import CheckError, SampleError
from .gradient_checks import composition_gradient, finite_differences
from .lowering import MEANING
from .report import Report, Row
from .results import map_tensors

if TYPE_CHECKING:
    from .declaration import CustomOp


def check(
    op: CustomOp, samples: Iterable[Any], targets: Sequence[str], tolerances: Tolerances, *, strict: bool
) -> Report:
    """The report on all samples; see `CustomOp.check`. Raises CheckError, if strict, and SampleError."""
    rows: list[Row] = []
    machine = Machine()
    for number, sample in enumerate(samples, 1):
        values = _bound(op, number, sample)
        for what, comparison in _comparisons(op, values, targets, tolerances, machine):
            status, detail = comparison()
            rows.append(Row(number, what, status, detail))
    if not rows:
        raise SampleError(f"{op.name}: check needs a sample: a list of tuples of arguments")
    report = Report(op.name, tuple(rows))
    if strict and not report.ok:
        raise CheckError(report)
    return report


def _bound(op: CustomOp, number: int, sample: Any) -> list[Any]:
    """The values of all arguments of a sample. Raises SampleError where it does not fit the operator."""
    args, kwargs = _arguments(sample)
    try:
        bound = inspect.signature(op.meaning).bind(*args, **kwargs)
    except TypeError as error:
        raise SampleError(
            f"{op.name}: sample {number} does not fit: {error}; a sample is a tuple of arguments, a dict of them by "
            "name, or a pair of both"
        ) from None
    bound.apply_defaults()
    return list(bound.arguments.values())


def _arguments(sample: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if isinstance(sample, Mapping):
        return (), sample
    if not isinstance(sample, (tuple, list)):
        return (sample,), {}
    if len(sample) == 2 and isinstance(sample[0], (tuple, list)) and isinstance(sample[1], Mapping):
        return sample[0], sample[1]
    return sample, {}


def _comparisons(
    op: CustomOp, values: list[Any], targets: Sequence[str], tolerances: Tolerances, machine: Machine
) -> Iterator[tuple[str, Callable[[], Outcome]]]:
    """All comparisons for one sample, by what they compare with the meaning."""
    yield "eager", lambda: compared_results(op, values, lambda: outcome(op, op, values), tolerances)
    yield "shapes and dtypes", lambda: _types(op, values)
    yield "opcheck", lambda: _opcheck(op, values)
    yield "gradient", lambda: composition_gradient(op, values)
    yield "finite differences", lambda: finite_differences(op, values)
    for target in targets:
        titles = [lowering.title for lowering in op.lowerings if target in lowering.targets]
        for title in dict.fromkeys([*titles, MEANING]):
            yield (
                f"{target}: {title}",
                lambda t=target, n=title: compiled(op, values, t, n, tolerances, machine),
            )


def _types(op: CustomOp, values: list[Any]) -> Outcome:
    """The fake kernel, shape and dtype functions that the author gave."""
    problem = fakes.call_problem(op, *op.schema.split(values))
    return ("WRONG", problem) if problem else ("ok", "")


def _opcheck(op: CustomOp, values: list[Any]) -> Outcome:
    """torch's own tests of custom operators: schema, fake kernel, registration, AOTAutograd."""
    if not repeatable(op, values):
        return "skipped", "it draws random numbers, and opcheck compares one call with another"
    wants_gradient = op.gradient != "none"
    inputs = [
        map_tensors(lambda t: leaf(t, wants_gradient), value) for value in composition.with_copies(op, values)
    ]
    changed = [a.mutated for a in op.schema.arguments]
    # A changed argument that requires a gradient cannot be a leaf, which opcheck's inputs are.
    inputs = [
        map_tensors(Tensor.detach, v) if change else v for v, change in zip(inputs, changed, strict=True)
    ]
    try:
        torch.library.opcheck(op.overload, *op.schema.split(inputs))
    except Exception as error:
        return "WRONG", short(error)
    return "ok", ""

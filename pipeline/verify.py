"""`pipeline verify`: the compiled model against eager PyTorch, output by output.

An output is right when it is within `torch.testing.assert_close`'s default tolerance for its dtype. Deep
float models amplify rounding, in eager too; there an output is also right when its error against an eager
run in float64 is at most twice that of eager itself. Both figures are reported. A tolerance that the user
gives is the only one that counts, for float outputs; others are always compared exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.export import ExportedProgram

from pipeline.runtime import ArgumentError, Executable, structure
from pipeline.runtime.manifest import EntryPoint

from .entry_points import EntrySpec
from .errors import InputError
from .reference import Call, Reference, Run, flat_inputs, seeded

ACCURACY_FACTOR = 2.0
"""How many times eager's own error against float64 the compiled one may have."""

Tolerance = tuple[float, float]
Exact = Callable[[], Any]


@dataclass(frozen=True)
class Comparison:
    """One output compared.

    error: largest absolute difference from eager. rtol, atol: the tolerance that applied.
    compiled_error, eager_error: against eager in float64; None where that was not needed or possible.
    problem: why it is wrong, None when it is right.
    """

    name: str
    error: float
    rtol: float
    atol: float
    compiled_error: float | None = None
    eager_error: float | None = None
    problem: str | None = None

    @property
    def right(self) -> bool:
        """The verdict."""
        return self.problem is None


def verify(
    model: torch.nn.Module | ExportedProgram,
    entries: Mapping[str, EntrySpec],
    executable: Executable,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    calls: int = 2,
) -> list[Comparison]:
    """Calls every entry point in eager and compiled, with its example inputs and its further inputs, and
    compares outputs, updated inputs and state after each call.

    calls: how often each is called where a call can see what the one before left.
    rtol, atol: instead of the dtype's defaults; give both. Raises InputError for only one of them.
    The executable's own state is not touched.
    """
    if (rtol is None) != (atol is None):
        raise InputError("give both rtol and atol, or neither")
    tolerance = (rtol, atol) if rtol is not None and atol is not None else None
    reference = Reference(model)
    executable = executable.new_state()
    found = list(_initial_state(reference, executable))
    for name, spec in entries.items():
        entry = executable.manifest.entry_points[name]
        repeats = calls if executable.manifest.state or entry.mutated_inputs else 1
        prefix = f"{name}: " if len(entries) > 1 else ""
        for label, call in _calls(spec, repeats):
            pairs = _one_call(reference, executable, entry, call)
            found += [compare(prefix + label + pair.name, pair, tolerance) for pair in pairs]
    return found


def _calls(spec: EntrySpec, repeats: int) -> Iterator[tuple[str, Call]]:
    for i in range(repeats):
        yield f"call {i + 1}: " if i else "", Call(spec.method, spec.args, spec.kwargs, seed=i)
    for i, (args, kwargs) in enumerate(spec.further_inputs):
        yield f"further inputs {i + 1}: ", Call(spec.method, args, kwargs)


def _initial_state(reference: Reference, executable: Executable) -> Iterator[Comparison]:
    """Only what differs: the calls show the rest."""
    compiled = executable.state_dict()
    for name, value in reference.state(list(executable.manifest.state)).items():
        pair = Pair(f"initial state {name}", value, compiled[name])
        comparison = compare(pair.name, pair, (0.0, 0.0))
        if not comparison.right:
            yield comparison


@dataclass(frozen=True)
class Pair:
    """An eager value and the compiled one. exact: gives eager's in float64, or None."""

    name: str
    eager: Any
    compiled: Any
    exact: Exact = lambda: None


def _one_call(reference: Reference, executable: Executable, entry: EntryPoint, call: Call) -> list[Pair]:
    """Both run from the same state, so that errors do not add up over calls."""
    names = list(executable.manifest.state)
    before = reference.state(names)
    if names:
        executable.load_state_dict(before)
    eager = reference.run(call, entry, names)
    compiled = _run_compiled(executable, entry, call)
    values, found = _flat(entry, eager), _flat(entry, compiled)
    if values is None or found is None:
        return [Pair("structure", _nesting(entry, eager), _nesting(entry, compiled))]
    exact = cache(lambda: _flat(entry, reference.run_in_float64(call, entry, before)) or {})
    return [Pair(key, value, found[key], lambda key=key: exact().get(key)) for key, value in values.items()]


def _run_compiled(executable: Executable, entry: EntryPoint, call: Call) -> Run:
    args, kwargs = call.fresh_arguments()
    with seeded(call.seed):
        result = executable.entry_point(entry.name)(*args, **kwargs)
    return Run(result, flat_inputs(entry, args, kwargs), executable.state_dict())


def _flat(entry: EntryPoint, run: Run | None) -> dict[str, Any] | None:
    """Every tensor and number the call left, by name; None when the result does not nest as compiled."""
    if run is None:
        return None
    try:
        outputs = structure.flatten(entry.result, run.result, "output")
    except ArgumentError:
        return None
    found = {spec.name: value for spec, value in zip(entry.outputs, outputs, strict=True)}
    for number in entry.mutated_inputs:
        found[f"updated {entry.inputs[number].name}"] = run.inputs[number]
    return found | {f"state {name}": value for name, value in run.state.items()}


def _nesting(entry: EntryPoint, run: Run) -> str:
    try:
        structure.flatten(entry.result, run.result, "output")
    except ArgumentError as error:
        return str(error)
    return "as compiled"


def compare(name: str, pair: Pair, tolerance: Tolerance | None = None) -> Comparison:
    """The verdict on one output. tolerance: (rtol, atol) for floats, instead of the dtype's default."""
    eager, compiled = pair.eager, pair.compiled
    if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
        same = type(eager) is type(compiled) and eager == compiled
        problem = None if same else f"eager gives {eager!r}, compiled {compiled!r}"
        return Comparison(name, 0.0 if same else float("inf"), 0.0, 0.0, problem=problem)
    rtol, atol = _tolerance(eager, compiled, tolerance)
    try:
        torch.testing.assert_close(compiled, eager, rtol=rtol, atol=atol, equal_nan=True)
        problem = None
    except AssertionError as mismatch:
        problem = _gist(mismatch)
    comparison = Comparison(name, largest_difference(eager, compiled), rtol, atol, problem=problem)
    return comparison if problem is None or tolerance else _judge_by_float64(comparison, pair)


def _tolerance(eager: torch.Tensor, compiled: torch.Tensor, given: Tolerance | None) -> Tolerance:
    if given is not None and (eager.is_floating_point() or eager.is_complex()):
        return given
    return torch.testing._comparison.default_tolerances(eager, compiled)


def _judge_by_float64(failed: Comparison, pair: Pair) -> Comparison:
    """A second opinion on a float output that missed its tolerance."""
    eager, compiled = pair.eager, pair.compiled
    if not _same_but_for_rounding(eager, compiled):
        return failed
    exact = pair.exact()
    if not isinstance(exact, torch.Tensor) or exact.dtype not in (torch.float64, torch.complex128):
        return failed
    finite = torch.isfinite(eager)
    exact, eager, compiled = exact[finite], eager[finite], compiled[finite]
    ours, theirs = largest_difference(exact, compiled), largest_difference(exact, eager)
    judged = dataclasses.replace(failed, compiled_error=ours, eager_error=theirs)
    if theirs > _trusted_error(exact, eager.dtype):
        problem = f"{failed.problem}; eager itself is too far from float64 to tell rounding from mistakes"
        return dataclasses.replace(judged, problem=problem)
    return dataclasses.replace(judged, problem=None) if ours <= ACCURACY_FACTOR * theirs else judged


def _same_but_for_rounding(eager: torch.Tensor, compiled: torch.Tensor) -> bool:
    """Floats narrower than float64, of one dtype and shape, with the same infinities and NaNs."""
    if eager.dtype != compiled.dtype or eager.shape != compiled.shape or eager.numel() == 0:
        return False
    if not (eager.is_floating_point() or eager.is_complex()):
        return False
    if eager.dtype in (torch.float64, torch.complex128):
        return False
    special = ~torch.isfinite(eager)
    if not torch.equal(special, ~torch.isfinite(compiled)):
        return False
    return torch.allclose(eager[special], compiled[special], equal_nan=True)


def _trusted_error(exact: torch.Tensor, dtype: torch.dtype) -> float:
    """Eager's own error up to which it measures rounding: half the digits of the dtype.

    Beyond it the model jumps (an argmax, a routing decision) and any result would be within twice of that.
    """
    largest = float(exact.abs().max()) if exact.numel() else 0.0
    return torch.finfo(dtype).eps ** 0.5 * largest


def largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """Over all elements; equal infinities and NaNs in both do not differ. Other shapes: infinite."""
    if a.shape != b.shape:
        return float("inf")
    if a.numel() == 0:
        return 0.0
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    same = (a == b) | (a.isnan() & b.isnan())
    difference = torch.where(same, 0.0, (a - b).abs())
    return float(torch.nan_to_num(difference, nan=float("inf"), posinf=float("inf")).max())


def _gist(error: AssertionError) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[1:3]) if len(lines) > 1 and lines[0].startswith("Tensor-likes") else lines[0]

"""`pipeline verify`: the compiled model against eager PyTorch, output by output.

An output is right when it is within `torch.testing.assert_close`'s default tolerance for its dtype. Deep
float models amplify rounding, in eager too; there an output is also right when its error against an eager
run in float64 is at most twice that of eager itself. Both figures are reported.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from pipeline.runtime import Executable

from .entry_points import EntrySpec
from .errors import InputError

ACCURACY_FACTOR = 2.0
"""How many times eager's own error against float64 the compiled one may have."""


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
    model: torch.nn.Module,
    entries: dict[str, EntrySpec],
    executable: Executable,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    calls: int = 2,
) -> list[Comparison]:
    """Calls every entry point `calls` times in eager and compiled, and compares outputs, updated inputs
    and state after each call.

    rtol, atol: instead of the dtype's defaults; give both. Raises InputError for only one of them.
    """
    if (rtol is None) != (atol is None):
        raise InputError("give both rtol and atol, or neither")
    found: list[Comparison] = []
    eager = _Eager(model)
    has_state = bool(executable.manifest.state)
    for name, spec in entries.items():
        prefix = f"{name}: " if len(entries) > 1 else ""
        for call in range(calls if has_state or executable.manifest.entry_points[name].mutated_inputs else 1):
            label = prefix + (f"call {call + 1}: " if call else "")
            for item in _one_call(eager, spec, executable, name):
                found.append(_compare(label + item.name, item, rtol, atol))
    return found


@dataclass(frozen=True)
class _Pair:
    name: str
    eager: Any
    compiled: Any
    exact: Callable[[], Any]


def _one_call(eager: _Eager, spec: EntrySpec, executable: Executable, name: str) -> Iterator[_Pair]:
    """Both run from the same state, so that errors do not add up over calls."""
    if executable.manifest.state:
        executable.load_state_dict(eager.state(executable.manifest.state))
    ours, theirs, high = (_copy((spec.args, dict(spec.kwargs))) for _ in range(3))
    eager.remember()
    generator = torch.get_rng_state()
    reference = eager.call(spec.method, *theirs)
    # Both draw the same random numbers.
    torch.set_rng_state(generator)
    result = executable.entry_point(name)(*ours[0], **ours[1])
    exact = _Once(lambda: tree_leaves(eager.call_in_float64(spec.method, *high)))
    specs = executable.manifest.entry_points[name].outputs
    pairs = [
        (a, b)
        for a, b in zip(tree_leaves(reference), tree_leaves(result), strict=True)
        if not _is_constant(a)
    ]
    positions = [i for i, leaf in enumerate(tree_leaves(reference)) if not _is_constant(leaf)]
    for output, (a, b), i in zip(specs, pairs, positions, strict=True):
        yield _Pair(output.name, a, b, lambda i=i: exact()[i])
    for number in executable.manifest.entry_points[name].mutated_inputs:
        label = executable.manifest.entry_points[name].inputs[number].name
        yield _Pair(f"updated {label}", _leaf(theirs, number), _leaf(ours, number), lambda: None)
    compiled_state = executable.state_dict()
    for key, value in eager.state(executable.manifest.state).items():
        yield _Pair(f"state {key}", value, compiled_state[key], lambda: None)


class _Once:
    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._value: Any = None

    def __call__(self) -> Any:
        if self._value is None:
            self._value = self._function()
        return self._value


class _Eager:
    """The user's model in eager, with what is needed to run the same call again in float64."""

    def __init__(self, model: torch.nn.Module) -> None:
        # A copy: verifying must not move the user's batch norm statistics.
        self._model = copy.deepcopy(model)
        self._before: dict[str, torch.Tensor] = {}

    def state(self, names: Any) -> dict[str, torch.Tensor]:
        tensors = dict(self._model.named_buffers(remove_duplicate=False))
        tensors.update(self._model.named_parameters(remove_duplicate=False))
        return {name: tensors[name].detach().clone() for name in names}

    def remember(self) -> None:
        """Keeps the buffers as they are before a call."""
        self._before = {name: b.detach().clone() for name, b in self._model.named_buffers()}

    def call(self, method: str, args: Any, kwargs: Any) -> Any:
        with torch.no_grad():
            return getattr(self._model, method)(*args, **kwargs)

    def call_in_float64(self, method: str, args: Any, kwargs: Any) -> Any:
        model = copy.deepcopy(self._model)
        for name, buffer in model.named_buffers():
            if name in self._before:
                buffer.data.copy_(self._before[name])
        model.double()
        args, kwargs = tree_map(_to_double, (args, kwargs))
        with torch.no_grad():
            return getattr(model, method)(*args, **kwargs)


def _to_double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _copy(value: Any) -> Any:
    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)


def _is_constant(value: Any) -> bool:
    return not isinstance(value, torch.Tensor)


def _leaf(arguments: Any, number: int) -> Any:
    return [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)][number]


def _compare(name: str, pair: _Pair, rtol: float | None, atol: float | None) -> Comparison:
    eager, compiled = pair.eager, pair.compiled
    default = torch.testing._comparison.default_tolerances(eager, compiled)
    used_rtol, used_atol = (rtol, atol) if rtol is not None and atol is not None else default
    error = _largest_difference(eager, compiled)
    try:
        torch.testing.assert_close(compiled, eager, rtol=used_rtol, atol=used_atol, equal_nan=True)
    except AssertionError as mismatch:
        return _judge_by_float64(Comparison(name, error, used_rtol, used_atol, problem=_gist(mismatch)), pair)
    return Comparison(name, error, used_rtol, used_atol)


def _judge_by_float64(failed: Comparison, pair: _Pair) -> Comparison:
    """A second opinion on a float output that missed its tolerance."""
    eager, compiled = pair.eager, pair.compiled
    if not eager.is_floating_point() or eager.shape != compiled.shape or eager.dtype != compiled.dtype:
        return failed
    exact = pair.exact()
    if not isinstance(exact, torch.Tensor) or exact.dtype != torch.float64 or eager.dtype == torch.float64:
        return failed
    if not torch.equal(torch.isfinite(eager), torch.isfinite(compiled)):
        return failed
    ours, theirs = _largest_difference(exact, compiled), _largest_difference(exact, eager)
    problem = None if ours <= ACCURACY_FACTOR * theirs else failed.problem
    return Comparison(failed.name, failed.error, failed.rtol, failed.atol, ours, theirs, problem)


def _largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.shape != b.shape or a.numel() == 0:
        return 0.0 if a.shape == b.shape else float("inf")
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    difference = (a.to(wide) - b.to(wide)).abs()
    return float(torch.nan_to_num(difference, nan=0.0).max())


def _gist(error: AssertionError) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[1:3]) if len(lines) > 1 and lines[0].startswith("Tensor-likes") else lines[0]

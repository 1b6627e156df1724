"""`op.check`: the parts of an operator compared with its meaning, on samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from . import call_kinds, composition, fakes
from .call_types import CallTypes
from .composition import Call
from .errors import CheckError, SampleError
from .lowering import MEANING
from .report import Report, Row, Status
from .results import map_tensors, tensors_in
from .symbolic_sizes import describe_call

if TYPE_CHECKING:
    from .declaration import CustomOp


class Unavailable(Exception):
    """Raised by the compiler for a target that this machine cannot run; the message says why."""


class Compiler(Protocol):
    """Compiles `module` for `target` and loads it. lowerings: operator -> title of the lowering that it must get."""

    def __call__(
        self, module: torch.nn.Module, args: tuple[Tensor, ...], target: str, lowerings: Mapping[str, str]
    ) -> Callable[..., Any]: ...


_compiler: Compiler | None = None

_SEED = 20

_LONGEST = 400
"""Characters of another's message that a row shows."""


def set_compiler(compiler: Compiler) -> None:
    """Gives `check` the compiler that it uses: this room may not know it."""
    global _compiler  # noqa: PLW0603
    _compiler = compiler


@dataclass(frozen=True)
class Tolerances:
    """As `torch.testing.assert_close` takes them; None for its defaults."""

    rtol: float | None = None
    atol: float | None = None


def check(
    op: CustomOp, samples: Iterable[Any], targets: Sequence[str], tolerances: Tolerances, *, strict: bool
) -> Report:
    """The report on all samples; see `CustomOp.check`. Raises CheckError, if strict, and SampleError."""
    rows: list[Row] = []
    machine = _Machine()
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


Outcome = tuple[Status, str]


class _Machine:
    """The compiler, which is asked only once for a target that cannot run here."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def load(
        self, module: torch.nn.Module, args: tuple[Tensor, ...], target: str, lowerings: Mapping[str, str]
    ) -> Callable[..., Any]:
        """As `Compiler`. Raises Unavailable."""
        if _compiler is None:
            raise Unavailable("there is no compiler: import pipeline to have one")
        if target in self._reasons:
            raise Unavailable(self._reasons[target])
        try:
            return _compiler(module, args, target, lowerings)
        except Unavailable as error:
            self._reasons[target] = str(error)
            raise


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
    op: CustomOp, values: list[Any], targets: Sequence[str], tolerances: Tolerances, machine: _Machine
) -> Iterator[tuple[str, Callable[[], Outcome]]]:
    """All comparisons for one sample, by what they compare with the meaning."""
    yield "eager", lambda: _compared_results(op, values, lambda: _outcome(op, op, values), tolerances)
    yield "shapes and dtypes", lambda: _types(op, values)
    yield "opcheck", lambda: _opcheck(op, values)
    yield "gradient", lambda: _gradient(op, values)
    yield "finite differences", lambda: _finite_differences(op, values)
    for target in targets:
        titles = [lowering.title for lowering in op.lowerings if target in lowering.targets]
        for title in dict.fromkeys([*titles, MEANING]):
            yield (
                f"{target}: {title}",
                lambda t=target, n=title: _compiled(op, values, t, n, tolerances, machine),
            )


def _truth(op: CustomOp, values: list[Any]) -> list[Tensor]:
    """The tensors of the meaning's results, then those of the changed arguments."""
    return _outcome(op, lambda *args, **kwargs: _results_of_meaning(op, args, kwargs), values)


def _results_of_meaning(op: CustomOp, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return composition.results(op, op.schema.bind(args, kwargs))


def _outcome(op: CustomOp, function: Callable[..., Any], values: list[Any]) -> list[Tensor]:
    """As `_truth`, of a function called like the operator; the sample's tensors stay as they are."""
    copies = composition.with_copies(op, values)
    args, kwargs = op.schema.split(copies)
    with torch.random.fork_rng():
        torch.manual_seed(_SEED)
        results = function(*args, **kwargs)
    return [*tensors_in(results), *composition.mutated_tensors(op, copies)]


def _compared(
    given: Callable[[], Sequence[Tensor]], truth: Callable[[], Sequence[Tensor]], tolerances: Tolerances
) -> Outcome:
    try:
        wanted = truth()
    except Exception as error:
        return "WRONG", f"the operator's function fails: {_short(error)}"
    try:
        _assert_close(given(), wanted, tolerances)
    except Unavailable as error:
        return "skipped", str(error)
    except Exception as error:
        return "WRONG", _short(error)
    return "ok", ""


def _assert_close(given: Sequence[Tensor], wanted: Sequence[Tensor], tolerances: Tolerances) -> None:
    torch.testing.assert_close(
        [tensor.detach() for tensor in given],
        [tensor.detach() for tensor in wanted],
        equal_nan=True,
        rtol=tolerances.rtol,
        atol=tolerances.atol,
    )


def _compared_results(
    op: CustomOp, values: list[Any], given: Callable[[], Sequence[Tensor]], tolerances: Tolerances
) -> Outcome:
    """A run of the operator compared with its meaning.

    In 16 bits the meaning rounds after every operation, which a fused kernel does not: what is as near to the
    meaning's results in float32 is as right.
    """
    found: list[Tensor] = []

    def run() -> list[Tensor]:
        found.extend(given())
        return found

    outcome = _compared(run, lambda: _truth(op, values), tolerances)
    if outcome[0] != "WRONG" or not found or not any(t.dtype in _HALVES for t in tensors_in(values)):
        return outcome
    wider = [map_tensors(lambda t: t.float() if t.dtype in _HALVES else t, value) for value in values]
    try:
        for tensor, truth in zip(found, _truth(op, wider), strict=True):
            near = _twice(tensor.dtype, tolerances) if tensor.dtype in _HALVES else tolerances
            _assert_close([tensor.to(truth.dtype)], [truth], near)
    except Exception:
        return outcome
    return "ok", ""


_HALVES = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}
"""The types of 16 bits, and assert_close's relative tolerance for them."""


def _twice(dtype: torch.dtype, tolerances: Tolerances) -> Tolerances:
    """Twice the tolerances: of a meaning of three operations, eager's own results are one tolerance away from the
    true ones.
    """
    rtol = _HALVES[dtype] if tolerances.rtol is None else tolerances.rtol
    atol = 1e-5 if tolerances.atol is None else tolerances.atol
    return Tolerances(2 * rtol, 2 * atol)


def _short(error: Exception) -> str:
    """An exception's message in one line, with its class unless it is a failed comparison."""
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"


def _types(op: CustomOp, values: list[Any]) -> Outcome:
    """The fake kernel, shape and dtype functions that the author gave."""
    problem = fakes.call_problem(op, *op.schema.split(values))
    return ("WRONG", problem) if problem else ("ok", "")


def _opcheck(op: CustomOp, values: list[Any]) -> Outcome:
    """torch's own tests of custom operators: schema, fake kernel, registration, AOTAutograd."""
    if not _repeatable(op, values):
        return "skipped", "it draws random numbers, and opcheck compares one call with another"
    wants_gradient = op.gradient != "none"
    inputs = [
        map_tensors(lambda t: _leaf(t, wants_gradient), value)
        for value in composition.with_copies(op, values)
    ]
    changed = [a.mutated for a in op.schema.arguments]
    # A changed argument that requires a gradient cannot be a leaf, which opcheck's inputs are.
    inputs = [
        map_tensors(Tensor.detach, v) if change else v for v, change in zip(inputs, changed, strict=True)
    ]
    try:
        torch.library.opcheck(op.overload, *op.schema.split(inputs))
    except Exception as error:
        return "WRONG", _short(error)
    return "ok", ""


def _leaf(tensor: Tensor, requires_grad: bool) -> Tensor:
    differentiable = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().clone().requires_grad_(requires_grad and differentiable)


def _repeatable(op: CustomOp, values: list[Any]) -> bool:
    call, tensors = Call.of(values), tensors_in(values)
    found = op.analyses.of(op, call, tensors, call_kinds.kind(call, tensors))
    return found is None or found.repeatable


def _gradient(op: CustomOp, values: list[Any]) -> Outcome:
    """The gradient in float64 against the composition's."""
    precise, why_not = _differentiable(op, values)
    if why_not:
        return "skipped", why_not
    leaves = [tensor for tensor in tensors_in(precise) if tensor.requires_grad]
    return _compared(
        lambda: _gradients(_outcome(op, op, precise), leaves),
        lambda: _gradients(_truth(op, precise), leaves),
        Tolerances(),
    )


def _finite_differences(op: CustomOp, values: list[Any]) -> Outcome:
    """The gradient in float64 against finite differences of the operator."""
    precise, why_not = _differentiable(op, values)
    if why_not:
        return "skipped", why_not
    tensors = tensors_in(precise)
    leaves = tuple(tensor for tensor in tensors if tensor.requires_grad)

    def floats(outcome: Callable[[list[Any]], list[Tensor]]) -> Callable[..., tuple[Tensor, ...]]:
        def run(*inputs: Tensor) -> tuple[Tensor, ...]:
            rest = iter(inputs)
            filled = Call.of(precise).values(next(rest) if t.requires_grad else t for t in tensors)
            return tuple(tensor for tensor in outcome(filled) if tensor.requires_grad)

        return run

    try:
        torch.autograd.gradcheck(floats(lambda filled: _outcome(op, op, filled)), leaves, fast_mode=True)
    except Exception as error:
        try:
            torch.autograd.gradcheck(floats(lambda filled: _truth(op, filled)), leaves, fast_mode=True)
        except Exception:
            return "skipped", "the operator's function itself fails it: it rounds inside, or has a kink here"
        return "WRONG", _short(error)
    return "ok", ""


def _differentiable(op: CustomOp, values: list[Any]) -> tuple[list[Any], str | None]:
    """The values in float64, requiring gradients, and why they cannot be differentiated."""
    if op.gradient == "none":
        return [], 'it is declared with gradient="none"'
    precise = [map_tensors(lambda t: _leaf(_precise(t), True), value) for value in values]
    if not any(tensor.requires_grad for tensor in tensors_in(precise)):
        return [], "no argument is differentiable"
    try:
        outcome = _truth(op, precise)
    except Exception as error:
        return [], f"the operator's function does not take float64: {_short(error)}"
    return precise, None if any(
        t.requires_grad for t in outcome
    ) else "no result depends on an argument smoothly"


def _precise(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def _gradients(outcome: Sequence[Tensor], leaves: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of a fixed weighting of all results; zeros where there is none."""
    outputs = [tensor for tensor in outcome if tensor.requires_grad]
    generator = torch.Generator().manual_seed(_SEED)
    weights = [torch.randn(t.shape, dtype=t.dtype, generator=generator).to(t.device) for t in outputs]
    found = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, found, strict=True)
    ]


class _OneCall(torch.nn.Module):
    """A program that is one call of an operator; its tensors are the arguments, the rest are constants."""

    def __init__(self, op: CustomOp, call: Call) -> None:
        super().__init__()
        self._op, self._call = op, call

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        copies = composition.with_copies(self._op, self._call.values(tensors))
        args, kwargs = self._op.schema.split(copies)
        results = self._op(*args, **kwargs)
        return (*tensors_in(results), *composition.mutated_tensors(self._op, copies))


def _compiled(
    op: CustomOp, values: list[Any], target: str, title: str, tolerances: Tolerances, machine: _Machine
) -> Outcome:
    """A lowering of the operator, compiled for a target and run."""
    if not _repeatable(op, values):
        return "skipped", "it draws random numbers, which a compiled program draws in another order"
    refusal = _refusal(op, values, target, title)
    if refusal is not None:
        return "skipped", f"it does not take this call: {refusal}"
    tensors = tuple(tensor.detach() for tensor in tensors_in(values))

    def run() -> list[Tensor]:
        with torch.no_grad():
            loaded = machine.load(_OneCall(op, Call.of(values)), tensors, target, {op.name: title})
            return tensors_in(loaded(*(tensor.clone() for tensor in tensors)))

    return _compared_results(op, values, run, tolerances)


def _refusal(op: CustomOp, values: list[Any], target: str, title: str) -> str | None:
    """Why the lowerings of this title do not take the call; None if one does."""
    named = [lowering for lowering in op.lowerings if lowering.title == title and target in lowering.targets]
    if not named:
        return None
    reasons = [lowering.refuses(call_types(op, values)) for lowering in named]
    return None if None in reasons else "; ".join(reasons)


def call_types(op: CustomOp, values: list[Any]) -> CallTypes:
    """A call as its lowerings see it."""
    outcome = _truth(op, values)
    results = outcome[: len(outcome) - len(composition.mutated_tensors(op, values))]
    return describe_call(op.schema.named(values, {}), results)

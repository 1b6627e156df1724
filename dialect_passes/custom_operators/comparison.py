"""What is right for a call, which the meaning says, and how anything else is compared with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import call_kinds, composition
from .composition import Call
from .errors import Unavailable
from .report import Status
from .results import map_tensors, tensors_in

if TYPE_CHECKING:
    from .declaration import CustomOp

Outcome = tuple[Status, str]
"""How a comparison went, and why."""

SEED = 20
"""Of the random numbers that a meaning draws."""

_LONGEST = 400
"""Characters of another's message that a row shows."""

_HALVES = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2}
"""The types of 16 bits, and assert_close's relative tolerance for them."""


@dataclass(frozen=True)
class Tolerances:
    """As `torch.testing.assert_close` takes them; None for its defaults."""

    rtol: float | None = None
    atol: float | None = None


def truth(op: CustomOp, values: list[Any]) -> list[Tensor]:
    """The tensors of the meaning's results, then those of the changed arguments."""
    return outcome(op, composition.eager_kernel(op, op.meaning), values)


def outcome(op: CustomOp, function: Callable[..., Any], values: list[Any]) -> list[Tensor]:
    """As `truth`, of a function called like the operator; the sample's tensors stay as they are."""
    copies = composition.with_copies(op, values)
    args, kwargs = op.schema.split(copies)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        results = function(*args, **kwargs)
    return [*tensors_in(results), *composition.mutated_tensors(op, copies)]


def leaf(tensor: Tensor, requires_grad: bool) -> Tensor:
    """A copy outside any graph, which requires a gradient if it can and is meant to."""
    differentiable = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().clone().requires_grad_(requires_grad and differentiable)


def repeatable(op: CustomOp, values: list[Any]) -> bool:
    """Whether a second call computes the same."""
    call, tensors = Call.of(values), tensors_in(values)
    found = op.analyses.of(op, call, tensors, call_kinds.kind(call, tensors))
    return found is None or found.repeatable


def compared(
    given: Callable[[], Sequence[Tensor]], meant: Callable[[], Sequence[Tensor]], tolerances: Tolerances
) -> Outcome:
    """What is given compared with what is meant; skipped where it cannot be had here."""
    try:
        wanted = meant()
    except Exception as error:
        return "WRONG", f"the operator's function fails: {short(error)}"
    try:
        _assert_close(given(), wanted, tolerances)
    except Unavailable as error:
        return "skipped", str(error)
    except Exception as error:
        return "WRONG", short(error)
    return "ok", ""


def _assert_close(given: Sequence[Tensor], wanted: Sequence[Tensor], tolerances: Tolerances) -> None:
    torch.testing.assert_close(
        [tensor.detach() for tensor in given],
        [tensor.detach() for tensor in wanted],
        equal_nan=True,
        rtol=tolerances.rtol,
        atol=tolerances.atol,
    )


def compared_results(
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

    verdict = compared(run, lambda: truth(op, values), tolerances)
    if verdict[0] != "WRONG" or not found or not any(t.dtype in _HALVES for t in tensors_in(values)):
        return verdict
    wider = [map_tensors(lambda t: t.float() if t.dtype in _HALVES else t, value) for value in values]
    try:
        for tensor, wanted in zip(found, truth(op, wider), strict=True):
            near = _twice(tensor.dtype, tolerances) if tensor.dtype in _HALVES else tolerances
            _assert_close([tensor.to(wanted.dtype)], [wanted], near)
    except Exception:
        return verdict
    return "ok", ""


def _twice(dtype: torch.dtype, tolerances: Tolerances) -> Tolerances:
    """Twice the tolerances: of a meaning of three operations, eager's own results are one tolerance away from the
    true ones.
    """
    rtol = _HALVES[dtype] if tolerances.rtol is None else tolerances.rtol
    atol = 1e-5 if tolerances.atol is None else tolerances.atol
    return Tolerances(2 * rtol, 2 * atol)


def short(error: Exception) -> str:
    """An exception's message in one line, with its class unless it is a failed comparison."""
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"

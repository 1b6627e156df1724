"""The gradient of an operator in float64, compared with its composition's and with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .comparison import SEED, Outcome, Tolerances, compared, leaf, outcome, short, truth
from .composition import Call
from .results import map_tensors, tensors_in

if TYPE_CHECKING:
    from .declaration import CustomOp


def composition_gradient(op: CustomOp, values: list[Any]) -> Outcome:
    """The gradient in float64 against the composition's."""
    precise, why_not = _differentiable(op, values)
    if why_not:
        return "skipped", why_not
    leaves = [tensor for tensor in tensors_in(precise) if tensor.requires_grad]
    return compared(
        lambda: _gradients(outcome(op, op, precise), leaves),
        lambda: _gradients(truth(op, precise), leaves),
        Tolerances(),
    )


def finite_differences(op: CustomOp, values: list[Any]) -> Outcome:
    """The gradient in float64 against finite differences of the operator."""
    precise, why_not = _differentiable(op, values)
    if why_not:
        return "skipped", why_not
    tensors = tensors_in(precise)
    leaves = tuple(tensor for tensor in tensors if tensor.requires_grad)

    def floats(call: Callable[[list[Any]], list[Tensor]]) -> Callable[..., tuple[Tensor, ...]]:
        def run(*inputs: Tensor) -> tuple[Tensor, ...]:
            rest = iter(inputs)
            filled = Call.of(precise).values(next(rest) if t.requires_grad else t for t in tensors)
            return tuple(tensor for tensor in call(filled) if tensor.requires_grad)

        return run

    try:
        torch.autograd.gradcheck(floats(lambda filled: outcome(op, op, filled)), leaves, fast_mode=True)
    except Exception as error:
        try:
            torch.autograd.gradcheck(floats(lambda filled: truth(op, filled)), leaves, fast_mode=True)
        except Exception:
            return "skipped", "the operator's function itself fails it: it rounds inside, or has a kink here"
        return "WRONG", short(error)
    return "ok", ""


def _differentiable(op: CustomOp, values: list[Any]) -> tuple[list[Any], str | None]:
    """The values in float64, requiring gradients, and why they cannot be differentiated."""
    if op.gradient == "none":
        return [], 'it is declared with gradient="none"'
    precise = [map_tensors(lambda t: leaf(_precise(t), True), value) for value in values]
    if not any(tensor.requires_grad for tensor in tensors_in(precise)):
        return [], "no argument is differentiable"
    try:
        outcome = truth(op, precise)
    except Exception as error:
        return [], f"the operator's function does not take float64: {short(error)}"
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
    generator = torch.Generator().manual_seed(SEED)
    weights = [torch.randn(t.shape, dtype=t.dtype, generator=generator).to(t.device) for t in outputs]
    found = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, found, strict=True)
    ]

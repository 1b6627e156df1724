"""A case made ready: what to compile, with which arguments, and what eager PyTorch gives for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import judge
from .cases import Case, operators, quiet, samples, seeded
from .programs import OperatorModule, cotangents, fresh, gradient_program, gradients, strided

_LARGEST = 1_000_000
"""Elements; larger samples take minutes and show nothing new."""


@dataclass(frozen=True)
class Outcome:
    """A case's end. status: one of `judge`'s."""

    status: str
    message: str = ""


@dataclass(frozen=True)
class Run:
    """program: takes `arguments`. expected: eager's flat results, or the text of what eager raises.

    again: eager for other arguments.
    """

    case: Case
    program: torch.nn.Module
    arguments: list[Any]
    expected: list[Any] | str
    again: Callable[..., Sequence[Any]]

    def in_float64(self) -> Sequence[Any]:
        """Eager's results from the same values in float64; no results where it cannot compute them so."""
        # Widening may make a tensor contiguous, and some operators' results depend on strides.
        arrange = strided if self.case.layout == "strided" else fresh
        try:
            with quiet(), seeded():
                return self.again(*(arrange(_wide(argument)) for argument in self.arguments))
        except Exception:
            return [None] * len(self.expected)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def prepare(case: Case) -> Run | Outcome:
    """The run of a case, or how it ended before anything was compiled."""
    try:
        sample = samples(case.operator, case.dtype, case.kind)[case.sample]
    except Exception as error:
        return Outcome(judge.EAGER, f"the samples: {type(error).__name__}: {error}")
    factors = case.kind == "forward" and judge.reconstructs(case.operator) is not None
    module = OperatorModule(operators()[case.operator].op, sample, raw=factors)
    if any(tensor.layout is not torch.strided for tensor in module.tensors):
        return Outcome(judge.SKIPPED, "the sample is sparse")
    if sum(tensor.numel() for tensor in module.tensors) > _LARGEST:
        return Outcome(judge.SKIPPED, f"the sample has more than {_LARGEST} elements")
    if case.dynamic and all(size < 2 for tensor in module.tensors for size in tensor.shape):
        return Outcome(judge.SKIPPED, "the sample has no size to open")
    return _KINDS[case.kind](case, module)


def _forward(case: Case, module: OperatorModule) -> Run | Outcome:
    arrange = strided if case.layout == "strided" else fresh
    try:
        with seeded(), torch.no_grad():
            expected = list(module(*map(arrange, module.tensors)))
    except Exception as error:
        return Outcome(judge.EAGER, f"{type(error).__name__}: {error}")
    return Run(case, module, list(map(arrange, module.tensors)), expected, module)


def _backward(case: Case, module: OperatorModule) -> Run | Outcome:
    try:
        with seeded():
            traced = gradient_program(module, module.tensors)
    except Exception as error:
        return _untraceable(module, error)
    if traced is None:
        return Outcome(judge.SKIPPED, "no result depends on a differentiable argument")
    return _differentiated(case, module, *traced)


def _just_in_time(case: Case, module: OperatorModule) -> Run | Outcome:
    try:
        with seeded():
            given = cotangents(module, module.tensors)
    except Exception as error:
        return Outcome(judge.EAGER, f"{type(error).__name__}: {error}")
    if not given:
        return Outcome(judge.SKIPPED, "no result depends on a differentiable argument")
    return _differentiated(case, module, module, given)


def _differentiated(
    case: Case, module: OperatorModule, program: torch.nn.Module, given: list[torch.Tensor]
) -> Run:
    """given: the cotangents. again: with `called`, through that in place of the module."""
    count = len(module.tensors)

    def again(*values: torch.Tensor, called: Callable[..., Any] | None = None) -> list[torch.Tensor]:
        return gradients(module, list(values[:count]), list(values[count:]), called)

    arguments = [*map(fresh, module.tensors), *given]
    with seeded():
        expected = again(*arguments)
    return Run(case, program, arguments, expected, again)


def _untraceable(module: OperatorModule, error: Exception) -> Outcome:
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


def _refused(case: Case, module: OperatorModule) -> Run | Outcome:
    """An error input: whatever eager refuses must not compile and run."""
    try:
        with seeded(), torch.no_grad():
            module(*map(fresh, module.tensors))
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
        return Run(case, module, list(map(fresh, module.tensors)), raised, module)
    return Outcome(judge.SKIPPED, "eager takes it")


_KINDS = {"forward": _forward, "backward": _backward, "just-in-time": _just_in_time, "errors": _refused}

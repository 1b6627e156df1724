"""A case compiled and run, judged by eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

import pipeline
from pipeline.runtime.errors import RuntimeRoomError

from . import programs, transforms
from .cases import AHEAD, JUST_IN_TIME, Case

CASES: dict[str, Case] = {**transforms.CASES, **programs.CASES}

RIGHT, IN_EAGER, REFUSED = "right", "right, partly in eager", "refused"
OF_PYTORCH = "wrong or failing in PyTorch's own backend too"
WRONG, FAILED = "wrong", "failed"
BAD = (WRONG, FAILED)


@dataclass(frozen=True)
class Verdict:
    """status: right; right with operators left to eager; refused in words of ours; wrong; failed in another way.

    What is wrong or fails in `torch.compile` with PyTorch's backend "aot_eager" too says nothing of ours.
    """

    status: str
    message: str = ""


@dataclass(frozen=True)
class _Effects:
    """What a call did: its results, its arguments afterwards, and the arguments' gradients."""

    results: Any
    arguments: Any
    gradients: Any = None


def judge(case: Case, way: str) -> Verdict:
    """Compiles the case in one of `WAYS` and compares each call with eager's. Raises nothing."""
    pipeline.counters(reset=True)
    found = _tried(case, way)
    if found.status in BAD and way == JUST_IN_TIME and _tried(case, way, "aot_eager").status in BAD:
        return Verdict(OF_PYTORCH, found.message)
    return found


def _tried(case: Case, way: str, backend: str = "pipeline") -> Verdict:
    torch._dynamo.reset()
    try:
        compiled = _compiled(case, way, backend)
        for args in (case.args, *case.others):
            _compare(_call(compiled, case, args, way), _call(case.function, case, args, way))
    except AssertionError as error:
        return Verdict(WRONG, str(error))
    except Exception as error:
        refusal = _refusal(error)
        return Verdict(REFUSED if refusal else FAILED, refusal or f"{type(error).__name__}: {error}")
    counters = pipeline.counters()
    if counters.failures or counters.eager:
        return Verdict(IN_EAGER, ", ".join([*counters.eager, *counters.failures]))
    return Verdict(RIGHT)


def _compiled(case: Case, way: str, backend: str) -> Callable[..., Any]:
    if way == AHEAD:
        return pipeline.compile(case.function, args=_copies(case.args), dynamic_shapes=case.dynamic_shapes)
    return torch.compile(case.function, backend=backend)


def _refusal(error: BaseException | None) -> str:
    """What ours says in the error, or in one that Dynamo's was raised from; empty where it is no refusal."""
    while error is not None:
        if isinstance(error, (pipeline.UnsupportedError, pipeline.InputError, RuntimeRoomError)):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


def _copies(args: Sequence[Any]) -> tuple[Any, ...]:
    return tree_map_only(torch.Tensor, _copy, tuple(args))


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """In the same order in memory, and expanded in the same dimensions."""
    whole = tensor[tuple(slice(0, 1) if step == 0 else slice(None) for step in tensor.stride())]
    copy = torch.empty_strided(whole.shape, whole.stride(), dtype=tensor.dtype).copy_(whole)
    return copy if whole.shape == tensor.shape else copy.expand(tensor.shape)


def _call(function: Callable[..., Any], case: Case, args: tuple[Any, ...], way: str) -> _Effects:
    copies = _copies(args)
    torch.manual_seed(0)
    if way == AHEAD or not case.backward:
        with torch.no_grad():
            return _Effects(function(*copies), copies)
    sources = [leaf.requires_grad_() for leaf in tree_leaves(copies) if _is_float(leaf)]
    results = function(*copies)
    outputs = [leaf for leaf in tree_leaves(results) if _is_float(leaf) and leaf.requires_grad]
    weights = [torch.linspace(1, 2, leaf.numel()).reshape(leaf.shape).to(leaf.dtype) for leaf in outputs]
    return _Effects(results, copies, torch.autograd.grad(outputs, sources, weights, allow_unused=True))


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


def _compare(found: _Effects, expected: _Effects) -> None:
    """At default tolerances. Raises AssertionError."""
    for what in ("results", "arguments", "gradients"):
        ours, structure = tree_flatten(getattr(found, what))
        eager, wanted = tree_flatten(getattr(expected, what))
        assert structure == wanted, f"{what}: {structure}, eager has {wanted}"
        for place, (one, other) in enumerate(zip(ours, eager, strict=True)):
            torch.testing.assert_close(
                one, other, equal_nan=True, msg=lambda text, w=what, k=place: f"{w}, number {k}: {text}"
            )

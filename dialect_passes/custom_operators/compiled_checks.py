"""The lowerings of an operator, compiled for a target, run, and compared with its meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from . import composition
from .call_types import CallTypes
from .comparison import Outcome, Tolerances, compared_results, repeatable, truth
from .composition import Call
from .errors import Unavailable
from .results import tensors_in
from .symbolic_sizes import describe_call

if TYPE_CHECKING:
    from .declaration import CustomOp


class Compiler(Protocol):
    """Compiles `module` for `target` and loads it. lowerings: operator -> title of the lowering that it must get."""

    def __call__(
        self, module: torch.nn.Module, args: tuple[Tensor, ...], target: str, lowerings: Mapping[str, str]
    ) -> Callable[..., Any]: ...


_compiler: Compiler | None = None


def set_compiler(compiler: Compiler) -> None:
    """Gives `check` the compiler that it uses: this room may not know it."""
    global _compiler  # noqa: PLW0603
    _compiler = compiler


class Machine:
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


def compiled(
    op: CustomOp, values: list[Any], target: str, title: str, tolerances: Tolerances, machine: Machine
) -> Outcome:
    """A lowering of the operator, compiled for a target and run."""
    if not repeatable(op, values):
        return "skipped", "it draws random numbers, which a compiled program draws in another order"
    refusal = _refusal(op, values, target, title)
    if refusal is not None:
        return "skipped", f"it does not take this call: {refusal}"
    tensors = tuple(tensor.detach() for tensor in tensors_in(values))

    def run() -> list[Tensor]:
        with torch.no_grad():
            loaded = machine.load(_OneCall(op, Call.of(values)), tensors, target, {op.name: title})
            return tensors_in(loaded(*(tensor.clone() for tensor in tensors)))

    return compared_results(op, values, run, tolerances)


def _refusal(op: CustomOp, values: list[Any], target: str, title: str) -> str | None:
    """Why the lowerings of this title do not take the call; None if one does."""
    named = [lowering for lowering in op.lowerings if lowering.title == title and target in lowering.targets]
    if not named:
        return None
    reasons = [lowering.refuses(call_types(op, values)) for lowering in named]
    return None if None in reasons else "; ".join(reasons)


def call_types(op: CustomOp, values: list[Any]) -> CallTypes:
    """A call as its lowerings see it."""
    outcome = truth(op, values)
    results = outcome[: len(outcome) - len(composition.mutated_tensors(op, values))]
    return describe_call(op.schema.named(values, {}), results)

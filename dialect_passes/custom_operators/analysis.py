"""What autograd must know of a call before it runs: which results depend on what is differentiated, and whether the
meaning may be run a second time.

Found by running the meaning once on fake tensors (shapes and dtypes only), per distinct kind of call: in a thread of
its own, whose autograd is in its plain state, whatever torch.func, tracing or fake modes surround the call.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import composition
from .call_kinds import Kind, PerKind, facts, plain_size

if TYPE_CHECKING:
    from .composition import Call
    from .declaration import CustomOp

_T = TypeVar("_T")

_KEPT = 512
"""How many kinds of calls are remembered per operator."""


@dataclass(frozen=True)
class Analysis:
    """differentiable: of each tensor among the results and then of each changed argument, whether it depends on an
    argument that requires a gradient. repeatable: whether a second run computes the same.
    """

    differentiable: tuple[bool, ...]
    repeatable: bool


class Analyses:
    """An operator's analyses by kind of call."""

    def __init__(self) -> None:
        self._known: PerKind[Analysis | None] = PerKind(_KEPT)

    def of(self, op: CustomOp, call: Call, tensors: Sequence[Tensor], kind: Kind) -> Analysis | None:
        """The analysis of a call of this kind; None where shapes and dtypes do not suffice to run the meaning."""
        return self._known.of(
            kind, lambda: on_fake_tensors(call, tensors, lambda values: _analyse(op, values))
        )


def on_fake_tensors(call: Call, tensors: Sequence[Tensor], run: Callable[[list[Any]], _T]) -> _T:
    """`run` with a call's values, its tensors fake ones of plain sizes.

    In a thread of its own, whose autograd and modes are in their plain state.
    """
    known = [facts(tensor) for tensor in tensors]

    def start() -> _T:
        with FakeTensorMode(), torch.enable_grad(), _quiet():
            fakes = [
                torch.empty(shape, dtype=dtype, device=device, requires_grad=requires_grad)
                for shape, dtype, device, requires_grad in known
            ]
            return run(_plain(call.values(fakes)))

    with ThreadPoolExecutor(1) as alone:
        return alone.submit(start).result()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps torch from logging what a meaning does not take: the call itself raises that, or its caller says it."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = disabled


class _NotesRandomness(TorchDispatchMode):
    """Notes whether an operation drew random numbers."""

    drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drew |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **kwargs or {})


def _analyse(op: CustomOp, values: list[Any]) -> Analysis | None:
    try:
        with _NotesRandomness() as randomness:
            outcome = composition.functional(op, values)
    except Exception:
        # Whatever the meaning cannot do without data, or refuses of these arguments: the call itself will tell.
        return None
    return Analysis(tuple(tensor.requires_grad for tensor in outcome), not randomness.drew)


def _plain(value: Any) -> Any:
    """Symbolic numbers of a trace as plain ones."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return plain_size(value) if isinstance(value, torch.SymInt) else value

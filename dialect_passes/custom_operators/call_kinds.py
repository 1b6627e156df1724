"""Kinds of calls: what autograd must know is found out once for all calls of a kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .composition import Call

_T = TypeVar("_T")

_ANY_SIZE = 4
"""What a size that only the run decides counts as."""

Facts = tuple[tuple[int, ...], torch.dtype, torch.device, bool]
"""A tensor's shape, dtype, device and whether it requires a gradient."""

Kind = tuple[tuple[Facts, ...], str]
"""What tells kinds of calls apart: the facts of the tensors, and the other arguments."""


def kind(call: Call, tensors: Sequence[Tensor]) -> Kind:
    """The kind of a call."""
    return tuple(facts(tensor) for tensor in tensors), repr(call.template)


def facts(tensor: Tensor) -> Facts:
    """What a kind of call says of a tensor."""
    return tuple(map(plain_size, tensor.shape)), tensor.dtype, tensor.device, tensor.requires_grad


def plain_size(size: Any) -> int:
    """A size as a number, without a guard on it."""
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return hint if isinstance(hint, int) else _ANY_SIZE


class PerKind(Generic[_T]):
    """What was found out, by kind of call; the oldest is given up. At worst two threads find out the same."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Kind, _T] = OrderedDict()

    def of(self, kind: Kind, find_out: Callable[[], _T]) -> _T:
        """What is known of this kind, else what `find_out` finds."""
        if kind not in self._known:
            found = find_out()
            while len(self._known) >= self._most:
                self._known.popitem(last=False)
            self._known[kind] = found
        return self._known[kind]

"""Running an operator's meaning, and what is known of a call apart from its tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .results import checked, map_tensors, owned, packed, tensors_in

if TYPE_CHECKING:
    from .declaration import CustomOp


class _Slot:
    """Where a tensor belongs among a call's values."""

    def __repr__(self) -> str:
        return "<tensor>"


_SLOT = _Slot()


@dataclass(frozen=True)
class Call:
    """What a call says besides its tensors: every argument's value in order, with slots for the tensors."""

    template: list[Any]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Call:
        return cls([with_slots(value) for value in values])

    def values(self, tensors: Iterable[Any]) -> list[Any]:
        """The arguments' values, with these tensors in the slots."""
        return filled(self.template, tensors)


def with_slots(value: Any) -> Any:
    """The value with a slot in the place of every tensor; tuples become lists."""
    if isinstance(value, Tensor):
        return _SLOT
    return [with_slots(item) for item in value] if isinstance(value, (list, tuple)) else value


def filled(value: Any, tensors: Iterable[Any]) -> Any:
    """The value with the tensors in its slots, in order."""
    return _filled(value, iter(tensors))


def _filled(value: Any, tensors: Iterator[Any]) -> Any:
    if value is _SLOT:
        return next(tensors)
    return [_filled(item, tensors) for item in value] if isinstance(value, list) else value


def eager_kernel(op: CustomOp, function: Callable[..., Any]) -> Callable[..., Any]:
    """The meaning, or an author's own implementation for some device, as what the dispatcher calls."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        values = op.schema.bind(args, kwargs)
        return packed(op.schema, owned(returned(op, function, values), values))

    return kernel


def results(op: CustomOp, values: Sequence[Any]) -> list[Any]:
    """The meaning's results for the arguments' values, contiguous and in memory of their own.

    Arguments named in mutates_args are changed. Raises MeaningError where the results are not as declared.
    """
    return owned(returned(op, op.meaning, values), values)


def returned(op: CustomOp, function: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
    """What a function with the operator's arguments returns for these. Raises MeaningError."""
    args, kwargs = op.schema.split(values)
    with own_precision(values):
        return checked(op.name, op.schema, function(*args, **kwargs))


def own_precision(values: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
    """torch.autocast switched off: an operator computes in its arguments' types, as its kernels do.

    Else eager, whose autocast reaches into the meaning, would differ from every compiled form, which it does not.
    """
    device = next((tensor.device.type for tensor in tensors_in(values)), "cpu")
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return contextlib.nullcontext()


def functional(op: CustomOp, values: Sequence[Any]) -> list[Tensor]:
    """The tensors of the meaning's results, then the new values of the arguments that it changes, all flat.

    The arguments themselves stay as they are.
    """
    copies = with_copies(op, values)
    outcome = results(op, copies)
    return [*tensors_in(outcome), *mutated_tensors(op, copies)]


def with_copies(op: CustomOp, values: Sequence[Any]) -> list[Any]:
    """The values, with copies of the tensors that a call changes."""
    if not op.schema.mutated:
        return list(values)
    pairs = zip(op.schema.arguments, values, strict=True)
    return [map_tensors(torch.clone, value) if argument.mutated else value for argument, value in pairs]


def mutated_tensors(op: CustomOp, values: Sequence[Any]) -> list[Tensor]:
    """The tensors among the values that a call changes."""
    if not op.schema.mutated:
        return []
    pairs = zip(op.schema.arguments, values, strict=True)
    return tensors_in([value for argument, value in pairs if argument.mutated])

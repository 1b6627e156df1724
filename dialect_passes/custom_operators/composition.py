"""Running an operator's meaning, and what is known of a call apart from its tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .results import checked, owned, tensors_in

if TYPE_CHECKING:
    from .declaration import CustomOp


class _Slot:
    """Where a tensor belongs among a call's values."""

    def __repr__(self) -> str:
        return "<tensor>"


_SLOT = _Slot()


@dataclass(frozen=True)
class Autocast:
    """The state of torch.autocast on one device type, kept so that backward computes what forward did."""

    device: str
    enabled: bool
    dtype: torch.dtype

    @classmethod
    def now(cls, device: str) -> Autocast | None:
        """The present state; None for devices without autocast."""
        if not torch.amp.is_autocast_available(device):
            return None
        return cls(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))


@dataclass(frozen=True)
class Call:
    """What a call says besides its tensors: every argument's value in order, with slots for the tensors."""

    template: list[Any]
    autocast: Autocast | None

    @classmethod
    def of(cls, values: Sequence[Any], tensors: Sequence[Tensor]) -> Call:
        device = tensors[0].device.type if tensors else "cpu"
        return cls([with_slots(value) for value in values], Autocast.now(device))

    def values(self, tensors: Iterable[Tensor]) -> list[Any]:
        """The arguments' values, with these tensors in the slots."""
        return filled(self.template, tensors)

    def same_precision(self) -> contextlib.AbstractContextManager[Any]:
        """torch.autocast as it was when the call was made."""
        if self.autocast is None or self.autocast == Autocast.now(self.autocast.device):
            return contextlib.nullcontext()
        return torch.autocast(self.autocast.device, self.autocast.dtype, self.autocast.enabled)


def with_slots(value: Any) -> Any:
    """The value with a slot in the place of every tensor; tuples become lists."""
    if isinstance(value, Tensor):
        return _SLOT
    return [with_slots(item) for item in value] if isinstance(value, (list, tuple)) else value


def filled(value: Any, tensors: Iterable[Tensor]) -> Any:
    """The value with the tensors in its slots, in order."""
    return _filled(value, iter(tensors))


def _filled(value: Any, tensors: Iterator[Tensor]) -> Any:
    if value is _SLOT:
        return next(tensors)
    return [_filled(item, tensors) for item in value] if isinstance(value, list) else value


def results(op: CustomOp, values: Sequence[Any]) -> list[Any]:
    """The meaning's results for the arguments' values, as declared; views stay views.

    Arguments named in mutates_args are changed. Raises MeaningError.
    """
    args, kwargs = op.schema.split(values)
    return checked(op.name, op.schema, op.meaning(*args, **kwargs))


def owned_results(op: CustomOp, values: Sequence[Any]) -> list[Any]:
    """`results`, contiguous and in memory of their own."""
    return owned(results(op, values), list(values))


def functional(op: CustomOp, values: Sequence[Any]) -> list[Tensor]:
    """The tensors of the meaning's results, then the new values of the arguments that it changes, all flat.

    The arguments themselves stay as they are.
    """
    copies = [
        _copied(value) if argument.mutated else value
        for argument, value in zip(op.schema.arguments, values, strict=True)
    ]
    outcome = owned_results(op, copies)
    return [*tensors_in(outcome), *mutated_tensors(op, copies)]


def mutated_tensors(op: CustomOp, values: Sequence[Any]) -> list[Tensor]:
    """The tensors among the values that a call changes."""
    pairs = zip(op.schema.arguments, values, strict=True)
    return list(tensors_in([value for argument, value in pairs if argument.mutated]))


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return [_copied(item) for item in value] if isinstance(value, (list, tuple)) else value

"""Shapes and dtypes of results: from the meaning, or from what the author gives, checked against the meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import composition
from .errors import DeclarationError
from .results import blank, checked, packed

if TYPE_CHECKING:
    from .declaration import CustomOp


def fake_kernel(op: CustomOp) -> Callable[..., Any]:
    """The fake kernel: the one given, or the meaning on fake tensors; its results are new and contiguous."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        values = op.schema.bind(args, kwargs)
        return packed(op.schema, blank(_results(op, op.given_fake or op.meaning, values)))

    return kernel


def _results(op: CustomOp, function: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
    """What `function` gives back, called with copies of the arguments that the operator changes."""
    args, kwargs = op.schema.split(composition.with_copies(op, values))
    with composition.own_precision(values):
        return checked(op.name, op.schema, function(*args, **kwargs))


def check_fake(op: CustomOp, function: Callable[..., Any]) -> None:
    """Raises DeclarationError where a fake kernel does not take the operator's arguments."""
    wanted = [argument.name for argument in op.schema.arguments]
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return
    if [parameter.name for parameter in parameters] != wanted:
        raise DeclarationError(
            f"{op.name}: the fake kernel {function.__name__}{inspect.signature(function)} must take the operator's "
            f"arguments: ({', '.join(wanted)})"
        )

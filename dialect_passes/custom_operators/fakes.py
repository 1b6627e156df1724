"""Shapes and dtypes of results: from the meaning, or from what the author gives, checked against the meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from . import analysis, composition, library_functions
from .composition import Call
from .declared import place
from .errors import MeaningError
from .fingerprint import tell_caches
from .results import blank, map_tensors, packed, tensors_in

if TYPE_CHECKING:
    from .declaration import CustomOp


def fake_kernel(op: CustomOp) -> Callable[..., Any]:
    """The fake kernel: the one given, or the meaning on fake tensors; its results are new and contiguous."""

    told = False

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal told
        if not told:
            # A compiler that looks into its caches has traced the call before.
            tell_caches(op)
            told = True
        values = op.schema.bind(args, kwargs)
        return packed(op.schema, blank(_results(op, op.given_fake or op.meaning, values)))

    return kernel


def _results(op: CustomOp, function: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
    """What `function` gives back, called with copies of the arguments that the operator changes."""
    return composition.returned(op, function, composition.with_copies(op, values))


def call_problem(op: CustomOp, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Where what the author gave (fake kernel, shape and dtype function) contradicts the meaning for this call.

    None where all agree, and where the meaning itself refuses the arguments. Symbolic sizes count with their hints.
    """
    if op.given_fake is None and not op.library_functions:
        return None
    values = op.schema.bind(args, kwargs)
    tensors = tensors_in(values)
    return analysis.on_fake_tensors(Call.of(values), tensors, lambda plain: _problem(op, plain))


def _problem(op: CustomOp, values: list[Any]) -> str | None:
    try:
        truth = _results(op, op.meaning, values)
    except Exception:
        return None  # The call itself will raise that.
    found = _fake_problem(op, truth, values) if op.given_fake else None
    for kind, function in op.library_functions.items():
        found = found or _function_problem(op, kind, function, truth, values)
    return found


def _fake_problem(op: CustomOp, truth: list[Any], values: list[Any]) -> str | None:
    assert op.given_fake is not None
    what = f"{op.name}: its fake kernel ({place(op.given_fake)})"
    try:
        results = _results(op, op.given_fake, values)
    except MeaningError as error:
        return str(error).replace("its function", f"its fake kernel ({place(op.given_fake)})")
    except Exception as error:
        return f"{what} fails for {_described(op, values)}: {type(error).__name__}: {error}"
    given, wanted = _types(results), _types(truth)
    if given == wanted:
        return None
    return f"{what} gives {_listed(given)} and the operator's function {_listed(wanted)} for {_described(op, values)}"


def _function_problem(
    op: CustomOp, kind: Any, function: Any, truth: list[Any], values: list[Any]
) -> str | None:
    what = f"{op.name}: its {kind} function ({place(function)})"
    try:
        given = library_functions.given(op, kind, function, values)
    except Exception as error:
        return f"{what} fails for {_described(op, values)}: {type(error).__name__}: {error}"
    wanted = library_functions.expected(kind, truth)
    if given == wanted:
        return None
    return f"{what} gives {_listed(given)} and the operator's function {_listed(wanted)} for {_described(op, values)}"


def _listed(given: list[Any]) -> str:
    return ", ".join(map(str, given))


def _types(results: list[Any]) -> list[Any]:
    return map_tensors(_type, results)


def _type(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _described(op: CustomOp, values: Sequence[Any]) -> str:
    """A call's arguments: ``x: float32[2, 3], limit: 7.0``."""
    pairs = zip(op.schema.arguments, map_tensors(_type, list(values)), strict=True)
    return ", ".join(f"{argument.name}: {value}".replace("'", "") for argument, value in pairs)

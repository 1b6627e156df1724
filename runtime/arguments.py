"""From a Python call to the flat inputs of an entry point, with one clear error for each way to get it wrong."""

from __future__ import annotations

from typing import Any

from . import structure, tensors
from .dims import Binder, Bounds, DimensionError
from .errors import ArgumentError
from .manifest import EntryPoint, Parameter, TensorSpec, ValueSpec

_MISSING = object()


def bind(
    entry: EntryPoint, dimensions: dict[str, Bounds], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, int]]:
    """The flat inputs of `entry`, and the sizes its dynamic dimensions have in this call.

    Raises ArgumentError naming the argument, what was expected (with dynamic bounds) and what came.
    """
    values: list[Any] = []
    for parameter, value in zip(entry.parameters, _by_parameter(entry, args, kwargs), strict=True):
        if value is _MISSING:
            _refuse_missing(entry, parameter)
            continue
        values += structure.flatten(parameter.structure, value, parameter.name)
    binder = Binder(dimensions)
    checked = [_checked(spec, value, binder) for spec, value in zip(entry.inputs, values, strict=True)]
    try:
        binder.finish()
    except DimensionError as error:
        raise ArgumentError(f"the shapes of {entry.name}'s arguments disagree: {error}") from error
    return checked, binder.values


def _by_parameter(entry: EntryPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    positional = [parameter for parameter in entry.parameters if parameter.positional]
    if len(args) > len(positional):
        raise ArgumentError(
            f"{entry.name} takes {_count(len(positional), 'positional argument')} "
            f"({_signature(entry)}), got {len(args)}"
        )
    given = {parameter.name: value for parameter, value in zip(positional, args, strict=False)}
    known = {parameter.name for parameter in entry.parameters}
    for name, value in kwargs.items():
        if name not in known:
            raise ArgumentError(f"{entry.name} has no argument '{name}'; it takes {_signature(entry)}")
        if name in given:
            raise ArgumentError(f"{entry.name} got the argument '{name}' twice")
        given[name] = value
    return [given.get(parameter.name, _MISSING) for parameter in entry.parameters]


def _refuse_missing(entry: EntryPoint, parameter: Parameter) -> None:
    """An argument may be left out only where nothing of it is a tensor: its constants are compiled in."""
    first = next(structure.leaves(parameter.structure), None)
    if first is not None:
        expected = ", ".join(str(entry.inputs[i]) for i in structure.leaves(parameter.structure))
        raise ArgumentError(f"missing argument '{parameter.name}' ({expected}) of {entry.name}")


def _checked(spec: ValueSpec, value: Any, binder: Binder) -> Any:
    if spec.tensor is None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ArgumentError(f"argument '{spec.name}' must be an int, got {type(value).__name__}")
        return value
    if not tensors.is_array(value):
        raise ArgumentError(
            f"argument '{spec.name}' must be a tensor {spec.tensor}, got {type(value).__name__}"
        )
    array = tensors.as_array(value)
    _check_type(spec.name, spec.tensor, array, binder)
    return array


def _check_type(name: str, expected: TensorSpec, array: Any, binder: Binder) -> None:
    dtype = tensors.dtype_of(array)
    got = "x".join([*map(str, array.shape), dtype.short if dtype else str(array.dtype)])
    if dtype is None or dtype.name != expected.dtype:
        raise ArgumentError(f"argument '{name}' must be {expected}, got {got}: its dtype differs")
    try:
        binder.bind(expected.shape, tuple(array.shape))
    except DimensionError as error:
        raise ArgumentError(f"argument '{name}' must be {expected}, got {got}: {error}") from error


def _signature(entry: EntryPoint) -> str:
    return ", ".join(parameter.name for parameter in entry.parameters) or "no arguments"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")

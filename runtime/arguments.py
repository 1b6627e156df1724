"""From a Python call to the flat inputs of an entry point, with one clear error per way to get it wrong."""

from __future__ import annotations

from typing import Any

from . import dtypes, structure, tensors
from .dims import Binder, Bounds, DimensionError
from .errors import ArgumentError
from .manifest import EntryPoint, Parameter, TensorSpec, ValueSpec

_MISSING = object()


class Signature:
    """What an entry point takes, read from the manifest once; `bind` checks each call against it."""

    def __init__(self, entry: EntryPoint, dimensions: dict[str, Bounds]) -> None:
        self._entry = entry
        self._dimensions = dimensions
        self._positional = [parameter.name for parameter in entry.parameters if parameter.positional]
        self._inputs = [_Input(spec) for spec in entry.inputs]
        # The common call, all tensors by position, needs no matching of names and no flattening.
        self._plain = all("leaf" in p.structure and p.positional for p in entry.parameters)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, int]]:
        """The flat inputs (torch tensors, NumPy arrays, ints), and the sizes of the dynamic dimensions.

        Raises ArgumentError naming the argument, what was expected (with dynamic bounds) and what came.
        """
        plain = self._plain and not kwargs and len(args) == len(self._positional)
        values = args if plain else self._flatten(args, kwargs)
        binder = Binder(self._dimensions)
        checked = [item.check(value, binder) for item, value in zip(self._inputs, values, strict=True)]
        try:
            binder.finish()
        except DimensionError as error:
            raise ArgumentError(
                f"the shapes of the arguments of {self._entry.name} disagree: {error}"
            ) from error
        for number in self._entry.mutated_inputs:
            self._inputs[number].refuse_unwritable(checked[number])
        return checked, binder.values

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        values: list[Any] = []
        for parameter, value in zip(self._entry.parameters, self._by_parameter(args, kwargs), strict=True):
            if value is _MISSING:
                self._refuse_missing(parameter)
            else:
                values += structure.flatten(parameter.structure, value, parameter.name)
        return values

    def _by_parameter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if len(args) > len(self._positional):
            raise ArgumentError(
                f"{self._entry.name} takes {_count(len(self._positional), 'positional argument')} "
                f"({self._names()}), got {len(args)}"
            )
        given = dict(zip(self._positional, args, strict=False))
        known = {parameter.name for parameter in self._entry.parameters}
        for name, value in kwargs.items():
            if name not in known:
                raise ArgumentError(f"{self._entry.name} has no argument '{name}'; it takes {self._names()}")
            if name in given:
                raise ArgumentError(f"{self._entry.name} got the argument '{name}' twice")
            given[name] = value
        return [given.get(parameter.name, _MISSING) for parameter in self._entry.parameters]

    def _refuse_missing(self, parameter: Parameter) -> None:
        """An argument may be left out only where nothing of it is a tensor: its constants are compiled in."""
        expected = ", ".join(str(self._entry.inputs[i]) for i in structure.leaves(parameter.structure))
        if expected:
            raise ArgumentError(f"missing argument '{parameter.name}' ({expected}) of {self._entry.name}")

    def _names(self) -> str:
        return ", ".join(parameter.name for parameter in self._entry.parameters) or "no arguments"


class _Input:
    """The check of one flat input."""

    def __init__(self, spec: ValueSpec) -> None:
        self._name = spec.name
        self._tensor = spec.tensor
        self._dtype = dtypes.BY_NAME[spec.tensor.dtype] if spec.tensor else None
        self._static = spec.tensor is not None and all(isinstance(dim, int) for dim in spec.tensor.shape)

    def check(self, value: Any, binder: Binder) -> Any:
        """`value` as a torch tensor, NumPy array or int. Raises ArgumentError when it does not fit."""
        if self._tensor is None:
            return self._checked_int(value)
        if not tensors.is_array(value):
            raise ArgumentError(
                f"argument '{self._name}' must be a tensor {self._tensor}, got {structure.describe(value)}"
            )
        try:
            array = tensors.as_array(value)
        except tensors.UnreadableError as error:
            raise ArgumentError(f"argument '{self._name}' must be {self._tensor}: {error}") from error
        self._check_type(self._tensor, array, binder)
        return array

    def _checked_int(self, value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__") or tensors.is_array(value):
            raise ArgumentError(f"argument '{self._name}' must be an int, got {structure.describe(value)}")
        return value.__index__()

    def _check_type(self, expected: TensorSpec, array: Any, binder: Binder) -> None:
        dtype = tensors.dtype_of(array)
        if dtype is not self._dtype:
            raise ArgumentError(
                f"argument '{self._name}' must be {expected}, got {_type_of(array)}: its dtype differs"
            )
        if self._static and array.shape == expected.shape:
            return
        try:
            binder.bind(expected.shape, tuple(array.shape))
        except DimensionError as error:
            raise ArgumentError(
                f"argument '{self._name}' must be {expected}, got {_type_of(array)}: {error}"
            ) from error

    def refuse_unwritable(self, array: Any) -> None:
        """The model updates this argument: raises ArgumentError when its new value cannot be stored in it."""
        problem = tensors.unwritable(array)
        if problem:
            raise ArgumentError(
                f"argument '{self._name}' is updated by the model, but the one given {problem}; pass a copy"
            )


def _type_of(array: Any) -> str:
    dtype = tensors.dtype_of(array)
    return "x".join([*map(str, array.shape), dtype.short if dtype else str(array.dtype)])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")

"""Decorators that say which operator a shape or dtype function belongs to. The functions stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

Kind = Literal["shape", "dtype"]
_Function = TypeVar("_Function", bound=Callable[..., object])


@dataclass(frozen=True)
class LibraryFunction:
    """A function of the library. operator: as the IR names it, without ``torch.``: ``aten.add.Tensor``."""

    operator: str
    kind: Kind
    function: Callable[..., object]


_registered: dict[tuple[str, Kind], LibraryFunction] = {}


def shape_function(*operators: str) -> Callable[[_Function], _Function]:
    """Mark the shape function of an operator, or of several that behave alike.

    It takes what the operator takes, with ``list[int]`` for every tensor, and returns the sizes of each result.
    operators: ``aten.relu.default``, ``aten::add.Tensor`` or ``mylib::swiglu``.

    Raises:
        ValueError: if one of `operators` is no operator's name.
    """
    return _decorator(operators, "shape")


def dtype_function(*operators: str) -> Callable[[_Function], _Function]:
    """Mark the dtype function of an operator, or of several that behave alike.

    It takes what the operator takes, with ``tuple[int, int]`` (rank and dtype) for every tensor, and returns the
    dtype of each result, as in `shape_lib.dtypes`.

    Raises:
        ValueError: if one of `operators` is no operator's name.
    """
    return _decorator(operators, "dtype")


def registered() -> list[LibraryFunction]:
    """All functions, in the order of registration; of two for one operator only the later one."""
    return list(_registered.values())


def registered_for(function: Callable[..., object]) -> list[LibraryFunction]:
    """What `function` is registered as; one function may serve several operators."""
    return [entry for entry in _registered.values() if entry.function is function]


def forget(operator: str) -> None:
    """Take out the functions of an operator, whose declaration is replaced."""
    name = operator_of(operator)
    for key in [key for key in _registered if key[0] == name]:
        del _registered[key]


def _decorator(operators: tuple[str, ...], kind: Kind) -> Callable[[_Function], _Function]:
    names = [operator_of(operator) for operator in operators]

    def register(function: _Function) -> _Function:
        for name in names:
            _registered.pop((name, kind), None)
            _registered[name, kind] = LibraryFunction(name, kind, function)
        return function

    return register


def operator_of(name: str) -> str:
    """``aten.relu`` for ``aten::relu``, ``aten.relu.default`` and ``torch.aten.relu``.

    Raises:
        ValueError: if `name` has no namespace and operator.
    """
    parts = name.replace("::", ".").removeprefix("torch.").split(".")
    if len(parts) > 2 and parts[-1] == "default":
        parts = parts[:-1]
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        raise ValueError(
            f"{name!r} is not an operator's name: write it as in 'aten.relu.default' or 'mylib::swiglu'"
        )
    return ".".join(parts)

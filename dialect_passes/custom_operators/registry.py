"""The custom operators of this process, by name.

A declaration that runs again (a notebook cell, a reloaded module) replaces its former self; the same name from
somewhere else is an error, since calls compiled for the one would reach the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .declared import place
from .errors import DeclarationError

if TYPE_CHECKING:
    from .declaration import CustomOp

_OPERATORS: dict[str, CustomOp] = {}


def find(operator: Any) -> CustomOp | None:
    """The custom operator behind a name (``"mylib::swiglu"``) or an overload; None for any other operator."""
    name = operator if isinstance(operator, str) else getattr(operator, "_name", None)
    return _OPERATORS.get(name.removesuffix(".default")) if isinstance(name, str) else None


def operators() -> list[CustomOp]:
    """All custom operators, in the order of their declarations."""
    return list(_OPERATORS.values())


def add(operator: CustomOp) -> None:
    """Makes the operator the one of its name."""
    _OPERATORS[operator.name] = operator


def take_over(name: str, function: Callable[..., Any]) -> CustomOp | None:
    """The former operator of a name that `function` may replace; None for a new name.

    Raises DeclarationError, with both places, if the name is taken by someone else.
    """
    former = _OPERATORS.get(name)
    if former is not None:
        if not _same_place(former.meaning, function):
            raise DeclarationError(
                f"{name} is declared twice: at {place(former.meaning)} and at {place(function)}; rename one of them"
            )
        return former
    namespace, operator = name.split("::")
    if hasattr(getattr(torch.ops, namespace), operator):
        raise DeclarationError(
            f"{name} at {place(function)}: torch already has an operator of this name, registered by another "
            "library; choose another name"
        )
    return None


def _same_place(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    if _typed_in(old) and _typed_in(new):
        return True
    # By the true path: a file may be imported through a link.
    same_file = os.path.realpath(old.__code__.co_filename) == os.path.realpath(new.__code__.co_filename)
    return same_file and old.__qualname__ == new.__qualname__


def _typed_in(function: Callable[..., Any]) -> bool:
    """Whether the function was typed into a notebook or a prompt, where every run of a cell is a "file" of its own."""
    name = function.__code__.co_filename
    return function.__module__ == "__main__" and ("ipykernel" in name or not os.path.exists(name))

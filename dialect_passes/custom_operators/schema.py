"""The schema of a custom operator: its arguments and results, and the binding of calls to them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .errors import DeclarationError

MISSING = inspect.Parameter.empty
NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")

# Namespaces whose operators are torch's own.
_RESERVED = {"aten", "prim", "prims", "prim_ops", "torch", "onnx", "inductor", "quantized"}


@dataclass(frozen=True)
class Argument:
    """One argument of an operator.

    type: as torch's schema language has it, without alias marks: ``"Tensor?[]"``, ``"SymInt"``.
    default: MISSING where the caller must give one.
    """

    name: str
    type: str
    default: Any = MISSING
    keyword_only: bool = False
    mutated: bool = False

    @property
    def holds_tensors(self) -> bool:
        """Whether it is a Tensor, an optional one or a list of them."""
        return self.type.startswith("Tensor")

    def text(self, number: int) -> str:
        """As the schema spells it: ``Tensor(a0!) cache``, ``float limit=7.0``."""
        type_ = self.type.replace("Tensor", f"Tensor(a{number}!)", 1) if self.mutated else self.type
        default = "" if self.default is MISSING else f"={_default_text(self.default)}"
        return f"{type_} {self.name}{default}"


@dataclass(frozen=True)
class Schema:
    """The arguments in order (keyword-only ones last) and the types of the results: ``"Tensor"`` or ``"Tensor[]"``.

    several: whether the operator returns a tuple of its results.
    """

    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    several: bool = False

    @property
    def text(self) -> str:
        """In torch's schema language, without the name: ``(Tensor x, float limit=7.0) -> Tensor``."""
        parts = [argument.text(number) for number, argument in enumerate(self.arguments)]
        first = next((n for n, argument in enumerate(self.arguments) if argument.keyword_only), None)
        if first is not None:
            parts.insert(first, "*")
        results = ", ".join(self.results)
        return f"({', '.join(parts)}) -> {results if len(self.results) == 1 else f'({results})'}"

    @functools.cached_property
    def mutated(self) -> tuple[Argument, ...]:
        """The arguments that a call changes."""
        return tuple(argument for argument in self.arguments if argument.mutated)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The value of every argument in order, defaults filled in.

        For what the dispatcher hands over, which it has checked: it leaves out trailing arguments that equal their
        defaults.
        """
        rest = self.arguments[len(args) :]
        return [*args, *(kwargs.get(argument.name, argument.default) for argument in rest)]

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The same by argument."""
        values = self.bind(args, kwargs)
        return {argument.name: value for argument, value in zip(self.arguments, values, strict=True)}

    @property
    def names(self) -> list[str]:
        """The arguments' names."""
        return [argument.name for argument in self.arguments]

    def split(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of a call from the values of all arguments in order."""
        count = sum(not argument.keyword_only for argument in self.arguments)
        names = [argument.name for argument in self.arguments[count:]]
        return tuple(values[:count]), dict(zip(names, values[count:], strict=True))


def check_parameters(
    what: str, function: Callable[..., Any], wanted: Sequence[str], *, variadic: bool = False
) -> None:
    """Raises DeclarationError where `function` does not take arguments of these names in this order.

    variadic: whether ``*args`` and ``**kwargs`` will do.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    if variadic and any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return
    if list(signature.parameters) != list(wanted):
        name = getattr(function, "__name__", "")
        raise DeclarationError(
            f"{what} {name}{signature} must take the operator's arguments: def {name}({', '.join(wanted)})"
        )


def check_name(name: object) -> str:
    """The operator's name, if it is one: ``"mylib::swiglu"``. Raises DeclarationError."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise DeclarationError(
            f"{name!r} is no name for an operator: write a namespace of your own and a name, "
            '@pipeline.op("mylib::swiglu")'
        )
    namespace = name.split("::")[0]
    if namespace in _RESERVED:
        raise DeclarationError(
            f"{name}: the namespace '{namespace}' belongs to torch; choose one of your own, such as "
            f"'mylib::{name.split('::')[1]}'"
        )
    return name


def _default_text(value: Any) -> str:
    """A default value in torch's schema language."""
    if isinstance(value, tuple):
        return f"[{', '.join(_default_text(item) for item in value)}]"
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, (str, torch.device)):
        quoted = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{quoted}"'
    return repr(value)

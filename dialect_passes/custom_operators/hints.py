"""The schema of a custom operator, read from the type hints of its meaning.

torch has an inference of its own; this one also takes what people write beside it (string hints without the
names imported, tuples as default values, any order and nesting of Optional), and its errors name the operator and
the argument.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import math
import numbers
import operator
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from .errors import DeclarationError
from .schema import MISSING, Argument, Schema

_BASES: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    torch.SymInt: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "complex",
    numbers.Number: "Scalar",
    torch.dtype: "ScalarType",
    torch.device: "Device",
}
_NUMBERS = {int, float, bool, complex}
_SEQUENCES = {list, collections.abc.Sequence, collections.abc.Iterable}
_CHOICES = (
    "Tensor, int, float, bool, str, torch.dtype, torch.device, numbers.Number; list[...] of Tensor, int, float, "
    "bool or str; Optional[...] of all of these, and list[Optional[Tensor]]"
)

# What a string hint may name without importing it: hints are often only imported under TYPE_CHECKING.
_FALLBACK = {
    name: getattr(typing, name) for name in ("Any", "List", "Optional", "Sequence", "Tuple", "Union")
} | {
    "torch": torch,
    "Tensor": Tensor,
    "dtype": torch.dtype,
    "device": torch.device,
    "Number": numbers.Number,
    "typing": typing,
}


def infer_schema(name: str, function: Callable[..., Any], mutates_args: Iterable[str] = ()) -> Schema:
    """The schema that the hints of `function` say. Raises DeclarationError, naming the argument."""
    signature = inspect.signature(function)
    mutated = _mutated_names(name, mutates_args, signature)
    arguments = tuple(
        _argument(name, function, parameter, mutated) for parameter in signature.parameters.values()
    )
    results, several = _results(name, function, signature.return_annotation)
    if not results and not mutated:
        raise DeclarationError(
            f"{name}: it returns nothing and changes nothing; give it a result, or name what it changes in place "
            "in mutates_args"
        )
    return Schema(arguments, results, several)


def _mutated_names(name: str, mutates_args: Iterable[str], signature: inspect.Signature) -> set[str]:
    if isinstance(mutates_args, str):
        raise DeclarationError(
            f'{name}: mutates_args is a tuple of names: write mutates_args=("{mutates_args}",)'
        )
    mutated = set(mutates_args)
    for unknown in sorted(mutated - set(signature.parameters), key=str):
        raise DeclarationError(
            f"{name}: mutates_args names '{unknown}', which is no argument; it has "
            f"{', '.join(signature.parameters) or 'none'}"
        )
    return mutated


def _argument(name: str, function: Any, parameter: inspect.Parameter, mutated: set[str]) -> Argument:
    what = f"{name}: argument '{parameter.name}'"
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise DeclarationError(
            f"{name}: '{parameter}' is {parameter.kind.description}; an operator has a fixed list of named arguments: "
            "write them out, or take a list[Tensor]"
        )
    if parameter.annotation is MISSING:
        raise DeclarationError(f"{what} has no type hint; choose from {_CHOICES}")
    hint = _resolve(what, function, parameter.annotation)
    type_ = _schema_type(what, hint)
    keyword_only = parameter.kind == parameter.KEYWORD_ONLY
    if parameter.name in mutated and not type_.startswith("Tensor"):
        raise DeclarationError(f"{what} is named in mutates_args, but is no Tensor and no list of them")
    if keyword_only and type_.startswith("Tensor"):
        raise DeclarationError(
            f"{what} is a keyword-only Tensor, which torch does not differentiate; move it before the *"
        )
    default = _checked_default(what, parameter.default, type_)
    return Argument(parameter.name, type_, default, keyword_only, parameter.name in mutated)


def _resolve(what: str, function: Any, hint: Any) -> Any:
    """The type behind a hint: strings in it (``from __future__ import annotations``) evaluated, Annotated taken off."""
    if isinstance(hint, typing.ForwardRef):
        hint = hint.__forward_arg__
    if isinstance(hint, str):
        return _resolve(what, function, _evaluated(what, function, hint))
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _resolve(what, function, members[0])
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, (_resolve(what, function, member) for member in members))
    if origin in _SEQUENCES | {tuple}:
        return types.GenericAlias(origin, tuple(_resolve(what, function, member) for member in members))
    return hint


def _evaluated(what: str, function: Any, hint: str) -> Any:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known = {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}
    try:
        # The hint is the user's own code, evaluated where it was written, as typing.get_type_hints does.
        return eval(hint, {**_FALLBACK, **function.__globals__, **known})
    except Exception as error:
        raise DeclarationError(
            f"{what} has the hint '{hint}', which cannot be evaluated ({type(error).__name__}: {error}); "
            "import what it names at the top of the file"
        ) from None


def _schema_type(what: str, hint: Any) -> str:
    """torch's name of a hint: ``Optional[list[Tensor]]`` is ``Tensor[]?``."""
    inner, optional = _without_none(hint)
    element = _element(inner)
    if element is not None:
        item, item_optional = _without_none(element)
        base = _BASES.get(item) if _hashable(item) else None
        if base in ("Tensor", "SymInt", "float", "bool", "str", "Scalar"):
            return f"{base}{'?' * item_optional}[]{'?' * optional}"
    elif _hashable(inner) and inner in _BASES:
        return f"{_BASES[inner]}{'?' * optional}"
    raise DeclarationError(
        f"{what} has the hint {_shown(hint)}, which is not supported{_advice(inner)}; choose from {_CHOICES}"
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without None, and whether it allowed None; a union of numbers is a Number."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    members = typing.get_args(hint)
    rest = [member for member in members if member is not type(None)]
    optional = len(rest) < len(members)
    if len(rest) > 1 and set(rest) <= _NUMBERS:
        return numbers.Number, optional
    return (rest[0], optional) if len(rest) == 1 else (typing.Union[tuple(rest)], optional)  # noqa: UP007


def _element(hint: Any) -> Any:
    """What a list hint is a list of; None if it is no list."""
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in _SEQUENCES and len(arguments) == 1:
        return arguments[0]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return arguments[0]
    return None


def _advice(hint: Any) -> str:
    if hint is torch.nn.Parameter:
        return ": a parameter is passed as a Tensor"
    if hint in (list, typing.List, tuple, typing.Sequence, collections.abc.Sequence):  # noqa: UP006
        return ": say what it is a list of, as in list[Tensor]"
    if typing.get_origin(hint) is tuple:
        return ": an operator takes lists, not tuples of a fixed length"
    return ""


def _hashable(value: Any) -> bool:
    return isinstance(value, collections.abc.Hashable)


def _shown(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _results(name: str, function: Any, annotation: Any) -> tuple[tuple[str, ...], bool]:
    """The types of the results, and whether they come as a tuple."""
    what = f"{name}: the return value"
    if annotation is MISSING:
        raise DeclarationError(
            f"{what} has no type hint; write -> Tensor, -> tuple[Tensor, Tensor], -> list[Tensor], or -> None for "
            "an operator that only changes its arguments"
        )
    hint = _resolve(what, function, annotation)
    if hint is None or hint is type(None):
        return (), False
    members = typing.get_args(hint)
    several = typing.get_origin(hint) is tuple and Ellipsis not in members
    if several and len(members) == 1:
        raise DeclarationError(f"{what} is a tuple of one; write -> Tensor and return the tensor itself")
    return tuple(_result(what, hint, member) for member in (members if several else [hint])), several


def _result(what: str, whole: Any, hint: Any) -> str:
    if hint is Tensor:
        return "Tensor"
    if _element(hint) is Tensor:
        return "Tensor[]"
    advice = ": return a tensor without dimensions" if hint in _NUMBERS else ""
    raise DeclarationError(
        f"{what} has the hint {_shown(whole)}, which is not supported{advice}; choose from Tensor, list[Tensor], "
        "a tuple of these, and None"
    )


def _checked_default(what: str, default: Any, type_: str) -> Any:
    """The default value, lists as tuples and whole floats as floats. Raises DeclarationError."""
    if default is MISSING or (default is None and type_.endswith("?")):
        return default
    if default is None:
        raise DeclarationError(
            f"{what} is None by default, which its hint does not allow; write Optional[...]"
        )
    if type_.startswith("Tensor"):
        raise DeclarationError(
            f"{what} holds tensors, whose only default is None; write Optional[...] = None"
        )
    base = type_.rstrip("?").removesuffix("[]").rstrip("?")
    if "[]" in type_:
        if not isinstance(default, (list, tuple)):
            raise DeclarationError(f"{what} is a list, but its default is {default!r}")
        if base in ("str", "bool", "Scalar"):
            raise DeclarationError(
                f"{what}: torch knows default values for lists of int and float only; use None"
            )
        return tuple(_checked_scalar(what, item, base) for item in default)
    return _checked_scalar(what, default, base)


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "SymInt": (int,),
    "float": (float, int),
    "bool": (bool,),
    "str": (str,),
    "complex": (complex, float, int),
    "Scalar": (int, float, bool),
    "ScalarType": (torch.dtype,),
    "Device": (torch.device, str),
}


def _checked_scalar(what: str, value: Any, base: str) -> Any:
    wanted = _PYTHON_TYPES[base]
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise DeclarationError(
            f"{what} has the default {value!r}, a {type(value).__name__}, where its hint wants "
            f"{' or '.join(type_.__name__ for type_ in wanted)}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise DeclarationError(
            f"{what} has the default {value!r}, which torch's schemas cannot say; make it Optional[float] = None "
            "and put the value in inside the function"
        )
    return float(value) if base == "float" else value

"""The Python side of an entry point: parameters and results as the JSON structures of `runtime.structure`."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import TreeSpec

from pipeline.runtime import structure
from pipeline.runtime.manifest import Parameter

from .errors import UnsupportedError
from .source_lines import user_line

_SCALARS = (bool, int, float, str, type(None))


def constant_node(value: Any, what: str) -> dict[str, Any]:
    """The structure node of a value that is not a tensor and so is compiled in."""
    if isinstance(value, (torch.dtype, torch.device)):
        value = str(value)
    if isinstance(value, torch.fx.Node):
        line = user_line(value)
        at = f" (at {line})" if line else ""
        raise UnsupportedError(
            f"{what}: a Python number that depends on a tensor's values{at} cannot be a result; return the tensor"
        )
    if not isinstance(value, _SCALARS):
        raise UnsupportedError(f"{what}: a {type(value).__name__} can be neither passed nor compiled in")
    return {"const": structure.encode_constant(value)}


def describe_parameters(
    ep: ExportedProgram, signature: list[inspect.Parameter] | None, flat: list[dict[str, Any]]
) -> tuple[Parameter, ...]:
    """The parameters of the entry point; `flat` holds the leaf or constant of each exported input.

    A parameter that the example call left at its default is a constant of that value: callers may repeat
    it and not change it. signature: None for a loaded .pt2, whose parameters are known by keyword only.
    """
    in_spec = ep.call_spec.in_spec
    assert in_spec is not None
    args_spec, kwargs_spec = in_spec.children()
    leaves = iter(flat)
    count = len(args_spec.children())
    names = _positional_names(count, signature)
    given = {
        name: _node(child, leaves)
        for name, child in [
            *zip(names, args_spec.children(), strict=True),
            *zip(kwargs_spec.context, kwargs_spec.children(), strict=True),
        ]
    }
    by_position = set(names) | _positional_prefix(signature, given)
    defaults = _defaults(signature, given)
    order = [parameter.name for parameter in signature or [] if parameter.name in {**given, **defaults}]
    # Leaves are numbered in the order of the export, which lists every positional argument first.
    ordered = [*names, *(name for name in [*order, *given] if name not in names)]
    return tuple(
        Parameter(name, name in by_position, given.get(name) or defaults[name])
        for name in dict.fromkeys(ordered)
    )


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _positional_names(count: int, signature: list[inspect.Parameter] | None) -> list[str]:
    names: list[str] = []
    for parameter in signature or []:
        if parameter.kind == parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(count - len(names))]
        elif parameter.kind in _BY_POSITION:
            names.append(parameter.name)
    return (names + [f"input_{i}" for i in range(len(names), count)])[:count]


def _positional_prefix(signature: list[inspect.Parameter] | None, given: dict[str, Any]) -> set[str]:
    """The parameters that a caller may pass by position: up to the first one that is no longer there."""
    prefix: set[str] = set()
    defaults = _defaults(signature, given)
    for parameter in signature or []:
        if parameter.kind not in _BY_POSITION or parameter.name not in {**given, **defaults}:
            break
        prefix.add(parameter.name)
    return prefix


def _defaults(signature: list[inspect.Parameter] | None, given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        parameter.name: constant_node(parameter.default, parameter.name)
        for parameter in signature or []
        if parameter.name not in given and isinstance(parameter.default, _SCALARS)
    }


def input_names(parameters: tuple[Parameter, ...]) -> list[str]:
    """The path of each flat input, such as ``cache[0]['key']``."""
    found: dict[int, str] = {}
    for parameter in parameters:
        found.update(structure.paths(parameter.structure, parameter.name))
    return [found[i] for i in sorted(found)]


def describe_result(ep: ExportedProgram, flat: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[int, str]]:
    """The structure of the result, and a name for each of its tensors."""
    out_spec = ep.call_spec.out_spec
    assert out_spec is not None
    node = _node(out_spec, iter(flat))
    return node, structure.paths(node, "output")


def _node(spec: TreeSpec, leaves: Iterator[dict[str, Any]]) -> dict[str, Any]:
    if spec.is_leaf():
        return next(leaves)
    children = [_node(child, leaves) for child in spec.children()]
    if spec.type is tuple:
        return {"tuple": children}
    if spec.type is list:
        return {"list": children}
    if spec.type in (dict, collections.OrderedDict):
        return {"dict": [list(pair) for pair in zip(_json_keys(spec.context), children, strict=True)]}
    return _class_node(spec, children)


def _json_keys(keys: Any) -> list[Any]:
    for key in keys:
        if not isinstance(key, (str, int, float, bool)):
            raise UnsupportedError(f"a dict key of type {type(key).__name__} in the arguments or the result")
    return list(keys)


def _class_node(spec: TreeSpec, children: list[dict[str, Any]]) -> dict[str, Any]:
    if spec.type is collections.namedtuple:
        cls = spec.context
        return _fields(cls, "namedtuple", cls._fields, children)
    cls: type = spec.type
    if dataclasses.is_dataclass(cls):
        names, absent = _dataclass_names(spec.context)
        children += [{"const": None} for _ in absent]
        return _fields(cls, "dataclass", [*names, *absent], children)
    names = _names_in_context(spec.context, len(children)) or [str(i) for i in range(len(children))]
    context = spec.context if _is_json(spec.context) else None
    return {**_fields(cls, "pytree", names, children), "context": context}


def _fields(cls: type, how: str, names: Any, children: list[dict[str, Any]]) -> dict[str, Any]:
    pairs = [list(pair) for pair in zip(names, children, strict=True)]
    return {"class": f"{cls.__module__}:{cls.__qualname__}", "how": how, "fields": pairs, "context": None}


def _dataclass_names(context: Any) -> tuple[list[str], list[str]]:
    """torch registers dataclasses with [names, names of None fields]; Transformers with the names alone."""
    if len(context) == 2 and all(isinstance(part, (list, tuple)) for part in context):
        return list(context[0]), list(context[1])
    return list(context), []


def _names_in_context(context: Any, count: int) -> list[str] | None:
    if (
        isinstance(context, (list, tuple))
        and len(context) == count
        and all(isinstance(n, str) for n in context)
    ):
        return list(context)
    return None


def _is_json(value: Any) -> bool:
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        return False

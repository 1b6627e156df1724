"""The nesting of arguments and results (a pytree) as JSON of our own, so that a call needs no torch.

A node is one of

    {"leaf": 3}                                   flat value number 3
    {"const": 7}                                  a Python scalar, string or None fixed at compile time
    {"tuple": [...]}  {"list": [...]}             children in order
    {"dict": [[key, child], ...]}                 keys in the order of compilation
    {"class": "module:Name", "how": "dataclass" | "namedtuple" | "pytree",
     "fields": [[name, child], ...], "context": ...}

Where the class of a "class" node cannot be imported, callers pass and get a dict with the same keys.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from .errors import ArgumentError

Node = dict[str, Any]


def leaves(node: Node) -> Iterator[int]:
    """The flat value numbers below `node`, in order."""
    if "leaf" in node:
        yield node["leaf"]
    for child in children(node):
        yield from leaves(child)


def children(node: Node) -> list[Node]:
    """The direct children of `node`, in flat order."""
    if "tuple" in node or "list" in node:
        return node["tuple"] if "tuple" in node else node["list"]
    return [child for _, child in node.get("dict", node.get("fields", []))]


def paths(node: Node, prefix: str) -> dict[int, str]:
    """Leaf number -> the expression a user would write for it, such as ``x`` or ``cache[0]['key']``."""
    found: dict[int, str] = {}

    def walk(node: Node, path: str) -> None:
        if "leaf" in node:
            found[node["leaf"]] = path
        for step, child in zip(_steps(node), children(node), strict=True):
            walk(child, path + step)

    walk(node, prefix)
    return found


def classes(node: Node) -> list[str]:
    """Every ``module:Name`` that rebuilding `node` wants to import."""
    own = [node["class"]] if "class" in node else []
    return own + [name for child in children(node) for name in classes(child)]


def flatten(node: Node, value: Any, path: str) -> list[Any]:
    """The leaves of `value`, which must nest like `node`.

    Raises ArgumentError naming the place (`path` extended) where the nesting or a constant differs.
    """
    if "leaf" in node:
        return [value]
    if "const" in node:
        _check_constant(node["const"], value, path)
        return []
    values = _FLATTENERS[_kind(node)](node, value, path)
    steps = _steps(node)
    return [
        leaf
        for child, item, step in zip(children(node), values, steps, strict=True)
        for leaf in flatten(child, item, path + step)
    ]


def unflatten(node: Node, flat: list[Any]) -> Any:
    """The value that nests like `node` with its leaves taken from `flat`."""
    if "leaf" in node:
        return flat[node["leaf"]]
    if "const" in node:
        return _constant(node["const"])
    values = [unflatten(child, flat) for child in children(node)]
    if "tuple" in node:
        return tuple(values)
    if "list" in node:
        return values
    if "dict" in node:
        return {key: value for (key, _), value in zip(node["dict"], values, strict=True)}
    return _rebuild(node, values)


def importable(name: str) -> bool:
    """Whether the class ``module:Name`` can be imported here."""
    return _find_class(name) is not None


def encode_constant(value: Any) -> Any:
    """A Python constant as JSON can hold it: floats that JSON lacks become strings in a list."""
    if isinstance(value, float) and not math.isfinite(value):
        return ["float", repr(value)]
    return value


def _constant(encoded: Any) -> Any:
    return float(encoded[1]) if isinstance(encoded, list) else encoded


def _check_constant(encoded: Any, value: Any, path: str) -> None:
    expected = _constant(encoded)
    if type(value).__module__ == "torch" and type(value).__name__ in ("dtype", "device"):
        # The manifest has them as text.
        value = str(value)
    if value is expected or (type(value) is type(expected) and repr(value) == repr(expected)):
        return
    raise ArgumentError(
        f"argument '{path}' was compiled as the constant {expected!r}, got {describe(value)}; "
        "compile again with that value, or leave the argument out"
    )


def describe(value: Any) -> str:
    """A value as error messages show it: scalars themselves, else the type's name."""
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def _kind(node: Node) -> str:
    return next(kind for kind in ("tuple", "list", "dict", "class") if kind in node)


def _steps(node: Node) -> list[str]:
    if "dict" in node:
        return [f"[{key!r}]" for key, _ in node["dict"]]
    if "class" in node:
        return [f".{name}" for name, _ in node["fields"]]
    return [f"[{i}]" for i in range(len(children(node)))]


def _from_sequence(node: Node, value: Any, path: str) -> list[Any]:
    count = len(children(node))
    if not isinstance(value, (tuple, list)):
        raise ArgumentError(f"argument '{path}' must be a {_kind(node)} of {count}, got {describe(value)}")
    if len(value) != count:
        raise ArgumentError(f"argument '{path}' must have {count} items, got {len(value)}")
    return list(value)


def _from_keys(keys: list[Any], value: Mapping[Any, Any], path: str) -> list[Any]:
    missing = [key for key in keys if key not in value]
    extra = [key for key in value if key not in keys]
    if missing or extra:
        raise ArgumentError(
            f"argument '{path}' must have the keys {keys}"
            + (f"; missing {missing}" if missing else "")
            + (f"; unknown {extra}" if extra else "")
        )
    return [value[key] for key in keys]


def _from_dict(node: Node, value: Any, path: str) -> list[Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"argument '{path}' must be a dict, got {describe(value)}")
    return _from_keys([key for key, _ in node["dict"]], value, path)


def _from_class(node: Node, value: Any, path: str) -> list[Any]:
    names = [name for name, _ in node["fields"]]
    if node["how"] == "pytree" and not isinstance(value, Mapping):
        return _flatten_registered(node, value, path)
    if isinstance(value, Mapping):
        return _from_keys(names, value, path)
    if node["how"] == "namedtuple" and isinstance(value, tuple):
        return _from_sequence(node, value, path)
    missing = [name for name in names if not hasattr(value, name)]
    if missing:
        raise ArgumentError(
            f"argument '{path}' must be a {node['class']} or a dict with the keys {names}, "
            f"got {describe(value)}"
        )
    return [getattr(value, name) for name in names]


def _flatten_registered(node: Node, value: Any, path: str) -> list[Any]:
    """Flattens through torch's pytree registry, one level deep; only for classes registered there."""
    registry = _torch_registry()
    cls = _find_class(node["class"])
    if cls is None or registry is None or cls not in registry or not isinstance(value, cls):
        names = [name for name, _ in node["fields"]]
        raise ArgumentError(
            f"argument '{path}' must be a {node['class']} or a dict with the keys {names}, got {describe(value)}"
        )
    values, context = registry[cls].flatten_fn(value)
    if node["context"] is not None and not _same_json(context, node["context"]):
        raise ArgumentError(
            f"argument '{path}' was compiled with {node['context']!r}, this {cls.__name__} has {context!r}"
        )
    return _from_sequence(node, list(values), path)


def _same_json(value: Any, expected: Any) -> bool:
    try:
        return json.loads(json.dumps(value)) == expected
    except (TypeError, ValueError):
        return False


_FLATTENERS: dict[str, Callable[[Node, Any, str], list[Any]]] = {
    "tuple": _from_sequence,
    "list": _from_sequence,
    "dict": _from_dict,
    "class": _from_class,
}


def _rebuild(node: Node, values: list[Any]) -> Any:
    names = [name for name, _ in node["fields"]]
    cls = _find_class(node["class"])
    if cls is None:
        return dict(zip(names, values, strict=True))
    if node["how"] == "pytree":
        registry = _torch_registry()
        if registry is None or cls not in registry:
            return dict(zip(names, values, strict=True))
        return registry[cls].unflatten_fn(values, node["context"])
    if node["how"] == "namedtuple":
        return cls(*values)
    return cls(**dict(zip(names, values, strict=True)))


def _torch_registry() -> dict[type, Any] | None:
    if "torch" not in sys.modules:
        return None
    from torch.utils import _pytree

    return _pytree.SUPPORTED_NODES


@cache
def _find_class(name: str) -> type | None:
    module, _, qualified = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except Exception:
        # Whatever keeps a module from being imported here, its classes are not there.
        return None
    return found

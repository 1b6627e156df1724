"""Methods of lists."""

from __future__ import annotations

import ast
from collections.abc import Callable

from . import arithmetic, iteration
from .builtins import as_list
from .call_site import Call
from .comparisons import contains
from .expressions import evaluate, item
from .types import ListType
from .values import Value, constant, leaf


def call_method(this: Call, function: ast.Attribute) -> Value:
    """The value of `target.method(...)`.

    Raises:
        ShapeLibraryError: if it is no list, or lists have no such method.
    """
    target = evaluate(this.context, function.value, this.variables)
    method = _METHODS.get(function.attr)
    if method is None or not isinstance(target.type, ListType):
        raise this.error(
            f"`{function.attr}` of {target.type.python} is not supported: lists know {', '.join(_METHODS)}"
        )
    if this.node.keywords:
        raise this.error(f"`{function.attr}` takes no keywords")
    return method(this, target)


def _changed(this: Call, target: Value, new: Value) -> Value:
    this.context.change_list(this.variables, target, new, this.node)
    return constant(None)


def _append(this: Call, target: Value) -> Value:
    this.expect(1, 1)
    assert isinstance(target.type, ListType)
    value = this.argument(0, target.type.element)
    return _changed(this, target, iteration.appended(this.context, this.node, target, value))


def _extend(this: Call, target: Value) -> Value:
    this.expect(1, 1)
    return _changed(this, target, arithmetic.concatenated(this.context, this.node, target, as_list(this)))


def _insert(this: Call, target: Value) -> Value:
    this.expect(2, 2)
    assert isinstance(target.type, ListType)
    index, value = this.argument(0), this.argument(1, target.type.element)
    if target.type.element is None:
        return _changed(this, target, iteration.appended(this.context, this.node, target, value))
    value = this.context.convert(value, target.type.element, this.node)
    return _changed(this, target, this.prelude("with_inserted", target, index, value))


def _pop(this: Call, target: Value) -> Value:
    this.expect(0, 1)
    index = this.argument(0) if this.node.args else constant(-1)
    if isinstance(target.type, ListType) and target.type.element is None:
        raise this.error("pop from an empty list")
    found = item(this.context, this.node, target, index)
    _changed(this, target, this.prelude("without_item", target, index))
    return found


def _reverse(this: Call, target: Value) -> Value:
    this.expect(0, 0)
    return _changed(this, target, this.prelude("reversed_list", target))


def _sort(this: Call, target: Value) -> Value:
    this.expect(0, 0)
    return _changed(this, target, this.prelude("sorted_list", target))


def _clear(this: Call, target: Value) -> Value:
    this.expect(0, 0)
    empty = this.context.convert(leaf(ListType(None)), target.type, this.node)
    return _changed(this, target, empty)


def _copy(this: Call, target: Value) -> Value:
    this.expect(0, 0)
    return leaf(target.type, target.ssa)


def _index(this: Call, target: Value) -> Value:
    this.expect(1, 1)
    return this.prelude("position_of", target, this.argument(0))


def _count(this: Call, target: Value) -> Value:
    this.expect(1, 1)
    return this.prelude("count_of", target, this.argument(0))


def _contains(this: Call, target: Value) -> Value:
    this.expect(1, 1)
    return contains(this.context, this.node, this.argument(0), target, this.variables)


_METHODS: dict[str, Callable[[Call, Value], Value]] = {
    "append": _append,
    "extend": _extend,
    "insert": _insert,
    "pop": _pop,
    "reverse": _reverse,
    "sort": _sort,
    "clear": _clear,
    "copy": _copy,
    "index": _index,
    "count": _count,
    "__contains__": _contains,
}

"""Comparisons: chains, `is None` and `in`."""

from __future__ import annotations

import ast

from . import arithmetic
from .context import Context
from .expressions import choose, evaluate
from .types import ANY, BOOL, INT, NONE, ListType, OptionalType, TupleType
from .values import Value, Variables, constant


def compare(context: Context, node: ast.Compare, variables: Variables) -> Value:
    """The value of a comparison, or of several in a row."""
    left = evaluate(context, node.left, variables)
    return _compare_chain(context, node, left, list(zip(node.ops, node.comparators, strict=True)), variables)


def _compare_chain(
    context: Context,
    node: ast.Compare,
    left: Value,
    links: list[tuple[ast.cmpop, ast.expr]],
    variables: Variables,
) -> Value:
    (op, right_node), *rest = links
    found, right = _link(context, node, left, op, right_node, variables)
    if not rest:
        return found
    return choose(
        context,
        node,
        found,
        lambda inner: _compare_chain(context, node, right, rest, inner),
        lambda _: constant(False),
        variables,
    )


def _link(
    context: Context,
    node: ast.Compare,
    left: Value,
    op: ast.cmpop,
    right_node: ast.expr,
    variables: Variables,
) -> tuple[Value, Value]:
    """One comparison, and the value of its right side."""
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(context, node, left, isinstance(op, ast.In), right_node, variables), constant(None)
    right = evaluate(context, right_node, variables, left.type if isinstance(left.type, ListType) else None)
    context.at(node)
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(context, node, left, right, isinstance(op, ast.Is)), right
    return arithmetic.compare(context, node, op, left, right), right


def _identity(context: Context, node: ast.Compare, left: Value, right: Value, positive: bool) -> Value:
    if left.type == right.type and left.type in (BOOL, INT):
        # Python has one object for each bool and each small int, such as a dtype.
        return arithmetic.compare(context, node, ast.Eq() if positive else ast.NotEq(), left, right)
    value = left if right.type == NONE else right
    if NONE not in (left.type, right.type):
        raise context.error(node, "`is` is supported with None only: write `==`")
    if value.type == NONE or not (isinstance(value.type, OptionalType) or value.type == ANY):
        return constant((value.type == NONE) == positive)
    return context.op("aten.__is__" if positive else "aten.__isnot__", BOOL, value, constant(None))


def _membership(
    context: Context, node: ast.Compare, left: Value, positive: bool, right: ast.expr, variables: Variables
) -> Value:
    if isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        elements = [evaluate(context, element, variables) for element in right.elts]
        found = _any_equal(context, node, left, elements)
    else:
        container = evaluate(context, right, variables)
        found = contains(context, node, left, container, variables)
    if positive:
        return found
    return constant(not found.constant) if found.known else context.op("aten.__not__", BOOL, found)


def contains(context: Context, node: ast.AST, value: Value, container: Value, variables: Variables) -> Value:
    """`value in container`."""
    if isinstance(container.type, TupleType):
        return _any_equal(context, node, value, list(container.elements))
    if isinstance(container.type, ListType):
        if container.type.element is None:
            return constant(False)
        return context.prelude("contains", [container, value], variables, node)
    raise context.error(node, f"`in` needs a list or a tuple, this is {container.type.python}")


def _any_equal(context: Context, node: ast.AST, value: Value, elements: list[Value]) -> Value:
    if not elements:
        return constant(False)
    first, *rest = elements
    found = arithmetic.compare(context, node, ast.Eq(), value, first)
    if not rest:
        return found
    return choose(
        context,
        node,
        found,
        lambda _: constant(True),
        lambda _: _any_equal(context, node, value, rest),
        Variables(),
    )

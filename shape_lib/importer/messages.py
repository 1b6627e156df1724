"""Messages of assertions and exceptions: `aten.format` with the values that are known when they are reported."""

from __future__ import annotations

import ast

from .context import Context
from .expressions import evaluate
from .types import BOOL, FLOAT, INT, STR
from .values import Value, Variables, constant

_SHOWN = (INT, FLOAT, BOOL, STR)


def exception_message(context: Context, kind: str, node: ast.expr | None, variables: Variables) -> Value:
    """``KIND: message``, the operand of `prim.RaiseException`."""
    template, values = _template(context, node, variables) if node is not None else ("", [])
    return _format(context, f"{kind}: ".replace("{", "{{") + template, values)


def formatted(context: Context, node: ast.JoinedStr, variables: Variables) -> Value:
    """The value of an f-string."""
    return _format(context, *_template(context, node, variables))


def _format(context: Context, template: str, values: list[Value]) -> Value:
    if not values:
        return constant(template.replace("{{", "{").replace("}}", "}"))
    return context.op("aten.format", STR, constant(template), *values)


def _template(context: Context, node: ast.expr, variables: Variables) -> tuple[str, list[Value]]:
    """A message as a template for `str.format`, and its values."""
    if isinstance(node, ast.Constant):
        return _escaped(str(node.value)), []
    if isinstance(node, ast.JoinedStr):
        parts = [_template(context, part, variables) for part in node.values]
        return "".join(text for text, _ in parts), [value for _, values in parts for value in values]
    if isinstance(node, ast.FormattedValue):
        text, values = _shown(context, node.value, variables)
        quoted = node.conversion == ord("r") and values and values[0].type == STR
        return (f"'{text}'" if quoted else text), values
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (_template(context, side, variables) for side in (node.left, node.right))
        return left[0] + right[0], left[1] + right[1]
    if _is_format_call(node):
        return _format_call(context, node, variables)
    return _shown(context, node, variables)


def _is_format_call(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    constant_text = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Constant)
    return constant_text and isinstance(function, ast.Attribute) and function.attr == "format"


def _format_call(context: Context, node: ast.expr, variables: Variables) -> tuple[str, list[Value]]:
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Attribute)
    assert isinstance(node.func.value, ast.Constant)
    pieces = str(node.func.value.value).split("{}")
    if len(pieces) != len(node.args) + 1 or node.keywords:
        return _escaped(str(node.func.value.value)), []
    text, values = _escaped(pieces[0]), []
    for argument, piece in zip(node.args, pieces[1:], strict=True):
        shown, found = _shown(context, argument, variables)
        text += shown + _escaped(piece)
        values += found
    return text, values


def _shown(context: Context, node: ast.expr, variables: Variables) -> tuple[str, list[Value]]:
    """A value in a message; lists and the like are named, since torch-mlir takes any use of one for a change."""
    with context.conditional():
        value = evaluate(context, node, variables)
    if value.known:
        return _escaped(str(value.constant)), []
    return ("{}", [value]) if value.type in _SHOWN else (_escaped(ast.unparse(node)), [])


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

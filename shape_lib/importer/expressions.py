"""Expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable

from . import arithmetic
from .context import Context
from .control import branch
from .narrowing import narrow
from .source import Constant, Function, Module
from .torch_names import torch_constant
from .types import BOOL, INT, ListType, OptionalType, TupleType, Type, join, optional
from .values import Value, Variables, constant, leaf, tuple_of


def evaluate(context: Context, node: ast.expr, variables: Variables, want: Type | None = None) -> Value:
    """The value of an expression; `want` helps where Python's syntax says no type (`[]`, `[None]`).

    Raises:
        ShapeLibraryError: for what is not supported, with the line.
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise context.error(node, _unsupported(node))
    context.at(node)
    return handler(context, node, variables, want)


def truth(context: Context, value: Value, node: ast.AST) -> Value:
    """`bool(value)` as `if` takes it."""
    if value.known:
        return constant(bool(value.constant))
    if value.type == BOOL:
        return value
    if isinstance(value.type, TupleType):
        return constant(bool(value.elements))
    if isinstance(value.type, OptionalType):
        return _optional_truth(context, value, node)
    return arithmetic.truth(context, value, node)


def _optional_truth(context: Context, value: Value, node: ast.AST) -> Value:
    assert isinstance(value.type, OptionalType)
    inner = value.type.inner
    there = context.op("aten.__isnot__", BOOL, value, constant(None))
    return choose(
        context,
        node,
        there,
        lambda _: truth(context, context.narrowed(value, inner), node),
        lambda _: constant(False),
        Variables(),
    )


def choose(
    context: Context,
    node: ast.AST,
    condition: Value,
    then: Callable[[Variables], Value],
    orelse: Callable[[Variables], Value],
    variables: Variables,
) -> Value:
    """`then` if `condition` else `orelse`, evaluated only then."""
    chosen = variables.copy()
    with context.conditional():
        branch(context, node, condition, _storing(then), _storing(orelse), chosen)
    if chosen.dead:
        raise context.error(node, "both sides of this expression raise")
    value = chosen.names["%value"]
    if value.problem:
        raise context.error(node, value.problem.replace("`value`", "this expression"))
    return value


def _storing(side: Callable[[Variables], Value]) -> Callable[[Variables], None]:
    def run(variables: Variables) -> None:
        variables.names["%value"] = side(variables)

    return run


# ---- names and literals


def _constant(context: Context, node: ast.Constant, variables: Variables, want: Type | None) -> Value:
    if isinstance(node.value, (bool, int, float, str, type(None))):
        return constant(node.value)
    raise context.error(
        node, f"{ast.unparse(node)} is not supported: shape functions know numbers, strings and None"
    )


def _name(context: Context, node: ast.Name, variables: Variables, want: Type | None) -> Value:
    found = variables.names.get(node.id)
    if found is not None:
        if found.problem:
            raise context.error(node, found.problem)
        return found
    return _global(context, node, context.sources.resolve(node.id, context.scope), want)


def _global(context: Context, node: ast.expr, meaning: object, want: Type | None) -> Value:
    if isinstance(meaning, Constant):
        with context.inside(meaning.scope):
            return evaluate(context, meaning.expression, Variables(), want)
    if isinstance(meaning, (bool, int, float, str)):
        return constant(meaning)
    text = ast.unparse(node)
    if isinstance(meaning, (Function, Module)):
        raise context.error(node, f"{text} can only be called")
    raise context.error(
        node,
        f"{text} is not known here: a shape function sees its arguments, its variables, constants of the module, "
        "and functions defined or imported with `def` and `import`",
    )


def meaning_of(context: Context, node: ast.expr, variables: Variables) -> object:
    """What a dotted name means as a module or a function; None if it is a value."""
    if isinstance(node, ast.Name):
        return None if node.id in variables.names else context.sources.resolve(node.id, context.scope)
    if isinstance(node, ast.Attribute):
        base = meaning_of(context, node.value, variables)
        return context.sources.attribute(base, node.attr) if isinstance(base, Module) else None
    return None


def _attribute(context: Context, node: ast.Attribute, variables: Variables, want: Type | None) -> Value:
    base = meaning_of(context, node.value, variables)
    if isinstance(base, Module):
        value = torch_constant(base.name, node.attr)
        if value is not None:
            return constant(value)
        return _global(context, node, context.sources.attribute(base, node.attr), want)
    raise context.error(node, f"{ast.unparse(node)}: values of shape functions have no attributes")


def _list(context: Context, node: ast.List, variables: Variables, want: Type | None) -> Value:
    wanted = want.inner if isinstance(want, OptionalType) else want
    element_type = wanted.element if isinstance(wanted, ListType) else None
    elements = [evaluate(context, element, variables, element_type) for element in node.elts]
    if element_type is None:
        element_type = common_type(context, elements, node)
    if element_type is None:
        return leaf(ListType(None))
    return context.list_of(elements, element_type, node)


def common_type(context: Context, values: list[Value], node: ast.AST) -> Type | None:
    """The type that all of `values` have; None if there are none.

    Raises:
        ShapeLibraryError: if there is no such type.
    """
    found: Type | None = None
    for value in values:
        joined = value.type if found is None else join(found, value.type)
        if joined is None:
            raise context.error(
                node, f"a list of {found.python if found else ''} and {value.type.python}: use a tuple"
            )
        found = joined
    return found


def _tuple(context: Context, node: ast.Tuple, variables: Variables, want: Type | None) -> Value:
    wants: list[Type | None] = [None] * len(node.elts)
    if isinstance(want, TupleType) and len(want.elements) == len(node.elts):
        wants = list(want.elements)
    if isinstance(want, ListType):
        wants = [want.element] * len(node.elts)
    pairs = zip(node.elts, wants, strict=True)
    return tuple_of(tuple(evaluate(context, element, variables, type_) for element, type_ in pairs))


# ---- operators


def _unary(context: Context, node: ast.UnaryOp, variables: Variables, want: Type | None) -> Value:
    value = evaluate(context, node.operand, variables)
    context.at(node)
    if isinstance(node.op, ast.Not):
        flag = truth(context, value, node)
        return constant(not flag.constant) if flag.known else context.op("aten.__not__", BOOL, flag)
    return arithmetic.unary(context, node, value)


def _binary(context: Context, node: ast.BinOp, variables: Variables, want: Type | None) -> Value:
    left = evaluate(context, node.left, variables, want if isinstance(node.op, ast.Add) else None)
    right = evaluate(context, node.right, variables, left.type if isinstance(left.type, ListType) else None)
    context.at(node)
    return arithmetic.binary(context, node, node.op, left, right)


def _bool(context: Context, node: ast.BoolOp, variables: Variables, want: Type | None) -> Value:
    """`and` and `or`: the rest is evaluated only where the first value does not decide, and sees it narrowed."""
    first, *others = node.values
    value = evaluate(context, first, variables)
    flag = truth(context, value, first)
    rest = others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(node.op, others), others[0])
    both = isinstance(node.op, ast.And)

    def go_on(inner: Variables) -> Value:
        narrow(context, first, inner, both)
        return evaluate(context, rest, inner, want)

    def decided(_: Variables) -> Value:
        return constant(not both) if value.type == BOOL else value

    then, orelse = (go_on, decided) if both else (decided, go_on)
    return choose(context, node, flag, then, orelse, variables)


def _if_expression(context: Context, node: ast.IfExp, variables: Variables, want: Type | None) -> Value:
    flag = truth(context, evaluate(context, node.test, variables), node.test)

    def side(expression: ast.expr, positive: bool) -> Callable[[Variables], Value]:
        def run(inner: Variables) -> Value:
            narrow(context, node.test, inner, positive)
            value = evaluate(context, expression, inner, want)
            return context.convert(value, want, expression) if want and _optional_of(want, value) else value

        return run

    return choose(context, node, flag, side(node.body, True), side(node.orelse, False), variables)


def _optional_of(want: Type, value: Value) -> bool:
    return want == optional(value.type) and want != value.type


# ---- subscripts


def _subscript(context: Context, node: ast.Subscript, variables: Variables, want: Type | None) -> Value:
    value = evaluate(context, node.value, variables)
    if isinstance(node.slice, ast.Slice):
        return _slice(context, node, node.slice, value, variables)
    index = evaluate(context, node.slice, variables)
    context.at(node)
    if isinstance(value.type, TupleType):
        return _tuple_item(context, node, value, index)
    if not isinstance(value.type, ListType) or value.type.element is None:
        hint = ": check `is not None` first" if isinstance(value.type, OptionalType) else ""
        raise context.error(node, f"{value.type.python} has no items{hint}")
    return item(context, node, value, index)


def item(context: Context, node: ast.AST, value: Value, index: Value) -> Value:
    """`value[index]` of a list."""
    assert isinstance(value.type, ListType)
    assert value.type.element is not None
    found = context.op("aten.__getitem__.t", value.type.element, value, context.convert(index, INT, node))
    context.contained |= found.roots
    return context.unpacked(found)


def _tuple_item(context: Context, node: ast.Subscript, value: Value, index: Value) -> Value:
    if not index.known or not isinstance(index.constant, int):
        raise context.error(node, "the index of a tuple must be a constant: use a list")
    if not -len(value.elements) <= index.constant < len(value.elements):
        raise context.error(node, f"this tuple has {len(value.elements)} elements")
    return value.elements[index.constant]


def _slice(
    context: Context, node: ast.Subscript, slice_: ast.Slice, value: Value, variables: Variables
) -> Value:
    parts = [slice_.lower, slice_.upper, slice_.step]
    bounds = [evaluate(context, part, variables) if part else constant(None) for part in parts]
    context.at(node)
    if isinstance(value.type, TupleType):
        return _tuple_slice(context, node, value, bounds)
    if not isinstance(value.type, ListType):
        raise context.error(node, f"{value.type.python} has no slices")
    if value.type.element is None:
        return leaf(ListType(None))
    return context.prelude("slice_list", [value, *bounds], variables, node)


def _tuple_slice(context: Context, node: ast.AST, value: Value, bounds: list[Value]) -> Value:
    if not all(bound.known for bound in bounds):
        raise context.error(node, "the bounds of a tuple's slice must be constants: use a list")
    return tuple_of(value.elements[slice(*(bound.constant for bound in bounds))])


# ---- what other modules handle


def _compare(context: Context, node: ast.Compare, variables: Variables, want: Type | None) -> Value:
    from .comparisons import compare

    return compare(context, node, variables)


def _call(context: Context, node: ast.Call, variables: Variables, want: Type | None) -> Value:
    from .calls import call

    return call(context, node, variables, want)


def _comprehension(context: Context, node: ast.ListComp, variables: Variables, want: Type | None) -> Value:
    from .iteration import comprehension

    element_type = want.element if isinstance(want, ListType) else None
    return comprehension(context, node, variables, element_type)


def _f_string(context: Context, node: ast.JoinedStr, variables: Variables, want: Type | None) -> Value:
    from .messages import formatted

    return formatted(context, node, variables)


def _unsupported(node: ast.AST) -> str:
    hints = {
        ast.Dict: "dictionaries are not supported: use a list, or if/elif",
        ast.Set: "sets are not supported outside `in`: use a list",
        ast.Lambda: "lambda is not supported: write a function with `def`",
        ast.DictComp: "dictionaries are not supported: use lists",
        ast.SetComp: "sets are not supported: use a list",
        ast.GeneratorExp: "a generator is supported in sum, any, all, max, min, list and sorted only",
        ast.NamedExpr: "`:=` is not supported: assign in a statement of its own",
        ast.Starred: "`*` is supported in calls only, on tuples",
        ast.Await: "await is not supported",
        ast.Yield: "yield is not supported: build a list",
    }
    return hints.get(type(node), f"`{ast.unparse(node)}` is not supported in a shape function")


_HANDLERS: dict[type, Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.List: _list,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _bool,
    ast.IfExp: _if_expression,
    ast.Compare: _compare,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.ListComp: _comprehension,
    ast.JoinedStr: _f_string,
}

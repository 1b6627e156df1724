"""What `for` and comprehensions run over: ranges, lists, tuples, enumerate, zip, reversed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from . import arithmetic
from .context import Context
from .control import branch, loop, nothing, unless_left
from .expressions import evaluate, item, truth
from .types import INT, ListType, OptionalType, TupleType, Type
from .values import BROKE, CONTINUED, Value, Variables, constant, leaf, tuple_of


@dataclass(frozen=True)
class Iterable:
    """Something to run over: its number of items and the item at a position.

    fixed: the items themselves where the source says how many there are; they may be of different types.
    over: the list that is run over, which must not change meanwhile.
    """

    length: Value
    item: Callable[[Value], Value]
    fixed: tuple[Value, ...] | None = None
    over: tuple[Value, ...] = ()


def iterate(context: Context, node: ast.expr, variables: Variables) -> Iterable:
    """What an expression after `in` stands for.

    Raises:
        ShapeLibraryError: if it cannot be run over.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in variables.names:
        builtin = _BUILTINS.get(node.func.id)
        if builtin is not None and context.sources.resolve(node.func.id, context.scope) is None:
            return builtin(context, node, variables)
    if isinstance(node, (ast.List, ast.Tuple)) and not any(isinstance(e, ast.Starred) for e in node.elts):
        return _fixed(tuple(evaluate(context, element, variables) for element in node.elts))
    return over_value(context, node, evaluate(context, node, variables))


def over_value(context: Context, node: ast.AST, value: Value) -> Iterable:
    if isinstance(value.type, TupleType):
        return _fixed(value.elements)
    if isinstance(value.type, ListType):
        if value.type.element is None:
            return _fixed(())
        size = arithmetic.length(context, value)
        return Iterable(size, lambda index: item(context, node, value, index), over=(value,))
    hint = ": check `is not None` first" if isinstance(value.type, OptionalType) else ""
    raise context.error(node, f"{value.type.python} cannot be run over{hint}")


def _fixed(elements: tuple[Value, ...]) -> Iterable:
    def no_item(index: Value) -> Value:
        assert index.known
        return elements[int(index.constant)]

    return Iterable(constant(len(elements)), no_item, elements)


def indexable(context: Context, node: ast.AST, iterable: Iterable) -> Iterable:
    """The same with an item at any position; fixed items become a list."""
    if iterable.fixed is None:
        return iterable
    from .expressions import common_type

    type_ = common_type(context, list(iterable.fixed), node)
    if type_ is None:
        return iterable
    return over_value(context, node, context.list_of(iterable.fixed, type_, node))


# ---- builtins


def _arguments(context: Context, node: ast.Call, least: int, most: int) -> list[ast.expr]:
    name = ast.unparse(node.func)
    if not least <= len(node.args) <= most or any(isinstance(a, ast.Starred) for a in node.args):
        raise context.error(node, f"{name} needs {least} to {most} arguments here")
    return node.args


def _no_keywords(context: Context, node: ast.Call, *allowed: str) -> None:
    for keyword in node.keywords:
        if keyword.arg not in allowed:
            raise context.error(node, f"{ast.unparse(node.func)}: `{keyword.arg}=` is not supported")


def _range(context: Context, node: ast.Call, variables: Variables) -> Iterable:
    _no_keywords(context, node)
    values = [evaluate(context, argument, variables) for argument in _arguments(context, node, 1, 3)]
    numbers = [context.convert(value, INT, node) for value in values]
    start = numbers[0] if len(numbers) > 1 else constant(0)
    stop = numbers[1] if len(numbers) > 1 else numbers[0]
    step = numbers[2] if len(numbers) > 2 else constant(1)
    context.at(node)
    length = _range_length(context, node, start, stop, step)

    def at(index: Value) -> Value:
        offset = arithmetic.binary(context, node, ast.Mult(), index, step) if not _is(step, 1) else index
        return offset if _is(start, 0) else arithmetic.binary(context, node, ast.Add(), start, offset)

    return Iterable(length, at)


def _range_length(context: Context, node: ast.AST, start: Value, stop: Value, step: Value) -> Value:
    """The number of rounds. It must not be negative: torch-mlir, unrolling that, ends the process."""
    if _is(step, 1) and _is(start, 0) and stop.ssa in context.sizes:
        return stop
    if _is(step, 1):
        distance = stop if _is(start, 0) else arithmetic.binary(context, node, ast.Sub(), stop, start)
        known = distance.known and isinstance(distance.constant, int)
        return (
            constant(max(0, distance.constant))
            if known
            else context.op("prim.max.int", INT, distance, constant(0))
        )
    return context.prelude("range_length", [start, stop, step], Variables(), node)


def _is(value: Value, number: int) -> bool:
    return value.known and value.constant == number


def _enumerate(context: Context, node: ast.Call, variables: Variables) -> Iterable:
    _no_keywords(context, node, "start")
    arguments = [*_arguments(context, node, 1, 2), *(keyword.value for keyword in node.keywords)]
    inner = iterate(context, arguments[0], variables)
    start = evaluate(context, arguments[1], variables) if len(arguments) > 1 else constant(0)

    def number(index: Value) -> Value:
        return index if _is(start, 0) else arithmetic.binary(context, node, ast.Add(), index, start)

    if inner.fixed is not None:
        pairs = [tuple_of((number(constant(i)), element)) for i, element in enumerate(inner.fixed)]
        return _fixed(tuple(pairs))
    return Iterable(inner.length, lambda index: tuple_of((number(index), inner.item(index))), over=inner.over)


def _zip(context: Context, node: ast.Call, variables: Variables) -> Iterable:
    _no_keywords(context, node, "strict")
    parts = [iterate(context, argument, variables) for argument in _arguments(context, node, 1, 20)]
    strict = any(
        k.arg == "strict" and isinstance(k.value, ast.Constant) and k.value.value for k in node.keywords
    )
    fixed = [part.fixed for part in parts if part.fixed is not None]
    if len(fixed) == len(parts):
        return _fixed(tuple(tuple_of(group) for group in zip(*fixed, strict=False)))
    parts = [indexable(context, node, part) for part in parts]
    length = parts[0].length
    for part in parts[1:]:
        if strict:
            _check_equal(context, node, length, part.length)
        length = arithmetic_min(context, length, part.length)
    over = tuple(value for part in parts for value in part.over)
    return Iterable(length, lambda index: tuple_of(tuple(part.item(index) for part in parts)), over=over)


def _check_equal(context: Context, node: ast.AST, left: Value, right: Value) -> None:
    differ = arithmetic.compare(context, node, ast.NotEq(), left, right)
    message = "ValueError: zip() arguments have different lengths"
    branch(context, node, differ, lambda v: arithmetic.raise_error(context, message, v), nothing, Variables())


def arithmetic_min(context: Context, left: Value, right: Value) -> Value:
    if left.known and right.known:
        return constant(min(left.constant, right.constant))
    return context.op("prim.min.int", INT, left, right)


def _reversed(context: Context, node: ast.Call, variables: Variables) -> Iterable:
    _no_keywords(context, node)
    inner = iterate(context, _arguments(context, node, 1, 1)[0], variables)
    if inner.fixed is not None:
        return _fixed(inner.fixed[::-1])

    def at(index: Value) -> Value:
        last = arithmetic.binary(context, node, ast.Sub(), inner.length, constant(1))
        return inner.item(arithmetic.binary(context, node, ast.Sub(), last, index))

    return Iterable(inner.length, at, over=inner.over)


_BUILTINS: dict[str, Callable[[Context, ast.Call, Variables], Iterable]] = {
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "reversed": _reversed,
}
NAMES = tuple(_BUILTINS)


# ---- targets and comprehensions


def bind(context: Context, target: ast.expr, value: Value, variables: Variables) -> None:
    """Assign to a name, or to several.

    Raises:
        ShapeLibraryError: if the shapes of both sides differ.
    """
    if isinstance(target, ast.Name):
        variables.names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part, element in unpack(context, target, value):
            bind(context, part, element, variables)
    else:
        raise context.error(target, f"assigning to {ast.unparse(target)} is not supported here")


def unpack(context: Context, target: ast.Tuple | ast.List, value: Value) -> list[tuple[ast.expr, Value]]:
    """The targets on the left of `a, b = value`, each with its value."""
    if any(isinstance(part, ast.Starred) for part in target.elts):
        raise context.error(target, "`*` on the left of `=` is not supported: take a slice")
    if isinstance(value.type, ListType) and value.type.element is not None:
        value = _unpacked_list(context, target, value)
    if not isinstance(value.type, TupleType):
        raise context.error(target, f"{value.type.python} cannot be unpacked")
    if len(value.elements) != len(target.elts):
        raise context.error(target, f"{len(value.elements)} values for {len(target.elts)} names")
    return list(zip(target.elts, value.elements, strict=True))


def _unpacked_list(context: Context, target: ast.Tuple | ast.List, value: Value) -> Value:
    """A list that must have as many elements as there are names."""
    size = arithmetic.length(context, value)
    differ = arithmetic.compare(context, target, ast.NotEq(), size, constant(len(target.elts)))
    message = f"ValueError: expected {len(target.elts)} values to unpack"
    branch(
        context, target, differ, lambda v: arithmetic.raise_error(context, message, v), nothing, Variables()
    )
    return tuple_of(tuple(item(context, target, value, constant(i)) for i in range(len(target.elts))))


def comprehension(
    context: Context,
    node: ast.ListComp | ast.GeneratorExp,
    variables: Variables,
    element_type: Type | None = None,
) -> Value:
    """The list that a comprehension or a generator makes."""
    inner = variables.copy()
    inner.names["%made"] = leaf(ListType(element_type), None)
    made = inner.names["%made"]
    if element_type is not None:
        inner.names["%made"] = context.convert(leaf(ListType(None)), made.type, node)

    def append(at: Variables) -> None:
        value = evaluate(context, node.elt, at, element_type)
        grown = appended(context, node, at.names["%made"], value)
        at.names["%made"] = grown

    with context.conditional():
        _generators(context, node, node.generators, append, inner)
    found = inner.names["%made"]
    return leaf(found.type, found.ssa)


def appended(context: Context, node: ast.AST, values: Value, value: Value) -> Value:
    """A new list: `values` with `value` at its end."""
    assert isinstance(values.type, ListType)
    if values.type.element is None:
        return context.list_of([value], value.type, node)
    return arithmetic.concatenated(context, node, values, context.list_of([value], values.type.element, node))


Body = Callable[[Variables], None]


def _generators(
    context: Context,
    node: ast.ListComp | ast.GeneratorExp,
    generators: list[ast.comprehension],
    body: Body,
    variables: Variables,
) -> None:
    first, *rest = generators

    def one(inner: Variables) -> None:
        conditions(inner, list(first.ifs))

    def conditions(inner: Variables, left: list[ast.expr]) -> None:
        if left:
            from .narrowing import narrow

            test, *others = left
            flag = truth(context, evaluate(context, test, inner), test)

            def holds(v: Variables) -> None:
                narrow(context, test, v, True)
                conditions(v, others)

            branch(context, node, flag, holds, nothing, inner)
        elif rest:
            _generators(context, node, rest, body, inner)
        else:
            body(inner)

    run_over(context, node, iterate(context, first.iter, variables), first.target, one, variables)


def run_over(
    context: Context, node: ast.AST, iterable: Iterable, target: ast.expr, body: Body, variables: Variables
) -> None:
    """Run `body` for every item, with `target` bound to it.

    The names that are bound here are the body's own unless they existed before, as far as later code can tell.
    """
    if iterable.fixed is not None:
        _unrolled(context, node, iterable.fixed, target, body, variables)
        return

    def one_round(index: Value, inner: Variables) -> None:
        before = [value.cell for value in iterable.over]
        changed = set(context.changed)
        bind(context, target, iterable.item(index), inner)
        body(inner)
        new = context.changed - changed
        if before and any(value.roots & new for value in iterable.over):
            raise context.error(node, "the list that is run over changes meanwhile: run over list(...) of it")

    loop(context, node, iterable.length, one_round, variables)


def _unrolled(
    context: Context,
    node: ast.AST,
    items: tuple[Value, ...],
    target: ast.expr,
    body: Body,
    variables: Variables,
) -> None:
    def rounds(inner: Variables, left: tuple[Value, ...]) -> None:
        if not left or inner.dead:
            return
        bind(context, target, left[0], inner)
        body(inner)
        inner.names.pop(CONTINUED, None)
        if not inner.dead and len(left) > 1:
            unless_left(context, node, inner, lambda v: rounds(v, left[1:]))

    variables.names.pop(BROKE, None)
    rounds(variables, items)
    variables.names.pop(BROKE, None)
    variables.names.pop(CONTINUED, None)


def run_elements(context: Context, node: ast.expr, body: Body, variables: Variables) -> None:
    """Run `body` for every element of a generator or of any other iterable, as `%item` for the latter."""
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        _generators(context, node, node.generators, body, variables)
        return
    target = ast.copy_location(ast.Name("%item", ast.Store()), node)
    run_over(context, node, iterate(context, node, variables), target, body, variables)

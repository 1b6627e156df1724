"""Statements."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from . import arithmetic, iteration
from .annotations import read_annotation
from .context import Context
from .control import branch, exit_flag, loop, nothing, unless_left
from .expressions import evaluate, truth
from .messages import exception_message
from .narrowing import narrow
from .types import INT, ListType
from .values import BROKE, CONTINUED, RESULT, RETURNED, Value, Variables, constant

# A `while` loop becomes a loop of so many rounds, most of which do nothing: enough to halve any int to nothing.
MOST_ROUNDS = 64


def run_block(context: Context, statements: list[ast.stmt], variables: Variables) -> None:
    """Run statements until one raises, returns, breaks or continues."""
    for position, statement in enumerate(statements):
        rest = statements[position + 1 :]
        if isinstance(statement, ast.If) and _if(context, statement, rest, variables):
            return
        if not isinstance(statement, ast.If):
            _statement(context, statement, variables)
        if variables.dead:
            return
        left = exit_flag(context, variables)
        if not left.known and rest:
            unless_left(context, statement, variables, partial(run_block, context, rest))
        if not left.known or left.constant:
            return


def _statement(context: Context, node: ast.stmt, variables: Variables) -> None:
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise context.error(node, _unsupported(node))
    context.at(node)
    handler(context, node, variables)


# ---- if


def _if(context: Context, node: ast.If, rest: list[ast.stmt], variables: Variables) -> bool:
    """Run an `if`; returns whether the statements after it ran too.

    Where only one side goes on after it, the rest belongs to that side: `if x: return a` has the rest as its else.
    """
    context.at(node)
    with context.whole(node.test):
        flag = truth(context, evaluate(context, node.test, variables), node.test)
    bodies = [node.body, node.orelse]
    going_on = [_goes_on(body) for body in bodies]
    leaving = [not on and _may_leave(body) for on, body in zip(going_on, bodies, strict=True)]
    consumed = flag.known or any(leaving)
    if consumed:
        bodies = [body + rest if on else body for body, on in zip(bodies, going_on, strict=True)]

    def side(body: list[ast.stmt], positive: bool) -> Callable[[Variables], None]:
        def run(inner: Variables) -> None:
            narrow(context, node.test, inner, positive)
            run_block(context, body, inner)

        return run

    branch(context, node, flag, side(bodies[0], True), side(bodies[1], False), variables)
    return consumed


def _goes_on(body: list[ast.stmt]) -> bool:
    """Whether control can come to the end of `body`, as far as its form tells."""
    return not any(_never_passes(statement) for statement in body)


def _never_passes(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
        return True
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and not statement.test.value
    return isinstance(statement, ast.If) and not _goes_on(statement.body) and not _goes_on(statement.orelse)


def _may_leave(body: list[ast.stmt]) -> bool:
    """Whether `body` has a return, break or continue, rather than only raising."""
    return any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for s in body for n in ast.walk(s))


# ---- loops


def _for(context: Context, node: ast.For, variables: Variables) -> None:
    if node.orelse:
        raise context.error(
            node, "`else` after a loop is not supported: use a variable that says how it ended"
        )
    iterable = iteration.iterate(context, node.iter, variables)
    context.at(node)
    iteration.run_over(
        context, node, iterable, node.target, lambda inner: run_block(context, node.body, inner), variables
    )


def _while(context: Context, node: ast.While, variables: Variables) -> None:
    if node.orelse:
        raise context.error(
            node, "`else` after a loop is not supported: use a variable that says how it ended"
        )

    def stop(inner: Variables) -> None:
        inner.names[BROKE] = constant(True)

    def body(inner: Variables) -> None:
        narrow(context, node.test, inner, True)
        run_block(context, node.body, inner)

    def one_round(_: Value, inner: Variables) -> None:
        flag = truth(context, evaluate(context, node.test, inner), node.test)
        branch(context, node, flag, body, stop, inner)

    ended = loop(context, node, constant(MOST_ROUNDS), one_round, variables)
    message = f"RuntimeError: a while loop in a shape function runs for more than {MOST_ROUNDS} rounds"

    def once_more(inner: Variables) -> None:
        flag = truth(context, evaluate(context, node.test, inner), node.test)
        branch(context, node, flag, lambda v: arithmetic.raise_error(context, message, v), nothing, inner)

    def check(inner: Variables) -> None:
        branch(context, node, ended, nothing, once_more, inner)

    unless_left(context, node, variables, check)


def _break(context: Context, node: ast.Break, variables: Variables) -> None:
    variables.names[BROKE] = constant(True)


def _continue(context: Context, node: ast.Continue, variables: Variables) -> None:
    variables.names[CONTINUED] = constant(True)


# ---- leaving


def _return(context: Context, node: ast.Return, variables: Variables) -> None:
    want = context.return_type
    with context.whole(node.value):
        value = evaluate(context, node.value, variables, want) if node.value else constant(None)
    variables.names[RESULT] = context.convert(value, want, node) if want is not None else value
    variables.names[RETURNED] = constant(True)


def _assert(context: Context, node: ast.Assert, variables: Variables) -> None:
    flag = truth(context, evaluate(context, node.test, variables), node.test)
    context.at(node)

    def fail(inner: Variables) -> None:
        narrow(context, node.test, inner, False)
        message = exception_message(context, "AssertionError", node.msg, inner)
        context.at(node)
        arithmetic.raise_error(context, message, inner)

    branch(context, node, flag, lambda inner: narrow(context, node.test, inner, True), fail, variables)


def _raise(context: Context, node: ast.Raise, variables: Variables) -> None:
    exception = node.exc
    arguments: list[ast.expr] = []
    if isinstance(exception, ast.Call):
        arguments, exception = exception.args, exception.func
    if not isinstance(exception, (ast.Name, ast.Attribute)):
        raise context.error(node, "raise needs an exception, as in `raise ValueError(message)`")
    kind = exception.id if isinstance(exception, ast.Name) else exception.attr
    message = exception_message(context, kind, arguments[0] if arguments else None, variables)
    context.at(node)
    arithmetic.raise_error(context, message, variables)


# ---- assignments


def _assign(context: Context, node: ast.Assign, variables: Variables) -> None:
    with context.whole(node.value):
        value = evaluate(context, node.value, variables)
    for target in node.targets:
        context.at(node)
        _store(context, node, target, value, variables)


def _store(context: Context, node: ast.stmt, target: ast.expr, value: Value, variables: Variables) -> None:
    if isinstance(target, (ast.Tuple, ast.List)) and any(
        isinstance(e, ast.Subscript) for e in ast.walk(target)
    ):
        for part, element in iteration.unpack(context, target, value):
            _store(context, node, part, element, variables)
        return
    if not isinstance(target, ast.Subscript):
        iteration.bind(context, target, value, variables)
        return
    container, index = _item_target(context, target, variables)
    _set_item(context, node, container, index, value, variables)


def _item_target(context: Context, target: ast.Subscript, variables: Variables) -> tuple[Value, Value]:
    if isinstance(target.slice, ast.Slice):
        raise context.error(target, "assigning to a slice is not supported: build the list with `+`")
    container = evaluate(context, target.value, variables)
    if not isinstance(container.type, ListType) or container.type.element is None:
        raise context.error(target, f"the items of {container.type.python} cannot be assigned")
    return container, context.convert(evaluate(context, target.slice, variables), INT, target)


def _set_item(
    context: Context, node: ast.stmt, container: Value, index: Value, value: Value, variables: Variables
) -> None:
    assert isinstance(container.type, ListType)
    assert container.type.element is not None
    element = context.convert(value, container.type.element, node)
    new = context.prelude("with_item", [container, index, element], variables, node)
    context.change_list(variables, container, new, node)


def _annotated(context: Context, node: ast.AnnAssign, variables: Variables) -> None:
    type_ = read_annotation(node.annotation, context.scope, context.sources)
    if not isinstance(node.target, ast.Name):
        raise context.error(node, "only names can be annotated")
    if node.value is not None:
        with context.whole(node.value):
            value = evaluate(context, node.value, variables, type_)
        variables.names[node.target.id] = context.convert(value, type_, node)


def _augmented(context: Context, node: ast.AugAssign, variables: Variables) -> None:
    if isinstance(node.target, ast.Subscript):
        container, index = _item_target(context, node.target, variables)
        from .expressions import item

        old = item(context, node, container, index)
        value = evaluate(context, node.value, variables)
        new = arithmetic.binary(context, node, node.op, old, value)
        _set_item(context, node, container, index, new, variables)
        return
    old = evaluate(context, node.target, variables)
    value = evaluate(context, node.value, variables, old.type if isinstance(old.type, ListType) else None)
    context.at(node)
    new = arithmetic.binary(context, node, node.op, old, value)
    if isinstance(old.type, ListType):
        # `+=` changes the list in place, for every name that it has.
        context.change_list(variables, old, new, node)
    else:
        iteration.bind(context, node.target, new, variables)


def _delete(context: Context, node: ast.Delete, variables: Variables) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Subscript):
            raise context.error(node, "del is supported for items of lists only")
        container, index = _item_target(context, target, variables)
        new = context.prelude("without_item", [container, index], variables, node)
        context.change_list(variables, container, new, node)


# ---- the rest


def _expression(context: Context, node: ast.Expr, variables: Variables) -> None:
    if not isinstance(node.value, ast.Constant):
        with context.whole(node.value):
            evaluate(context, node.value, variables)


def _pass(context: Context, node: ast.stmt, variables: Variables) -> None:
    """Nothing to do: `pass`, and imports, which names are followed through."""


def _unsupported(node: ast.stmt) -> str:
    hints = {
        ast.With: "`with` is not supported",
        ast.Try: "`try` is not supported: check with `if` or `assert`",
        ast.FunctionDef: "a function inside a function is not supported: define it outside",
        ast.ClassDef: "classes are not supported",
        ast.Global: "`global` is not supported: pass and return values",
        ast.Nonlocal: "`nonlocal` is not supported: pass and return values",
        ast.Match: "`match` is not supported: use if/elif",
        ast.AsyncFor: "`async` is not supported",
    }
    return hints.get(type(node), f"`{type(node).__name__}` is not supported in a shape function")


_HANDLERS: dict[type, Callable[..., None]] = {
    ast.For: _for,
    ast.While: _while,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Delete: _delete,
    ast.Expr: _expression,
    ast.Pass: _pass,
    ast.Import: _pass,
    ast.ImportFrom: _pass,
}

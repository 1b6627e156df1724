"""Calls: what is called, and the arguments of functions of the library."""

from __future__ import annotations

import ast

from .builtins import BUILTINS
from .call_site import Call
from .context import Context
from .expressions import evaluate, meaning_of
from .list_methods import call_method
from .source import Function, Module
from .types import TupleType, Type
from .values import Value, Variables


def call(context: Context, node: ast.Call, variables: Variables, want: Type | None) -> Value:
    """The value of a call.

    Raises:
        ShapeLibraryError: if it is unknown what is called, or with these arguments.
    """
    this = Call(context, node, variables, want)
    meaning = meaning_of(context, node.func, variables)
    if isinstance(meaning, Function):
        return _call_function(this, meaning)
    name = _builtin_name(this, meaning)
    if name is not None and name in BUILTINS:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise this.error(f"`*` in a call of {name} is not supported")
        return BUILTINS[name](this)
    if isinstance(node.func, ast.Attribute) and meaning is None and not _is_module(this, node.func.value):
        return call_method(this, node.func)
    raise this.error(_unknown(ast.unparse(node.func)))


def _builtin_name(this: Call, meaning: object) -> str | None:
    function = this.node.func
    if isinstance(function, ast.Name) and meaning is None and function.id not in this.variables.names:
        return function.id
    if isinstance(function, ast.Attribute) and _is_module(this, function.value):
        module = meaning_of(this.context, function.value, this.variables)
        return f"{module.name}.{function.attr}" if isinstance(module, Module) else None
    return None


def _is_module(this: Call, node: ast.expr) -> bool:
    return isinstance(meaning_of(this.context, node, this.variables), Module)


def _unknown(name: str) -> str:
    hints = {
        "print": "print is not supported: put values into the message of an assert",
        "isinstance": "isinstance is not supported: a variable has one type",
        "set": "sets are not supported: use a list",
        "dict": "dictionaries are not supported: use lists",
        "map": "map is not supported: write a comprehension",
        "filter": "filter is not supported: write a comprehension with `if`",
        "divmod": "divmod is not supported: write // and %",
    }
    fallback = (
        f"{name} is not known here: define it with `def`, import it, or write it with supported builtins"
    )
    return hints.get(name, fallback)


# ---- functions of the library


def _call_function(this: Call, function: Function) -> Value:
    arguments = _bound_arguments(this, function)
    this.context.at(this.node)
    return this.context.library.call(this.context, function, arguments, this.variables, this.node)


def _bound_arguments(this: Call, function: Function) -> list[Value]:
    """One value for each parameter: positional, by keyword, or the default."""
    parameters, defaults = signature(this.context, function)
    annotated = this.context.library.parameter_types(function)
    given: dict[str, Value] = {}
    position = 0
    for argument in this.node.args:
        for value in _positional(this, argument, annotated, parameters, position):
            if position >= len(parameters):
                raise this.error(f"{function.node.name} takes {len(parameters)} arguments")
            given[parameters[position]] = value
            position += 1
    for keyword in this.node.keywords:
        if keyword.arg is None or keyword.arg not in parameters:
            raise this.error(f"{function.node.name} has no argument `{keyword.arg or '**'}`")
        if keyword.arg in given:
            raise this.error(f"{function.node.name} gets `{keyword.arg}` twice")
        given[keyword.arg] = evaluate(this.context, keyword.value, this.variables, annotated.get(keyword.arg))
    return [_or_default(this, function, name, given, defaults, annotated) for name in parameters]


def _positional(
    this: Call, node: ast.expr, annotated: dict[str, Type | None], parameters: list[str], position: int
) -> list[Value]:
    if isinstance(node, ast.Starred):
        value = evaluate(this.context, node.value, this.variables)
        if not isinstance(value.type, TupleType):
            raise this.error("`*` in a call needs a tuple: the number of arguments must be known")
        return list(value.elements)
    want = annotated.get(parameters[position]) if position < len(parameters) else None
    return [evaluate(this.context, node, this.variables, want)]


def _or_default(
    this: Call,
    function: Function,
    name: str,
    given: dict[str, Value],
    defaults: dict[str, ast.expr],
    annotated: dict[str, Type | None],
) -> Value:
    if name in given:
        return given[name]
    if name not in defaults:
        raise this.error(f"{function.node.name} needs the argument `{name}`")
    with this.context.inside(function.scope):
        return evaluate(this.context, defaults[name], Variables(), annotated.get(name))


def signature(context: Context, function: Function) -> tuple[list[str], dict[str, ast.expr]]:
    """The names of a function's parameters and their default values.

    Raises:
        ShapeLibraryError: for `*args` and `**kwargs`.
    """
    arguments = function.node.args
    if arguments.vararg or arguments.kwarg:
        raise function.scope.error(
            function.node, f"{function.node.name}: `*args` and `**kwargs` are not supported"
        )
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(
        zip(
            [a.arg for a in positional[len(positional) - len(arguments.defaults) :]],
            arguments.defaults,
            strict=True,
        )
    )
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            defaults[argument.arg] = default
    return [argument.arg for argument in [*positional, *arguments.kwonlyargs]], defaults

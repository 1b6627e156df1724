"""Calls: Python's builtins and list methods as a table, and functions of the library."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass

from . import arithmetic, iteration
from .context import Context
from .control import branch, nothing
from .expressions import contains, evaluate, meaning_of, truth
from .source import Function, Module
from .types import BOOL, FLOAT, INT, NUMBER, STR, ListType, TupleType, Type
from .values import Value, Variables, constant, leaf, tuple_of


@dataclass(frozen=True)
class Call:
    """A call with its arguments evaluated on demand."""

    context: Context
    node: ast.Call
    variables: Variables
    want: Type | None

    def argument(self, index: int, want: Type | None = None) -> Value:
        return evaluate(self.context, self.node.args[index], self.variables, want)

    def arguments(self) -> list[Value]:
        return [self.argument(index) for index in range(len(self.node.args))]

    def prelude(self, name: str, *arguments: Value) -> Value:
        return self.context.prelude(name, list(arguments), self.variables, self.node)

    def keyword(self, name: str) -> Value | None:
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return evaluate(self.context, keyword.value, self.variables)
        return None

    def expect(self, least: int, most: int, *keywords: str) -> None:
        """Raises ShapeLibraryError unless there are so many arguments, and no keywords but these."""
        name = ast.unparse(self.node.func)
        unknown = [keyword.arg or "**" for keyword in self.node.keywords if keyword.arg not in keywords]
        if unknown:
            raise self.error(f"{name}: `{unknown[0]}=` is not supported")
        if not least <= len(self.node.args) <= most:
            raise self.error(f"{name} with {len(self.node.args)} arguments is not supported")

    def error(self, message: str) -> Exception:
        return self.context.error(self.node, message)


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
    if name is not None and name in _BUILTINS:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise this.error(f"`*` in a call of {name} is not supported")
        return _BUILTINS[name](this)
    if isinstance(node.func, ast.Attribute) and meaning is None and not _is_module(this, node.func.value):
        return _method(this, node.func)
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
    fallback = f"{name} is not known here: define it with `def`, import it, or write it with supported builtins"
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
        given[keyword.arg] = evaluate(
            this.context, keyword.value, this.variables, annotated.get(keyword.arg)
        )
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
        raise function.scope.error(function.node, f"{function.node.name}: `*args` and `**kwargs` are not supported")
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(
        zip([a.arg for a in positional[len(positional) - len(arguments.defaults) :]], arguments.defaults, strict=True)
    )
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            defaults[argument.arg] = default
    return [argument.arg for argument in [*positional, *arguments.kwonlyargs]], defaults


# ---- builtins


def _len(this: Call) -> Value:
    this.expect(1, 1)
    value = this.argument(0)
    if isinstance(value.type, TupleType):
        return constant(len(value.elements))
    if isinstance(value.type, ListType):
        return arithmetic.length(this.context, value)
    if value.type == STR:
        return this.context.op("aten.len.str", INT, value)
    raise this.error(f"{value.type.python} has no len")


def _extreme(name: str) -> Callable[[Call], Value]:
    over_list = {"max": "largest", "min": "smallest"}[name]

    def run(this: Call) -> Value:
        this.expect(1, 20)
        if len(this.node.args) == 1:
            return this.prelude(over_list, _as_list(this))
        first, *rest = this.arguments()
        for value in rest:
            first = _greater_or_less(this, name, first, value)
        return first

    return run


def _greater_or_less(this: Call, name: str, left: Value, right: Value) -> Value:
    if left.type == INT and right.type == INT:
        if left.known and right.known:
            return constant({"max": max, "min": min}[name](left.constant, right.constant))  # type: ignore[type-var]
        return this.context.op(f"prim.{name}.int", INT, left, right)
    wanted = FLOAT if {left.type, right.type} & {FLOAT, NUMBER} else INT
    left, right = (this.context.convert(value, wanted, this.node) for value in (left, right))
    op = ast.Gt() if name == "max" else ast.Lt()
    second = arithmetic.compare(this.context, this.node, op, right, left)
    found = Variables({"%value": left})

    def other(variables: Variables) -> None:
        variables.names["%value"] = right

    branch(this.context, this.node, second, other, nothing, found)
    return found.names["%value"]


def _as_list(this: Call, index: int = 0) -> Value:
    """An argument as a list: a list itself, or what a generator, a range or a tuple gives."""
    node = this.node.args[index]
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return iteration.comprehension(this.context, node, this.variables)
    iterable = iteration.iterate(this.context, node, this.variables)
    if len(iterable.over) == 1 and iterable.fixed is None and not isinstance(node, ast.Call):
        return iterable.over[0]
    return _collected(this, iterable)


def _collected(this: Call, iterable: iteration.Iterable) -> Value:
    """A new list of all items."""
    variables = this.variables.copy()
    variables.names["%made"] = leaf(ListType(None))
    target = ast.copy_location(ast.Name("%item", ast.Store()), this.node)

    def append(inner: Variables) -> None:
        made, value = inner.names["%made"], inner.names["%item"]
        inner.names["%made"] = iteration.appended(this.context, this.node, made, value)

    with this.context.conditional():
        iteration.run_over(this.context, this.node, iterable, target, append, variables)
    made = variables.names["%made"]
    return leaf(made.type, made.ssa)


def _list(this: Call) -> Value:
    this.expect(0, 1)
    if not this.node.args:
        return leaf(ListType(None))
    node = this.node.args[0]
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return iteration.comprehension(this.context, node, this.variables)
    iterable = iteration.iterate(this.context, node, this.variables)
    if len(iterable.over) == 1 and iterable.fixed is None and not isinstance(node, ast.Call):
        value = iterable.over[0]
        return leaf(value.type, this.context.ssa(value))
    return _collected(this, iterable)


def _tuple(this: Call) -> Value:
    this.expect(1, 1)
    iterable = iteration.iterate(this.context, this.node.args[0], this.variables)
    if iterable.fixed is None:
        raise this.error("tuple(...) of a list has no known length: keep it a list")
    return tuple_of(iterable.fixed)


def _sum(this: Call) -> Value:
    this.expect(1, 2, "start")
    start = this.argument(1) if len(this.node.args) > 1 else this.keyword("start") or constant(0)
    values = _as_list(this)
    assert isinstance(values.type, ListType)
    if values.type.element is None:
        return start
    if values.type.element in (FLOAT, NUMBER):
        start = this.context.convert(start, FLOAT, this.node)
    return this.prelude("total", values, start)


def _product(this: Call) -> Value:
    this.expect(1, 1, "start")
    start = this.keyword("start") or constant(1)
    values = _as_list(this)
    assert isinstance(values.type, ListType)
    if values.type.element is None:
        return start
    if values.type.element in (FLOAT, NUMBER):
        start = this.context.convert(start, FLOAT, this.node)
    return this.prelude("product", values, start)


def _any_or_all(name: str) -> Callable[[Call], Value]:
    decides = name == "any"

    def run(this: Call) -> Value:
        """The rest is not evaluated once an element decides, as in Python."""
        this.expect(1, 1)
        variables = this.variables.copy()
        variables.names["%value"] = constant(not decides)
        node = this.node.args[0]

        def decide(inner: Variables) -> None:
            inner.names["%value"] = constant(decides)

        def look(inner: Variables) -> None:
            test = node.elt if isinstance(node, (ast.GeneratorExp, ast.ListComp)) else None
            value = evaluate(this.context, test, inner) if test is not None else inner.names["%item"]
            flag = truth(this.context, value, node)
            sides = (decide, nothing) if decides else (nothing, decide)
            branch(this.context, node, flag, *sides, inner)

        def unless_decided(inner: Variables) -> None:
            decided = inner.names["%value"]
            sides = (nothing, look) if decides else (look, nothing)
            branch(this.context, node, decided, *sides, inner)

        with this.context.conditional():
            iteration.run_elements(this.context, node, unless_decided, variables)
        return variables.names["%value"]

    return run


def _int(this: Call) -> Value:
    this.expect(1, 1)
    value = this.argument(0)
    if value.known and isinstance(value.constant, (bool, int, float)) and math.isfinite(value.constant):
        return constant(int(value.constant))
    names = {INT: None, BOOL: "aten.Int.bool", FLOAT: "aten.Int.float", NUMBER: "aten.Int.Scalar"}
    if value.type not in names:
        raise this.error(f"int() of {value.type.python} is not supported")
    name = names[value.type]  # type: ignore[index]
    return this.context.op(name, INT, value) if name else value


def _float(this: Call) -> Value:
    this.expect(1, 1)
    value = this.argument(0)
    if value.known and value.type == STR and str(value.constant).lower().lstrip("+-") in ("inf", "nan", "infinity"):
        return constant(float(str(value.constant)))
    if value.type == BOOL:
        value = this.context.convert(value, INT, this.node)
    return this.context.convert(value, FLOAT, this.node)


def _bool(this: Call) -> Value:
    this.expect(1, 1)
    return truth(this.context, this.argument(0), this.node)


def _str(this: Call) -> Value:
    this.expect(1, 1)
    value = this.argument(0)
    return value if value.type == STR else this.context.op("aten.format", STR, constant("{}"), value)


def _abs(this: Call) -> Value:
    this.expect(1, 1)
    value = this.argument(0)
    negated = arithmetic.unary(this.context, ast.copy_location(ast.UnaryOp(ast.USub(), this.node), this.node), value)
    if value.type == BOOL:
        value = this.context.convert(value, INT, this.node)
    return _greater_or_less(this, "max", value, negated)


def _ceil(this: Call) -> Value:
    return _rounded_up(this, negate=False)


def _floor(this: Call) -> Value:
    return _rounded_up(this, negate=True)


def _rounded_up(this: Call, *, negate: bool) -> Value:
    """`math.ceil`; `math.floor(x)` is `-ceil(-x)`."""
    this.expect(1, 1)
    value = this.argument(0)
    if value.type in (INT, BOOL):
        return this.context.convert(value, INT, this.node)
    value = this.context.convert(value, FLOAT, this.node)
    if value.known:
        return constant((math.floor if negate else math.ceil)(value.constant))  # type: ignore[arg-type]
    if negate:
        value = this.context.op("aten.neg.float", FLOAT, value)
    found = this.context.op("aten.ceil.float", INT, value)
    return this.context.op("aten.neg.int", INT, found) if negate else found


def _round(this: Call) -> Value:
    this.expect(1, 1)
    value = this.argument(0)
    if value.type in (INT, BOOL):
        return this.context.convert(value, INT, this.node)
    return this.prelude("rounded", this.context.convert(value, FLOAT, this.node))


def _sqrt(this: Call) -> Value:
    this.expect(1, 1)
    value = this.argument(0)
    if value.type != INT:
        raise this.error("math.sqrt of a float is not supported")
    return this.context.op("aten.sqrt.int", FLOAT, value)


def _gcd(this: Call) -> Value:
    this.expect(2, 2)
    return this.prelude("greatest_common_divisor", *this.arguments())


def _sorted(this: Call) -> Value:
    this.expect(1, 1)
    return this.prelude("sorted_list", _as_list(this))


def _as_sequence(this: Call) -> Value:
    """`range`, `zip` and the like where a value is needed: the list of their items."""
    return _collected(this, iteration.iterate(this.context, this.node, this.variables))


_BUILTINS: dict[str, Callable[[Call], Value]] = {
    "len": _len,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "sum": _sum,
    "any": _any_or_all("any"),
    "all": _any_or_all("all"),
    "list": _list,
    "tuple": _tuple,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "abs": _abs,
    "round": _round,
    "sorted": _sorted,
    "range": _as_sequence,
    "reversed": _as_sequence,
    "math.ceil": _ceil,
    "math.floor": _floor,
    "math.trunc": _int,
    "math.prod": _product,
    "math.sqrt": _sqrt,
    "math.gcd": _gcd,
}


# ---- methods of lists


def _method(this: Call, function: ast.Attribute) -> Value:
    target = evaluate(this.context, function.value, this.variables)
    method = _METHODS.get(function.attr)
    if method is None or not isinstance(target.type, ListType):
        raise this.error(f"`{function.attr}` of {target.type.python} is not supported: lists know {', '.join(_METHODS)}")
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
    return _changed(this, target, arithmetic.concatenated(this.context, this.node, target, _as_list(this)))


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
    from .expressions import item

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

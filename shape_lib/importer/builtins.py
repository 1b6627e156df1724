"""Python's builtins, and what `math` has of use for sizes."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

from . import arithmetic, iteration
from .call_site import Call
from .control import branch, nothing
from .expressions import evaluate, truth
from .types import BOOL, FLOAT, INT, NUMBER, STR, ListType, TupleType, Type
from .values import Value, Variables, constant, leaf, tuple_of


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
            return this.prelude(over_list, as_list(this))
        first, *rest = this.arguments()
        for value in rest:
            first = _greater_or_less(this, name, first, value)
        return first

    return run


def _greater_or_less(this: Call, name: str, left: Value, right: Value) -> Value:
    if left.type == INT and right.type == INT:
        if left.known and right.known:
            return constant({"max": max, "min": min}[name](left.constant, right.constant))
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


def as_list(this: Call, index: int = 0) -> Value:
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
    start = this.argument(1) if len(this.node.args) > 1 else this.keyword("start")
    return _folded(this, "total", start or constant(0))


def _product(this: Call) -> Value:
    this.expect(1, 1, "start")
    return _folded(this, "product", this.keyword("start") or constant(1))


def _folded(this: Call, prelude: str, start: Value) -> Value:
    """All elements of a list put together by a function of the prelude."""
    values = as_list(this)
    assert isinstance(values.type, ListType)
    if values.type.element is None:
        return start
    if values.type.element in (FLOAT, NUMBER):
        start = this.context.convert(start, FLOAT, this.node)
    return this.prelude(prelude, values, start)


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
    names: dict[Type, str] = {
        INT: "",
        BOOL: "aten.Int.bool",
        FLOAT: "aten.Int.float",
        NUMBER: "aten.Int.Scalar",
    }
    if value.type not in names:
        raise this.error(f"int() of {value.type.python} is not supported")
    name = names[value.type]
    return this.context.op(name, INT, value) if name else value


def _float(this: Call) -> Value:
    this.expect(1, 1)
    value = this.argument(0)
    if (
        value.known
        and value.type == STR
        and str(value.constant).lower().lstrip("+-") in ("inf", "nan", "infinity")
    ):
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
    negated = arithmetic.unary(
        this.context, ast.copy_location(ast.UnaryOp(ast.USub(), this.node), this.node), value
    )
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
        return constant((math.floor if negate else math.ceil)(value.constant))
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
    return this.prelude("sorted_list", as_list(this))


def _as_sequence(this: Call) -> Value:
    """`range`, `zip` and the like where a value is needed: the list of their items."""
    return _collected(this, iteration.iterate(this.context, this.node, this.variables))


BUILTINS: dict[str, Callable[[Call], Value]] = {
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

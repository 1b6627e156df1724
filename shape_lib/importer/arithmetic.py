"""Numbers and comparisons, with Python's meaning.

torch-mlir folds `aten.remainder.int` as C does (-1 % 3 is -1, and x % 0 ends the process), `0.0 / 0.0` to 0.0, and
compares lists before they are complete. So remainders are corrected, divisors checked, and lists compared element
by element.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from .context import Context
from .control import branch, nothing
from .types import BOOL, FLOAT, INT, NONE, NUMBER, STR, ListType, OptionalType, TupleType, Type
from .values import Value, Variables, constant, leaf, tuple_of

_NAMES: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
    ast.Mod: "remainder",
    ast.Div: "div",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
_PYTHON: dict[type, Callable[..., object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_NUMBERS = (BOOL, INT, FLOAT, NUMBER)
_NO_VARIABLES = Variables()


# ---- unary


def unary(context: Context, node: ast.UnaryOp, value: Value) -> Value:
    value = _as_number(context, node, value)
    if isinstance(node.op, ast.UAdd):
        return value
    if not isinstance(node.op, ast.USub):
        raise context.error(node, "bitwise `~` is not supported")
    if value.known:
        return constant(-value.constant)
    return context.op(f"aten.neg.{value.type.text}", value.type, value)


def truth(context: Context, value: Value, node: ast.AST) -> Value:
    """Whether a number, string or list is not zero or empty."""
    if value.type == INT:
        return context.op("aten.Bool.int", BOOL, value)
    if value.type in (FLOAT, NUMBER):
        return context.op("aten.Bool.float", BOOL, context.convert(value, FLOAT, node))
    if value.type == STR:
        return context.op("aten.ne.str", BOOL, value, constant(""))
    if isinstance(value.type, ListType):
        return greater(context, length(context, value), constant(0))
    raise context.error(node, f"{value.type.python} is not a condition: compare it with something")


def length(context: Context, value: Value) -> Value:
    """`len` of a list."""
    if isinstance(value.type, ListType) and value.type.element is None:
        return constant(0)
    found = context.op("aten.len.t", INT, value)
    assert found.ssa is not None
    context.sizes.add(found.ssa)
    return found


def greater(context: Context, left: Value, right: Value) -> Value:
    return context.op("aten.gt.int", BOOL, left, right)


# ---- binary


def binary(context: Context, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """`left op right`.

    Raises:
        ShapeLibraryError: for operators and types that are not supported.
    """
    if left.known and right.known and (folded := _folded(op, left, right)) is not None:
        return folded
    if isinstance(left.type, TupleType) and isinstance(right.type, TupleType) and isinstance(op, ast.Add):
        return tuple_of(left.elements + right.elements)
    if isinstance(left.type, ListType) or isinstance(right.type, ListType):
        return _lists(context, node, op, left, right)
    if left.type == STR and right.type == STR and isinstance(op, ast.Add):
        return context.op("aten.add.str", STR, left, right)
    return _numbers(context, node, op, left, right)


def _folded(op: ast.operator | ast.cmpop, left: Value, right: Value) -> Value | None:
    function = _PYTHON.get(type(op))
    if function is None:
        return None
    try:
        result = function(left.constant, right.constant)
    except (ArithmeticError, TypeError, ValueError):
        return None
    too_wide = type(result) is int and not -(2**63) <= result < 2**63
    return constant(result) if type(result) in (bool, int, float, str) and not too_wide else None


def _numbers(context: Context, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    left, right = (_as_number(context, node, value) for value in (left, right))
    if isinstance(op, ast.Pow):
        return _power(context, node, left, right)
    if type(op) not in _NAMES:
        raise context.error(
            node, f"the operator of `{ast.unparse(node)}` is not supported in a shape function"
        )
    if isinstance(op, ast.Div):
        return _true_division(context, node, left, right)
    if left.type == INT and right.type == INT:
        return _integers(context, node, op, left, right)
    left, right = (context.convert(value, FLOAT, node) for value in (left, right))
    if isinstance(op, (ast.FloorDiv, ast.Mod)):
        name = "float_floor_division" if isinstance(op, ast.FloorDiv) else "float_remainder"
        return context.prelude(name, [left, right], _NO_VARIABLES, node)
    return context.op(f"aten.{_NAMES[type(op)]}.float", FLOAT, left, right)


def _as_number(context: Context, node: ast.AST, value: Value) -> Value:
    if value.type == BOOL:
        return context.convert(value, INT, node)
    if value.type == NUMBER:
        return context.convert(value, FLOAT, node)
    if value.type in (INT, FLOAT):
        return value
    hint = ": check `is not None` first" if isinstance(value.type, OptionalType) or value.type == NONE else ""
    raise context.error(node, f"`{ast.unparse(node)}` computes with {value.type.python}{hint}")


def _integers(context: Context, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(op, (ast.FloorDiv, ast.Mod)):
        compute = _quotient if isinstance(op, ast.FloorDiv) else _remainder
        message = "integer division or modulo by zero"
        return _unless_zero(context, node, right, message, lambda: compute(context, node, left, right))
    return context.op(f"aten.{_NAMES[type(op)]}.int", INT, left, right)


def _quotient(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    return context.op("aten.floordiv.int", INT, left, right)


def _remainder(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    if not right.known:
        # Folding a remainder by zero would end the process, even where it is never computed.
        whole = context.op("aten.mul.int", INT, _quotient(context, node, left, right), right)
        return context.op("aten.sub.int", INT, left, whole)
    remainder = context.op("aten.remainder.int", INT, left, right)
    return _with_sign_of(context, node, remainder, right)


def _with_sign_of(context: Context, node: ast.AST, remainder: Value, divisor: Value) -> Value:
    """The remainder with the divisor's sign, as in Python; torch-mlir gives it the dividend's."""
    below_zero = context.op("aten.lt.int", BOOL, remainder, constant(0))
    divisor_below_zero = constant(divisor.constant < 0)
    other_sign = compare(context, node, ast.NotEq(), below_zero, divisor_below_zero)
    variables = Variables({"%value": remainder})

    def corrected(inner: Variables) -> None:
        inner.names["%value"] = context.op("aten.add.int", INT, remainder, divisor)

    def unless_zero(inner: Variables) -> None:
        branch(
            context, node, context.op("aten.eq.int", BOOL, remainder, constant(0)), nothing, corrected, inner
        )

    branch(context, node, other_sign, unless_zero, nothing, variables)
    return variables.names["%value"]


def _unless_zero(
    context: Context, node: ast.AST, divisor: Value, message: str, compute: Callable[[], Value]
) -> Value:
    """What `compute` gives; ZeroDivisionError where the divisor is zero."""
    if divisor.known and divisor.constant != 0:
        return compute()
    zero = constant(0 if divisor.type == INT else 0.0)
    is_zero = compare(context, node, ast.Eq(), divisor, zero)
    variables = Variables()

    def computed(inner: Variables) -> None:
        inner.names["%value"] = compute()

    def fail(inner: Variables) -> None:
        raise_error(context, f"ZeroDivisionError: {message}", inner)

    branch(context, node, is_zero, fail, computed, variables)
    if variables.dead:
        return context.op("prim.Uninitialized", divisor.type)
    return variables.names["%value"]


def raise_error(context: Context, message: str | Value, variables: Variables) -> None:
    """Raise: nothing after this is reached."""
    text = constant(message) if isinstance(message, str) else message
    context.builder.op("prim.RaiseException", [context.ssa(text), context.ssa(constant(None))])
    variables.dead = True


def _true_division(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    name = "int" if left.type == INT and right.type == INT else "float"
    if name == "float":
        left, right = (context.convert(value, FLOAT, node) for value in (left, right))
    return _unless_zero(
        context,
        node,
        right,
        "division by zero",
        lambda: context.op(f"aten.div.{name}", FLOAT, left, right),
    )


def _power(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    if left.type == INT and right.type == INT:
        return context.prelude("integer_power", [left, right], _NO_VARIABLES, node)
    if left.type == INT and right.type == FLOAT:
        return context.op("aten.pow.int_float", FLOAT, left, right)
    raise context.error(node, "`**` needs an int on its left")


def _lists(context: Context, node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(op, ast.Mult):
        if isinstance(left.type, ListType):
            return _repeated(context, node, left, right)
        return _repeated(context, node, right, left)
    if isinstance(op, ast.Add) and isinstance(left.type, ListType) and isinstance(right.type, ListType):
        return concatenated(context, node, left, right)
    raise context.error(node, f"`{ast.unparse(node)}`: lists know `+` with a list and `*` with an int")


def concatenated(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    """A new list of both lists' elements."""
    assert isinstance(left.type, ListType)
    assert isinstance(right.type, ListType)
    wanted = left.type if left.type.element is not None else right.type
    if wanted.element is None:
        return leaf(wanted)
    left, right = context.convert(left, wanted, node), context.convert(right, wanted, node)
    return context.op("aten.add.t", wanted, left, right)


def _repeated(context: Context, node: ast.AST, value: Value, count: Value) -> Value:
    if isinstance(value.type, ListType) and value.type.element is None:
        return leaf(value.type)
    return context.prelude("repeat_list", [value, context.convert(count, INT, node)], _NO_VARIABLES, node)


# ---- comparisons


def compare(context: Context, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    """`left op right` for `==`, `!=` and the order of numbers.

    Raises:
        ShapeLibraryError: for types that Python orders or compares and we do not.
    """
    if left.known and right.known and (folded := _folded(op, left, right)) is not None:
        return folded
    if isinstance(op, ast.NotEq) and not (left.type in _NUMBERS and right.type in _NUMBERS):
        equal = compare(context, node, ast.Eq(), left, right)
        return constant(not equal.constant) if equal.known else context.op("aten.__not__", BOOL, equal)
    if isinstance(op, ast.Eq):
        return _equal(context, node, left, right)
    return _ordered(context, node, op, left, right)


def _equal(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    if isinstance(left.type, TupleType) and isinstance(right.type, TupleType):
        return _equal_tuples(context, node, left, right)
    if isinstance(left.type, ListType) and isinstance(right.type, ListType):
        return _equal_lists(context, node, left, right)
    if NONE in (left.type, right.type) or OptionalType in (type(left.type), type(right.type)):
        return _equal_optionals(context, node, left, right)
    if left.type == STR and right.type == STR:
        return context.op("aten.eq.str", BOOL, left, right)
    return _ordered(context, node, ast.Eq(), left, right)


def _equal_tuples(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    if len(left.elements) != len(right.elements):
        return constant(False)
    variables = Variables({"%value": constant(True)})

    def next_pair(inner: Variables, position: int) -> None:
        if position == len(left.elements):
            return
        same = compare(context, node, ast.Eq(), left.elements[position], right.elements[position])

        def differs(v: Variables) -> None:
            v.names["%value"] = constant(False)

        branch(context, node, same, lambda v: next_pair(v, position + 1), differs, inner)

    next_pair(variables, 0)
    return variables.names["%value"]


def _equal_lists(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    assert isinstance(left.type, ListType)
    assert isinstance(right.type, ListType)
    if left.type.element is None or right.type.element is None:
        lengths = (length(context, left), length(context, right))
        return compare(context, node, ast.Eq(), *lengths)
    return context.prelude("lists_equal", [left, right], _NO_VARIABLES, node)


def _equal_optionals(context: Context, node: ast.AST, left: Value, right: Value) -> Value:
    """`x == y` where one may be None; that is never equal to a number."""
    maybe, other = (left, right) if isinstance(left.type, OptionalType) else (right, left)
    if not isinstance(maybe.type, OptionalType):
        return constant(left.type == right.type)
    there = context.op("aten.__isnot__", BOOL, maybe, constant(None))
    inner = maybe.type.inner
    variables = Variables({"%value": constant(False)})

    def both(v: Variables) -> None:
        v.names["%value"] = compare(context, node, ast.Eq(), context.narrowed(maybe, inner), other)

    def neither(v: Variables) -> None:
        v.names["%value"] = compare(context, node, ast.Eq(), constant(None), other)

    branch(context, node, there, both, neither, variables)
    return variables.names["%value"]


def _ordered(context: Context, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value:
    if left.type not in _NUMBERS or right.type not in _NUMBERS:
        raise context.error(
            node, f"`{ast.unparse(node)}` compares {left.type.python} with {right.type.python}"
        )
    name = _NAMES[type(op)]
    if left.type == BOOL and right.type == BOOL and name in ("eq", "ne"):
        return context.op(f"aten.{name}.bool", BOOL, left, right)
    left, right = (_as_number(context, node, value) for value in (left, right))
    if left.type == INT and right.type == INT:
        return context.op(f"aten.{name}.int", BOOL, left, right)
    left, right = (context.convert(value, FLOAT, node) for value in (left, right))
    if name == "le":
        return context.op("aten.ge.float", BOOL, right, left)
    if name == "ne":
        return context.op("aten.__not__", BOOL, context.op("aten.eq.float", BOOL, left, right))
    return context.op(f"aten.{name}.float", BOOL, left, right)


def type_name(type_: Type) -> str:
    return type_.python

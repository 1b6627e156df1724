"""Torch dialect operations on numbers, strings and None, with Python's meaning, also where one is unknown."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from .values import Partial, Unknown, Value, is_natural, kind_of

# By name without the overload: Python's operators tell ints from floats by themselves.
KNOWN: dict[str, Callable[..., Value]] = {
    "aten.add": operator.add,
    "aten.sub": operator.sub,
    "aten.mul": operator.mul,
    "aten.div": operator.truediv,
    "aten.floordiv": operator.floordiv,
    "aten.remainder": operator.mod,
    "aten.pow": operator.pow,
    "aten.neg": operator.neg,
    "aten.eq": operator.eq,
    "aten.ne": operator.ne,
    "aten.lt": operator.lt,
    "aten.le": operator.le,
    "aten.gt": operator.gt,
    "aten.ge": operator.ge,
    "aten.__and__": operator.and_,
    "aten.__or__": operator.or_,
    "aten.__not__": operator.not_,
    "aten.__is__": operator.is_,
    "aten.__isnot__": operator.is_not,
    "aten.Int": int,
    "aten.Float": float,
    "aten.Bool": bool,
    "aten.IntImplicit": int,
    "aten.FloatImplicit": float,
    "aten.ceil": math.ceil,
    "aten.sqrt": math.sqrt,
    "aten.log": math.log,
    "aten.str": str,
    "aten.len": len,
    "prim.abs": abs,
    "prim.max": max,
    "prim.min": min,
    "aten.__range_length": lambda low, high, step: len(range(low, high, step)),
    "aten.__derive_index": lambda index, start, step: start + index * step,
}


def compute(name: str, operands: list[Value], unknown: Value) -> Value:
    """The result of the operation `name` (``aten.add.int``). unknown: its result where nothing is known.

    Raises what Python raises (ArithmeticError, ValueError, TypeError), and LookupError for an unknown name.
    """
    base = base_name(name)
    function = KNOWN[base]
    if all(is_known(operand) for operand in operands):
        return function(*operands)
    partly = _PARTLY_KNOWN.get(base)
    found = partly(*operands) if partly else None
    return unknown if found is None else found


def base_name(name: str) -> str:
    """``aten.add`` for ``aten.add.int``."""
    return ".".join(name.split(".")[:2])


def is_known(value: Value) -> bool:
    """Whether every part of `value` is known."""
    if isinstance(value, tuple):
        return all(is_known(part) for part in value)
    return not isinstance(value, (Unknown, Partial))


def _sum(*operands: Value) -> Value:
    if all(isinstance(operand, str) for operand in operands):
        return Partial("".join(operands))
    return _natural_if_all(*operands)


def _natural_if_all(*operands: Value) -> Value:
    return Unknown.NATURAL if all(is_natural(operand) for operand in operands) else None


def _product(a: Value, b: Value) -> Value:
    factors = {a, b} if type(a) is int or type(b) is int else set()
    return 0 if factors == {0, Unknown.NATURAL} else _natural_if_all(a, b)


def _division(a: Value, b: Value) -> Value:
    if _is_number(b) and b == 0:
        raise ZeroDivisionError("division by zero")
    return _natural_if_all(a, b)


def _maximum(*operands: Value) -> Value:
    ints = all(kind_of(operand) is Unknown.INT for operand in operands)
    return Unknown.NATURAL if ints and any(is_natural(operand) for operand in operands) else None


def _identity(a: Value, b: Value) -> Value:
    """Only comparisons with None are known, and only of what cannot be None."""
    values = [value for value in (a, b) if value is not None]
    if len(values) != 1 or not isinstance(values[0], Unknown):
        return None
    return None if values[0] in (Unknown.ANYTHING, Unknown.UNSET) else False


def _not_identity(a: Value, b: Value) -> Value:
    return None if _identity(a, b) is None else True


def _is_number(value: Value) -> bool:
    return type(value) in (int, float)


def _bounds(value: Value) -> tuple[float, float] | None:
    """The least and the greatest that `value` can be, where it is a number or a natural one."""
    if value is Unknown.NATURAL:
        return 0, math.inf
    return (value, value) if _is_number(value) else None


def _less(a: Value, b: Value) -> Value:
    left, right = _bounds(a), _bounds(b)
    if left is None or right is None:
        return None
    return True if left[1] < right[0] else False if left[0] >= right[1] else None


def _less_or_equal(a: Value, b: Value) -> Value:
    left, right = _bounds(a), _bounds(b)
    if left is None or right is None:
        return None
    return True if left[1] <= right[0] else False if left[0] > right[1] else None


def _equal(a: Value, b: Value) -> Value:
    return False if _less(a, b) or _less(b, a) else None


def _different(a: Value, b: Value) -> Value:
    return None if _equal(a, b) is None else True


_PARTLY_KNOWN: dict[str, Callable[..., Value]] = {
    "aten.add": _sum,
    "aten.mul": _product,
    "aten.floordiv": _division,
    "aten.remainder": _division,
    "aten.Int": _natural_if_all,
    "prim.max": _maximum,
    "prim.min": _natural_if_all,
    "aten.__derive_index": _natural_if_all,
    "aten.lt": _less,
    "aten.le": _less_or_equal,
    "aten.gt": lambda a, b: _less(b, a),
    "aten.ge": lambda a, b: _less_or_equal(b, a),
    "aten.eq": _equal,
    "aten.ne": _different,
    "aten.__is__": _identity,
    "aten.__isnot__": _not_identity,
}

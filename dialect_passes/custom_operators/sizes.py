"""Integers over the sizes of a call's tensors, some of which are known only when the program runs.

A launch function computes with them as with integers; what is static is a plain ``int`` at once. The rest
becomes index arithmetic in the compiled program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "max": max,
    "min": min,
}


@dataclass(frozen=True, eq=False)
class Size:
    """A size that is not known yet: a dimension of a tensor operand, or arithmetic on such.

    operation: "dim" (operands: number of the flattened tensor operand, number of its dimension), or one of
    ``+ - * // % max min`` (operands: sizes or integers). Comparing one or using it as a number raises TypeError:
    a decision that depends on it cannot be made when the program is compiled.
    """

    operation: str
    operands: tuple[int | Size, int | Size]

    def __add__(self, other: int | Size) -> int | Size:
        return combine("+", self, other)

    def __radd__(self, other: int) -> int | Size:
        return combine("+", other, self)

    def __sub__(self, other: int | Size) -> int | Size:
        return combine("-", self, other)

    def __rsub__(self, other: int) -> int | Size:
        return combine("-", other, self)

    def __mul__(self, other: int | Size) -> int | Size:
        return combine("*", self, other)

    def __rmul__(self, other: int) -> int | Size:
        return combine("*", other, self)

    def __floordiv__(self, other: int | Size) -> int | Size:
        return combine("//", self, other)

    def __rfloordiv__(self, other: int) -> int | Size:
        return combine("//", other, self)

    def __mod__(self, other: int | Size) -> int | Size:
        return combine("%", self, other)

    def __rmod__(self, other: int) -> int | Size:
        return combine("%", other, self)

    def __neg__(self) -> int | Size:
        return combine("-", 0, self)

    def _undecided(self, *_: object) -> NoReturn:
        raise TypeError(
            f"the size {self} is known only when the program runs: it cannot be compared or converted; "
            "use + - * // %, ceildiv, maximum and minimum, or refuse dynamic sizes (raise Refused(...))"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _undecided
    __bool__ = __int__ = __index__ = __float__ = _undecided
    __hash__ = object.__hash__

    def __str__(self) -> str:
        left, right = self.operands
        if self.operation == "dim":
            return f"size({left}, {right})"
        if self.operation in ("max", "min"):
            return f"{self.operation}({left}, {right})"
        return f"({left} {self.operation} {right})"


def combine(operation: str, left: int | Size, right: int | Size) -> int | Size:
    """`left` `operation` `right`, as a plain integer where both are known.

    Raises TypeError for what is no integer, ZeroDivisionError for a known divisor of zero.
    """
    for value in (left, right):
        if not isinstance(value, (int, Size)):
            raise TypeError(f"a size takes integers and sizes, not {value!r}")
    if isinstance(left, int) and isinstance(right, int):
        return _FOLD[operation](left, right)
    if isinstance(right, int) and right == 0 and operation in ("//", "%"):
        raise ZeroDivisionError(f"{left} is divided by zero")
    alone = _without_neutral(operation, left, right)
    return Size(operation, (left, right)) if alone is None else alone


def _without_neutral(operation: str, left: int | Size, right: int | Size) -> Size | None:
    """The operand that is all of the result (x * 1, 0 + x), where one is."""
    neutral = {"+": 0, "-": 0, "*": 1, "//": 1}.get(operation)
    if isinstance(left, Size) and isinstance(right, int) and right == neutral:
        return left
    if isinstance(right, Size) and isinstance(left, int) and left == neutral and operation in "+*":
        return right
    return None


def ceildiv(value: int | Size, divisor: int | Size) -> int | Size:
    """`value` / `divisor`, rounded up: the workgroups of `divisor` elements that `value` elements need."""
    return -((-value) // divisor)


def maximum(left: int | Size, right: int | Size) -> int | Size:
    """The larger of two sizes."""
    return combine("max", left, right)


def minimum(left: int | Size, right: int | Size) -> int | Size:
    """The smaller of two sizes."""
    return combine("min", left, right)

"""Numbers inside of a loop's body: Python arithmetic that writes `arith` and `math` operations.

Functions of one element read as Python, and become one loop whatever they compute; made of tensor operations they
would be torn into several, with their intermediate values in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

Operand = Any
"""A `Scalar`, or a Python number that becomes one of the other operand's type."""

_PREDICATES_INT = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5, "ult": 6, "ule": 7, "uge": 9}
_PREDICATES_FLOAT = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5, "une": 13}


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number of an integer or float type. Integers have no sign; comparisons and shifts say which they mean."""

    value: ir.Value

    @property
    def type(self) -> Any:
        """Its MLIR type."""
        return self.value.type

    @property
    def width(self) -> int:
        """Its bits."""
        return self.type.width

    @property
    def is_float(self) -> bool:
        """Whether it is no integer."""
        return isinstance(self.type, ir.FloatType)

    def like(self, number: Operand) -> Scalar:
        """`number` as a constant of this type; a Scalar is returned as it is."""
        return number if isinstance(number, Scalar) else constant(self.type, number)

    def _arith(self, name: str, other: Operand) -> Scalar:
        suffix = "f" if self.is_float else "i"
        return operation(f"arith.{name}{suffix}", self.type, self, self.like(other))

    def __add__(self, other: Operand) -> Scalar:
        return self._arith("add", other)

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Scalar:
        return self._arith("sub", other)

    def __rsub__(self, other: Operand) -> Scalar:
        return self.like(other)._arith("sub", self)

    def __mul__(self, other: Operand) -> Scalar:
        return self._arith("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Scalar:
        return operation("arith.divf", self.type, self, self.like(other))

    def __rtruediv__(self, other: Operand) -> Scalar:
        return self.like(other) / self

    def __neg__(self) -> Scalar:
        return operation("arith.negf", self.type, self) if self.is_float else 0 - self

    def __and__(self, other: Operand) -> Scalar:
        return self._arith("and", other)

    def __or__(self, other: Operand) -> Scalar:
        return self._arith("or", other)

    def __xor__(self, other: Operand) -> Scalar:
        return self._arith("xor", other)

    def __invert__(self) -> Scalar:
        return self ^ -1

    def __lshift__(self, bits: Operand) -> Scalar:
        return self._shift("arith.shli", bits)

    def __rshift__(self, bits: Operand) -> Scalar:
        """Zeros come in from above."""
        return self._shift("arith.shrui", bits)

    def signed_shift(self, bits: Operand) -> Scalar:
        """To the right; the sign comes in from above."""
        return self._shift("arith.shrsi", bits)

    def _shift(self, name: str, bits: Operand) -> Scalar:
        """Where IREE emulates 64 bits by twice 32, a shift by a zero that it does not know is wrong."""
        if self.width < 64 or not isinstance(bits, Scalar):
            return operation(name, self.type, self, self.like(bits))
        nowhere = bits.compare("eq", 0)
        return select(nowhere, self, operation(name, self.type, self, select(nowhere, 1, bits)))

    def compare(self, predicate: str, other: Operand) -> Scalar:
        """A bit: "eq", "slt", "ult", ... of integers, "eq", "lt", ..., "une" (true of NaN) of floats."""
        table = _PREDICATES_FLOAT if self.is_float else _PREDICATES_INT
        code = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), table[predicate])
        name = "arith.cmpf" if self.is_float else "arith.cmpi"
        return operation(name, _bit(), self, self.like(other), predicate=code)

    def bits(self) -> Scalar:
        """A float's bits as an integer."""
        return operation("arith.bitcast", ir.IntegerType.get_signless(self.width), self)

    def as_float(self, type_: ir.Type) -> Scalar:
        """The float of these bits."""
        return operation("arith.bitcast", type_, self)

    def signed_zero(self) -> Scalar:
        """A float's sign, on zero."""
        return (self.bits() & (1 << (self.width - 1))).as_float(self.type)

    def abs(self) -> Scalar:
        """A float without its sign."""
        return operation("math.absf", self.type, self)

    def with_sign_of(self, other: Scalar) -> Scalar:
        """A float that is not negative, with the sign of another."""
        return (self.bits() | other.signed_zero().bits()).as_float(self.type)

    def exp(self) -> Scalar:
        """Of a float."""
        return operation("math.exp", self.type, self)

    def log(self) -> Scalar:
        """Of a float, to the base e."""
        return operation("math.log", self.type, self)

    def sqrt(self) -> Scalar:
        """Of a float."""
        return operation("math.sqrt", self.type, self)

    def floor(self) -> Scalar:
        """A float rounded down."""
        return operation("math.floor", self.type, self)

    def resized(self, width: int) -> Scalar:
        """An integer without sign in so many bits."""
        if width == self.width:
            return self
        name = "arith.extui" if width > self.width else "arith.trunci"
        return operation(name, ir.IntegerType.get_signless(width), self)

    def signed_resized(self, width: int) -> Scalar:
        """An integer with sign in so many bits."""
        narrow = width <= self.width
        return (
            self.resized(width)
            if narrow
            else operation("arith.extsi", ir.IntegerType.get_signless(width), self)
        )

    def signed_quotient(self, divisor: Operand) -> Scalar:
        """Of integers with signs, rounded towards zero."""
        return operation("arith.divsi", self.type, self, self.like(divisor))

    def signed_remainder(self, divisor: Operand) -> Scalar:
        """Of integers with signs, with the sign of the first."""
        return operation("arith.remsi", self.type, self, self.like(divisor))

    def unsigned_remainder(self, divisor: Operand) -> Scalar:
        """Of integers without signs."""
        return operation("arith.remui", self.type, self, self.like(divisor))

    def widened(self) -> Scalar:
        """A float of 16 bits in 32."""
        return operation("arith.extf", ir.F32Type.get(), self)

    def narrowed(self, type_: ir.Type) -> Scalar:
        """An f32 in 16 bits."""
        return operation("arith.truncf", type_, self)

    def rounded(self, type_: ir.Type) -> Scalar:
        """An f32 as near as one of 16 bits comes: conversions there and back IREE may leave out."""
        if type_ == self.type:
            return self
        bits = self.bits()
        lost = 16 if isinstance(type_, ir.BF16Type) else 13
        even = ((bits >> lost) & 1) + ((1 << (lost - 1)) - 1)
        value = ((bits + even) & ~((1 << lost) - 1)).as_float(self.type)
        if lost == 13:
            size = self.abs()
            small = select(size.compare("lt", 2.0**-14), (self + 0.75) - 0.75, value)
            value = select(size.compare("ge", 65520.0), self * math.inf, small)
        return select(self.compare("une", self), self, value)

    def signed_to(self, type_: ir.Type) -> Scalar:
        """An integer with a sign as a float."""
        return operation("arith.sitofp", type_, self)

    def multiply_wide(self, other: Operand) -> tuple[Scalar, Scalar]:
        """The upper and the lower half of a product without signs.

        Not by `arith.mului_extended`, which IREE does not lower everywhere.
        """
        if self.width == 32:
            product = self.resized(64) * self.like(other).resized(64)
            return (product >> 32).resized(32), product.resized(32)
        other, half = self.like(other), (1 << 32) - 1
        low, middle = (self & half) * (other & half), (self >> 32) * (other & half)
        crossed = (self & half) * (other >> 32) + (low >> 32) + (middle & half)
        return (self >> 32) * (other >> 32) + (middle >> 32) + (crossed >> 32), self * other


def _bit() -> ir.Type:
    return ir.IntegerType.get_signless(1)


def constant(type_: Any, number: float) -> Scalar:
    """A number of the given type; integers wrap."""
    if isinstance(type_, ir.IntegerType):
        top = 1 << (type_.width - 1)
        attribute: ir.Attribute = ir.IntegerAttr.get(type_, (int(number) + top) % (2 * top) - top)
    else:
        attribute = ir.FloatAttr.get(type_, float(number))
    return operation("arith.constant", type_, value=attribute)


def select(condition: Scalar, yes: Operand, no: Operand) -> Scalar:
    """`yes` where the condition holds; one of both is a Scalar."""
    known = yes if isinstance(yes, Scalar) else no
    assert isinstance(known, Scalar)
    return operation("arith.select", known.type, condition, known.like(yes), known.like(no))


def polynomial(x: Scalar, coefficients: Sequence[Operand]) -> Scalar:
    """The polynomial with these coefficients, highest power first (Horner)."""
    value = x.like(coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def operation(name: str, type_: ir.Type, *operands: Scalar, **attributes: ir.Attribute) -> Scalar:
    """The result of an operation at the insertion point."""
    return Scalar(_create(name, [type_], operands, attributes).results[0])


def _create(name: str, types: Any, operands: Any, attributes: dict[str, ir.Attribute]) -> ir.Operation:
    values = [operand.value for operand in operands]
    return ir.Operation.create(name, list(types), values, attributes).operation


FLOATS = frozenset({"float32", "float64"})
HALVES = frozenset({"float16", "bfloat16"})
INTEGERS = frozenset({"int16", "int32", "int64"})
BYTES = frozenset({"int8", "uint8"})


@dataclass(frozen=True)
class Body:
    """What a function of elements becomes: of the operands' elements, which have these dtypes, those of the results.

    An element of another type than its result's is taken for the bits of that.
    """

    function: Callable[..., Scalar | tuple[Scalar, ...]]
    dtypes: frozenset[str] = FLOATS


def repeat(
    condition: Callable[..., Scalar], step: Callable[..., Sequence[Scalar]], *initial: Scalar
) -> list[Scalar]:
    """The values after as many steps as the condition holds before one."""
    types = [value.type for value in initial]
    loop = ir.Operation.create("scf.while", types, [value.value for value in initial], regions=2)
    before, after = (region.blocks.append(*types) for region in loop.regions)
    with ir.InsertionPoint(before):
        holds = condition(*map(Scalar, before.arguments))
        ir.Operation.create("scf.condition", operands=[holds.value, *before.arguments])
    with ir.InsertionPoint(after):
        ir.Operation.create("scf.yield", operands=[x.value for x in step(*map(Scalar, after.arguments))])
    return [*map(Scalar, loop.results)]

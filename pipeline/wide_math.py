"""Exponential functions in float64 for shaders, which have them up to 32 bits only (runs in the worker).

Before:  %y = math.exp %x : f64
After:   arithmetic, in the same loop: of `arith` operations that every device has, and no integers of 64 bits
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from iree.compiler import ir

_LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 32 bits, so that its multiples by exponents are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_POWERS = [2**bit for bit in range(10)]


def expand_wide_math(module: ir.Module) -> None:
    """Rewrites exp, log and their kin of f64 in `module`, in place."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _FUNCTIONS and str(op.results[0].type) == "f64":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op in found:
        _expand(op)


def _expand(op: ir.Operation) -> None:
    module = ir.Module.parse(_definition(op.name), op.context)
    block = module.body.operations[0].regions[0].blocks[0]
    block.arguments[0].replace_all_uses_with(op.operands[0])
    *operations, end = block.operations
    op.result.replace_all_uses_with(end.operands[0])
    for inner in operations:
        inner.operation.move_before(op)
    op.erase()


@functools.cache
def _definition(name: str) -> str:
    """A function that does what the operation `name` does, as text."""
    lines: list[str] = []
    result = _FUNCTIONS[name](Number("%x", "f64", lines, itertools.count()))
    return "\n".join(["func.func @f(%x: f64) -> f64 {", *lines, f"return {result.name} : f64 }}"])


@dataclass(frozen=True, eq=False)
class Number:
    """A value of a function that is being written, one line for each operation."""

    name: str
    type: str
    lines: list[str]
    numbers: Iterator[int]

    def _line(self, text: str, type_: str) -> Number:
        name = f"%{next(self.numbers)}"
        self.lines.append(f"{name} = {text}")
        return Number(name, type_, self.lines, self.numbers)

    def like(self, value: Number | float) -> Number:
        """`value` as a constant of this type."""
        if isinstance(value, Number):
            return value
        bits = (
            ir.FloatAttr.get(ir.F64Type.get(), value) if self.type == "f64" else f"{int(value)} : {self.type}"
        )
        return self._line(f"arith.constant {bits}", self.type)

    def _arith(self, name: str, other: Number | float) -> Number:
        suffix = "f" if self.type == "f64" else "i"
        return self._line(
            f"arith.{name}{suffix} {self.name}, {self.like(other).name} : {self.type}", self.type
        )

    def __add__(self, other: Number | float) -> Number:
        return self._arith("add", other)

    def __sub__(self, other: Number | float) -> Number:
        return self._arith("sub", other)

    def __rsub__(self, other: float) -> Number:
        return self.like(other)._arith("sub", self)

    def __mul__(self, other: Number | float) -> Number:
        return self._arith("mul", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self._arith("div", other)

    def __rtruediv__(self, other: float) -> Number:
        return self.like(other)._arith("div", self)

    def __and__(self, other: int) -> Number:
        return self._arith("and", other)

    def compare(self, predicate: str, other: Number | float) -> Number:
        """A bit: "olt", "oeq", ..., "une" (true of NaN)."""
        kind = "f" if self.type == "f64" else "i"
        other = self.like(other)
        return self._line(f"arith.cmp{kind} {predicate}, {self.name}, {other.name} : {self.type}", "i1")

    def select(self, yes: Number | float, no: Number) -> Number:
        """By this bit."""
        yes = no.like(yes)
        return self._line(f"arith.select {self.name}, {yes.name}, {no.name} : {no.type}", no.type)

    def floor(self) -> Number:
        """Rounded down."""
        return self._line(f"math.floor {self.name} : f64", "f64")

    def whole(self) -> Number:
        """As an int32."""
        return self._line(f"arith.fptosi {self.name} : f64 to i32", "i32")

    def abs(self) -> Number:
        """Without its sign."""
        return self._line(f"math.absf {self.name} : f64", "f64")


def _exp(x: Number) -> Number:
    """2^n times a power series of the rest, which is at most ln(2) / 2."""
    bounded = x.compare("ogt", 720.0).select(720.0, x)
    bounded = bounded.compare("olt", -760.0).select(-760.0, bounded)
    n = (bounded * (1 / math.log(2)) + 0.5).floor()
    rest = (bounded - n * _LN2_HIGH) - n * _LN2_LOW
    series = _series([1 / math.factorial(k) for k in range(14)], rest)
    half = (n * 0.5).floor()
    value = series * _power_of_two(half) * _power_of_two(n - half)
    return x.compare("une", x).select(x, value)


def _series(coefficients: list[float], x: Number) -> Number:
    result = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def _power_of_two(n: Number) -> Number:
    """2^n for a whole n of at most 10 bits: a product of the powers whose bits are there."""
    size, result = n.abs().whole(), n.like(1.0)
    for power in _POWERS:
        result = result * (size & power).compare("ne", 0).select(2.0**power, n.like(1.0))
    return n.compare("olt", 0.0).select(1.0 / result, result)


def _log(x: Number) -> Number:
    """Of m 2^n, m between the roots of 1/2 and 2, by the series of artanh."""
    m, n = x, x.like(0.0)
    for power in (512, *reversed(_POWERS)):
        large, small = m.compare("oge", 2.0**power), m.compare("olt", 2.0 ** (1 - power))
        m, n = large.select(m * 2.0**-power, m), large.select(n + power, n)
        m, n = small.select(m * 2.0**power, m), small.select(n - power, n)
    wide = m.compare("ogt", math.sqrt(2))
    m, n = wide.select(m * 0.5, m), wide.select(n + 1.0, n)
    ratio = (m - 1.0) / (m + 1.0)
    series = _series([2 / (2 * k + 1) for k in range(12)], ratio * ratio)
    value = n * _LN2_HIGH + (ratio * series + n * _LN2_LOW)
    value = x.compare("oeq", math.inf).select(x, value)
    value = x.compare("oeq", 0.0).select(-math.inf, value)
    return x.compare("oge", 0.0).select(value, x.like(math.nan))


def _expm1(x: Number) -> Number:
    """Near zero by its own series. Not by what rounding leaves of exp(x) - 1: drivers cancel such terms."""
    series = _series([1 / math.factorial(k) for k in range(1, 15)], x) * x
    return x.abs().compare("olt", 0.4).select(series, _exp(x) - 1.0)


def _log1p(x: Number) -> Number:
    """Near zero by the series of artanh."""
    ratio = x / (x + 2.0)
    series = ratio * _series([2 / (2 * k + 1) for k in range(12)], ratio * ratio)
    return x.abs().compare("olt", 0.4).select(series, _log(x + 1.0))


def _sinh(x: Number) -> Number:
    size = x.abs()
    e = _expm1(size)
    value = size.compare("ogt", 30.0).select(_exp(size) * 0.5, (e + e / (e + 1.0)) * 0.5)
    value = x.compare("olt", 0.0).select(0.0 - value, value)
    return x.compare("oeq", 0.0).select(x, value)


def _cosh(x: Number) -> Number:
    e = _exp(x.abs())
    return e * 0.5 + 0.5 / e


def _atanh(x: Number) -> Number:
    return _log1p(x * 2.0 / (1.0 - x)) * 0.5


_FUNCTIONS: dict[str, Callable[[Number], Number]] = {
    "math.exp": _exp,
    "math.log": _log,
    "math.expm1": _expm1,
    "math.log1p": _log1p,
    "math.sinh": _sinh,
    "math.cosh": _cosh,
    "math.atanh": _atanh,
}

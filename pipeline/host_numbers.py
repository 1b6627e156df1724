"""Whole numbers of f64 between dispatches, by their bits: IREE's virtual machine has no such conversion (3.13.0).

Sizes are computed so where a model multiplies open ones with a float, as `interpolate(x, scale_factor=1.7)` does.

Before:  %n = arith.fptosi %x : f64 to i64
After:   the mantissa of %x, shifted by its exponent, with its sign
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import arith

_MANTISSA_BITS = 52
_BIAS = 1023
# Of numbers that i64 can hold, both are the same.
_CONVERSIONS = ("arith.fptosi", "arith.fptoui")


def convert_host_floats(module: ir.Module) -> None:
    """Rewrites the conversions that stand directly in the functions of `module`."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _CONVERSIONS and op.parent.name == "func.func" and _is_f64(op.operands[0]):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with ir.Location.unknown(module.context):
        for op in found:
            with ir.InsertionPoint(op):
                whole = _truncated(op.operands[0])
                result = op.results[0].type
                whole = whole if result == whole.type else arith.trunci(result, whole)
            op.results[0].replace_all_uses_with(whole)
            op.erase()


def _is_f64(value: ir.Value) -> bool:
    return isinstance(value.type, ir.F64Type)


def _truncated(x: ir.Value) -> ir.Value:
    """As i64, towards zero. What i64 cannot hold has no defined value."""
    bits = arith.bitcast(_i64(), x)
    exponent = arith.andi(arith.shrui(bits, _number(_MANTISSA_BITS)), _number(0x7FF))
    mantissa = arith.ori(arith.andi(bits, _number((1 << _MANTISSA_BITS) - 1)), _number(1 << _MANTISSA_BITS))
    places = arith.subi(_number(_BIAS + _MANTISSA_BITS), exponent)
    # A shift by 64 or more has no defined value.
    right = arith.shrui(mantissa, _between(places, 0, 63))
    left = arith.shli(mantissa, _between(arith.subi(_number(0), places), 0, 63))
    small = arith.cmpi(arith.CmpIPredicate.sge, places, _number(0))
    size = arith.select(small, right, left)
    negative = arith.cmpi(arith.CmpIPredicate.slt, bits, _number(0))
    return arith.select(negative, arith.subi(_number(0), size), size)


def _between(value: ir.Value, low: int, high: int) -> ir.Value:
    return arith.minsi(arith.maxsi(value, _number(low)), _number(high))


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)


def _number(value: int) -> ir.Value:
    return arith.constant(_i64(), value)

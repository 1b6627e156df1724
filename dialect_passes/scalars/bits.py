"""Functions that look at the bits of floats: neighbours, and mantissas with their exponents.

They see numbers below the normal ones as such, where arithmetic takes them for zero.
"""

from __future__ import annotations

import math

from torch_mlir import ir

from .values import Scalar, select


def digits_of(type_: ir.Type) -> int:
    """The stored bits of a mantissa."""
    widths = ((ir.F16Type, 10), (ir.BF16Type, 7), (ir.F32Type, 23), (ir.F64Type, 52))
    return next(digits for kind, digits in widths if isinstance(type_, kind))


def infinity_of(type_: ir.FloatType) -> int:
    """The bits of infinity: those of NaN are above it, and those of finite numbers below."""
    digits = digits_of(type_)
    return ((1 << (type_.width - 1 - digits)) - 1) << digits


def reinterpret(x: Scalar) -> Scalar:
    """The same bits. Of a byte they are computed: a loop that only copies is folded away, with the change of type."""
    return x.resized(32).unsigned_remainder(256).resized(8) if x.width == 8 else x


def nextafter(a: Scalar, b: Scalar) -> Scalar:
    """The number next to a on the way to b: bits without the sign count numbers by size."""
    top, infinite = 1 << (a.width - 1), infinity_of(a.type)
    size_a, size_b = a.bits() & (top - 1), b.bits() & (top - 1)
    negative = a.bits().compare("slt", 0)
    here, there = select(negative, -size_a, size_a), select(b.bits().compare("slt", 0), -size_b, size_b)
    place = select(there.compare("sgt", here), here + 1, here - 1)
    below = (place.compare("slt", 0)) | (place.compare("eq", 0) & negative)
    bits = select(below, -place | top, place)
    value = select(here.compare("eq", there), b, bits.as_float(a.type))
    number = size_a.compare("ule", infinite) & size_b.compare("ule", infinite)
    return select(number, value, math.nan)


def frexp(x: Scalar) -> tuple[Scalar, Scalar]:
    """A mantissa from 1/2 on and below 1, and an exponent: of zero, infinity and NaN themselves and 0."""
    digits, infinite, top = digits_of(x.type), infinity_of(x.type), 1 << (x.width - 1)
    least = (infinite >> (digits + 1)) - 1
    size = x.bits() & (top - 1)
    small = size.compare("ult", 1 << digits)
    # The least numbers are multiples of the very least one: how many of it is a normal number.
    bits = select(small, size.signed_to(x.type).bits(), size)
    exponent = (bits >> digits) - least
    exponent = select(small, exponent - (least + digits), exponent)
    mantissa = (bits & ((1 << digits) - 1)) | (least << digits) | (x.bits() & top)
    special = size.compare("eq", 0) | size.compare("uge", infinite)
    exponent = select(special, 0, exponent)
    return select(special, x, mantissa.as_float(x.type)), exponent.signed_resized(32)

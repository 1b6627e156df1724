"""Remainders of floats, exact whatever the quotient, and the quotients rounded down that go with them.

|a| = m 2^e and |b| = n 2^f with whole m and n: the remainder of m 2^(e - f) by n is found as on paper, as many binary
digits at a time as a word holds. Whole numbers have no rounding, nor a flush of what is small.
"""

from __future__ import annotations

import math

from .bits import digits_of, infinity_of
from .values import Scalar, repeat, select

_WORD = 64


def fmod(a: Scalar, b: Scalar) -> Scalar:
    """With the sign of a."""
    width, digits, infinite = a.width, digits_of(a.type), infinity_of(a.type)
    top = 1 << (width - 1)
    size, divisor = a.bits() & (top - 1), b.bits() & (top - 1)
    m, e = _parts(size, digits)
    n, f = _parts(divisor, digits)
    rest, _ = repeat(
        lambda rest, steps: steps.compare("sgt", 0) & rest.compare("ne", 0),
        lambda rest, steps: _divide_on(rest, steps, n, digits),
        m.unsigned_remainder(n),
        e - f,
    )
    value = select(size.compare("ult", divisor), size, _joined(rest.resized(width), f.resized(width), a))
    sign = a.bits() & top
    defined = size.compare("ult", infinite) & divisor.compare("ule", infinite) & divisor.compare("ne", 0)
    return select(defined, (value | sign).as_float(a.type), math.nan)


def _parts(size: Scalar, digits: int) -> tuple[Scalar, Scalar]:
    """m and e in 64 bits, m never zero and e from one on: what is below the normal numbers has the least of theirs."""
    exponent, fraction = size >> digits, size & ((1 << digits) - 1)
    normal = exponent.compare("ne", 0)
    whole = select(normal, fraction | (1 << digits), fraction)
    whole = select(size.compare("eq", 0), 1, whole)
    return whole.resized(_WORD), select(normal, exponent, 1).resized(_WORD)


def _divide_on(rest: Scalar, steps: Scalar, divisor: Scalar, digits: int) -> tuple[Scalar, Scalar]:
    """The remainder with some more zeros behind the rest."""
    room = _WORD - 1 - digits
    taken = select(steps.compare("slt", room), steps, room)
    return (rest << taken).unsigned_remainder(divisor), steps - taken


def _joined(rest: Scalar, exponent: Scalar, like: Scalar) -> Scalar:
    """The bits of rest 2^exponent, a float, since its divisor is one."""
    digits = digits_of(like.type)
    bits = rest.signed_to(like.type).bits()
    scale = exponent - ((1 << (like.width - 2 - digits)) - 1 + digits)
    normal = ((bits >> digits) + scale).compare("sgt", 0)
    joined = select(normal, bits + (scale << digits), rest << (exponent - 1))
    return select(rest.compare("eq", 0), 0, joined)


def remainder(a: Scalar, b: Scalar) -> Scalar:
    """With the sign of b."""
    rest = fmod(a, b)
    return select(_wrong_side(rest, b), rest + b, rest)


def _wrong_side(rest: Scalar, b: Scalar) -> Scalar:
    return rest.compare("une", 0.0) & (b.compare("lt", 0.0) ^ rest.compare("lt", 0.0))


def floor_divide(a: Scalar, b: Scalar) -> Scalar:
    """a / b rounded down, in eager's steps: from the exact multiple of b, and to the nearest of what is nearly whole.

    Of 16 bits each step is rounded, which decides between two whole numbers.
    """
    type_ = a.type
    if a.width == 16:
        a, b = a.widened(), b.widened()
    rest, quotient = fmod(a, b), (a / b).rounded(type_)
    multiple = ((a - rest).rounded(type_) / b).rounded(type_)
    multiple = select(_wrong_side(rest, b), (multiple - 1.0).rounded(type_), multiple)
    floor = multiple.floor()
    floor = select((multiple - floor).compare("gt", 0.5), floor + 1.0, floor)
    floor = select(multiple.compare("eq", 0.0), quotient.signed_zero(), floor)
    value = select(b.compare("eq", 0.0), quotient, floor)
    return value if value.type == type_ else value.narrowed(type_)

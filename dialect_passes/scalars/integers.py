"""Shifts and powers of integers with signs, as eager defines them where machines differ."""

from __future__ import annotations

from .values import Scalar, repeat, select


def left_shift(a: Scalar, bits: Scalar) -> Scalar:
    """Zero by as many bits as there are, and by a negative number."""
    return select(bits.compare("ult", a.width), a << bits, 0)


def right_shift(a: Scalar, bits: Scalar) -> Scalar:
    """The sign comes in from above; it is all there is after too many bits, and after a negative number."""
    most = a.width - 1
    return a.signed_shift(select(bits.compare("ult", most), bits, most))


def power(base: Scalar, exponent: Scalar) -> Scalar:
    """By squaring; to negative powers 1 / base^|exponent| rounded towards zero, which only 1 and -1 survive."""
    one = base.like(1)
    _, found, _ = repeat(
        lambda _, __, rest: rest.compare("ne", 0),
        lambda square, total, rest: (
            square * square,
            select((rest & 1).compare("ne", 0), total * square, total),
            rest >> 1,
        ),
        base,
        one,
        select(exponent.compare("slt", 0), 0, exponent),
    )
    odd = (exponent & 1).compare("ne", 0)
    inverse = select(base.compare("eq", -1), select(odd, base, one), 0)
    inverse = select(base.compare("eq", 1), one, inverse)
    return select(exponent.compare("slt", 0), inverse, found)

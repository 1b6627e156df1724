"""Common divisors of integers with signs, by Euclid's algorithm in eager's steps, which the least integer shows."""

from __future__ import annotations

from .values import Scalar, repeat, select


def gcd(a: Scalar, b: Scalar) -> Scalar:
    """The greatest common divisor; of zero and another number that number."""
    _, found = repeat(
        lambda a, _: a.compare("ne", 0), lambda a, b: (b.signed_remainder(a), a), _size(a), _size(b)
    )
    return found


def lcm(a: Scalar, b: Scalar) -> Scalar:
    """The least common multiple, zero of zero; what does not fit is cut off from at least 32 bits."""
    width = max(a.width, 32)
    wide_a, wide_b = a.signed_resized(width), b.signed_resized(width)
    divisor = gcd(a, b).signed_resized(width)
    multiple = wide_a.signed_quotient(select(divisor.compare("eq", 0), 1, divisor)) * wide_b
    return _size(multiple).signed_resized(a.width)


def _size(a: Scalar) -> Scalar:
    return select(a.compare("slt", 0), -a, a)

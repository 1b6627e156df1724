"""Sine and cosine of every number, without branches (Payne and Hanek, Radian Reduction for Trigonometric Functions).

x = m 2^e with a whole m. Of 2/pi only the bits around 2^-e matter: those before it make multiples of four quarters of
the circle, those far behind it nothing. Three words from that place on, times m, are the number of quarters and the
rest of x, with more digits than x can lose: every result is right to its last places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .bits import digits_of, infinity_of
from .values import Scalar, constant, select

# 2/pi, 1280 bits behind the point.
_TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
_BITS = 1280
_PADDING = {32: 26, 64: 55}
"""Zeros before 2/pi, so that shifts are of numbers from pi/4 on."""


def sine(x: Scalar) -> Scalar:
    """By quarters of the circle."""
    rest, quarter, finite = _reduced(x)
    value = select((quarter & 1).compare("eq", 0), _sine(rest), _cosine(rest))
    sign = ((quarter & 2) << (x.width - 2)) ^ (x.bits() & (1 << (x.width - 1)))
    return select(finite, (value.bits() ^ sign).as_float(x.type), math.nan)


def cosine(x: Scalar) -> Scalar:
    """By quarters of the circle."""
    rest, quarter, finite = _reduced(x)
    value = select((quarter & 1).compare("eq", 0), _cosine(rest), _sine(rest))
    sign = ((quarter + 1) & 2) << (x.width - 2)
    return select(finite, (value.bits() ^ sign).as_float(x.type), math.nan)


def _reduced(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """|x| as a distance from the nearest multiple of pi/2, that multiple, and whether x is finite."""
    width, digits, infinite = x.width, digits_of(x.type), infinity_of(x.type)
    size = x.bits() & ~(1 << (width - 1))
    mantissa = (size & ((1 << digits) - 1)) | (1 << digits)
    # By how many bits x is above the least number that is reduced.
    shift = (size >> digits) - ((infinite >> (digits + 1)) - 1)
    high, low = _product(mantissa, *_window(shift))
    quarter = (high + (1 << (width - 3))) >> (width - 2)
    rest = ((high << 2) | (low >> (width - 2))).signed_to(x.type) * (math.pi * 2.0 ** -(width + 1))
    rest = rest + ((low << 2) >> 1).signed_to(x.type) * (math.pi * 2.0 ** -(2 * width))
    reduce = size.compare("sge", constant(x.type, math.pi / 4).bits())
    near = select(reduce, rest, size.as_float(x.type))
    return near, select(reduce, quarter, 0), size.compare("slt", infinite)


def _window(shift: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Three words of 2/pi behind its first `shift` bits."""
    width = shift.width
    step = width.bit_length() - 1
    largest = {32: 128, 64: 1024}[width]
    words = [shift.like(word) for word in _words(width, largest // width + 4)]
    position = shift >> step
    for bit in reversed(range((largest // width).bit_length())):
        skip = 1 << bit
        ahead = (position & skip).compare("ne", 0)
        kept = words[: 3 + skip]
        words = [
            select(ahead, words[i + skip], word) if i + skip < len(words) else word
            for i, word in enumerate(kept)
        ]
    left = shift & (width - 1)
    right = (width - 1) - left
    first, second, third = ((words[i] << left) | ((words[i + 1] >> 1) >> right) for i in range(3))
    return first, second, third


def _words(width: int, count: int) -> Sequence[int]:
    whole = _TWO_OVER_PI << (width * count) >> (_BITS + _PADDING[width])
    return [(whole >> (width * (count - 1 - i))) & ((1 << width) - 1) for i in range(count)]


def _product(m: Scalar, first: Scalar, second: Scalar, third: Scalar) -> tuple[Scalar, Scalar]:
    """The upper two words of m times three, without what is above them."""
    carried, _ = m.multiply_wide(third)
    high, low = m.multiply_wide(second)
    total = low + carried
    carry = select(total.compare("ult", low), high.like(1), 0)
    return m * first + high + carry, total


def _sine(x: Scalar) -> Scalar:
    """Of at most pi/4."""
    square = x * x
    return x + x * square * _series(square, 3)


def _cosine(x: Scalar) -> Scalar:
    """Of at most pi/4."""
    square = x * x
    return 1.0 - 0.5 * square + square * square * _series(square, 4)


def _series(square: Scalar, first: int) -> Scalar:
    """The terms of Taylor's series from the power `first` on, without that power."""
    last = {32: 11, 64: 19}[square.width] + (first % 2 == 0)
    value = None
    for power in reversed(range(first, last + 1, 2)):
        term = (-1) ** (power // 2) / math.factorial(power)
        value = square.like(term) if value is None else value * square + term
    assert value is not None
    return value

"""Powers, of floats with eager's rules for zeros, infinities and negative bases (C99, F.9.4.4).

exp(y log x) in f32 is up to 1e-5 wrong. Here log x is a sum of two floats (Dekker's arithmetic), so that the exponent
keeps its digits. As tensor operations IREE takes forever to compile a power of a power.
"""

from __future__ import annotations

import math

from . import integers
from .values import Scalar, polynomial, select


def power(x: Scalar, y: Scalar) -> Scalar:
    """x ** y."""
    if not x.is_float:
        return integers.power(x, y)
    size = x.abs()
    zero, infinite, rises = size.compare("eq", 0.0), size.compare("eq", math.inf), y.compare("gt", 0.0)
    value = _whole_power(size, y, _of_size(size, y))
    value = select(zero | infinite, select(zero ^ rises, x.like(math.inf), 0.0), value)
    at_infinity = select(size.compare("gt", 1.0) ^ rises, x.like(0.0), math.inf)
    at_infinity = select(size.compare("eq", 1.0), 1.0, at_infinity)
    value = select(y.abs().compare("eq", math.inf), at_infinity, value)
    half, whole = 0.5 * y, y.floor().compare("eq", y)
    odd = whole & half.floor().compare("une", half)
    value = select(x.bits().compare("slt", 0) & odd, -value, value)
    value = select(x.compare("lt", 0.0) & ~whole & ~infinite, math.nan, value)
    value = select(x.compare("une", x) | y.compare("une", y), math.nan, value)
    return select(y.compare("eq", 0.0) | x.compare("eq", 1.0), 1.0, value)


def _of_size(size: Scalar, y: Scalar) -> Scalar:
    """Of positive finite numbers."""
    if size.width == 64:
        return (y * size.log()).exp()
    high, low = _logarithm(size)
    product, error = _exact_product(y, high)
    # Far beyond the limits of exp the error is NaN.
    error = select(product.abs().compare("lt", 200.0), error + y * low, 0.0)
    return product.exp() * (1.0 + error)


def _whole_power(size: Scalar, y: Scalar, value: Scalar) -> Scalar:
    """Whole powers of whole numbers are whole, as far as `value` is nearer to them than one half."""
    largest = {32: 2.0**22, 64: 2.0**44}[size.width]
    exact = size.floor().compare("eq", size) & y.floor().compare("eq", y) & y.compare("gt", 0.0)
    return select(exact & value.compare("lt", largest), (value + 0.5).floor(), value)


def _exact_product(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """a b and its rounding error (Dekker, with Veltkamp's splits)."""
    product = a * b
    a_high, b_high = _split(a), _split(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Scalar) -> Scalar:
    scaled = a * 4097.0
    return scaled - (scaled - a)


def _logarithm(x: Scalar) -> tuple[Scalar, Scalar]:
    """log x of an f32 as a sum: x = 2^e m, log m = 2 artanh(s), s = (m - 1) / (m + 1)."""
    m = ((x.bits() & 0x7FFFFF) | 0x3F800000).as_float(x.type)
    large = m.compare("gt", math.sqrt(2))
    m = select(large, 0.5 * m, m)
    exponent = (x.bits() >> 23) - 127
    e = select(large, exponent + 1, exponent).signed_to(x.type)
    top, bottom = m - 1.0, m + 1.0
    bottom_error = (m - bottom) + 1.0
    s = top / bottom
    product, error = _exact_product(s, bottom)
    s_low = ((top - product) - error - s * bottom_error) / bottom
    square = s * s
    series = 2.0 * s * square * polynomial(square, [1 / k for k in range(13, 1, -2)])
    ln2_high = 0.693115234375  # 13 bits, so that its product with e is exact
    a, b = e * ln2_high, 2.0 * s
    high = a + b
    rest = high - a
    low = (a - (high - rest)) + (b - rest) + e * (math.log(2) - ln2_high) + 2.0 * s_low + series
    total = high + low
    return total, low - (total - high)

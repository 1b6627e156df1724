"""The complementary error function and the logarithm of the gamma function, of one number."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..operators import cephes
from ..operators.gamma import SHIFT, STIRLING
from .values import Scalar, polynomial, select


def erfc(x: Scalar) -> Scalar:
    """1 - erf(x), as `operators.error_functions` has it."""
    size = x.abs()
    square = x * x
    near = 1.0 - x * _rational(square, cephes.ERF_T, cephes.ERF_U)
    inverse = 1.0 / size
    middle = _rational(size, cephes.ERFC_P, cephes.ERFC_Q)
    far = inverse * _rational(inverse, cephes.ERFC_R[::-1], cephes.ERFC_S[::-1])
    tail = (-square).exp() * select(size.compare("lt", 8.0), middle, far)
    # Where the square is infinite, so are powers in the middle, which is not chosen.
    return select(size.compare("lt", 1.0), near, select(x.compare("lt", 0.0), 2.0 - tail, tail))


def lgamma(x: Scalar) -> Scalar:
    """Of positive numbers: Stirling's series, of those below 8 after a shift by 8."""
    small = x.compare("lt", SHIFT)
    shifted = select(small, x + SHIFT, x)
    product = select(small, x, 1.0)
    for k in range(1, SHIFT):
        product = product * select(small, x + k, 1.0)
    inverse = 1.0 / shifted
    series = inverse * polynomial(inverse * inverse, STIRLING)
    value = (shifted - 0.5) * (shifted.log() - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    return value - select(small, product.log(), 0.0)


def _rational(x: Scalar, numerator: Sequence[float], denominator: Sequence[float]) -> Scalar:
    return polynomial(x, numerator) / polynomial(x, denominator)

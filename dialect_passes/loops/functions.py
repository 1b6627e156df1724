"""What loop kernels call: each function is one thing in Python and a few operations in the IR (`translate`)."""

from __future__ import annotations

import math
from typing import Any


def sqrt(x: float) -> float:
    """The square root of a real number."""
    return math.sqrt(x)


def conj(x: Any) -> Any:
    """The conjugate; of a real number, the number."""
    return x.conjugate()


def real(x: Any) -> float:
    """The real part."""
    return float(x.real)


def imag(x: Any) -> float:
    """The imaginary part; of a real number, zero."""
    return float(x.imag)


def copysign(x: float, sign: float) -> float:
    """`x` with the sign of `sign`."""
    return math.copysign(x, sign)


def epsilon() -> float:
    """The distance from 1 to the next number of the type that the kernel computes in."""
    return 2.0**-52


def tiny() -> float:
    """The smallest normal number of the type that the kernel computes in."""
    return 2.0**-1022


def pair(re: float, im: float) -> complex:
    """A complex number."""
    return complex(re, im)


def isnan(x: Any) -> bool:
    """Whether a number is NaN; a whole one never is."""
    return math.isnan(x)

"""The inverse tangent, of one number and of two, to the last places: IREE's own has 17 bits in f32.

Cephes' atan.c: a rational function for arguments up to tan(pi/8), after two reductions.
"""

from __future__ import annotations

import math

from .values import Scalar, polynomial, select

_P = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
_Q = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506521482613964425e2,
)


def atan(x: Scalar) -> Scalar:
    """In the first quadrant by atan(x) = pi/2 - atan(1/x) from 1 on."""
    size = x.abs()
    far = size.compare("gt", 1.0)
    value = _below_one(select(far, 1.0 / size, size))
    return select(far, math.pi / 2 - value, value).with_sign_of(x)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), with the signs of zeros and the halves of right angles of two infinities (C99)."""
    high, wide = y.abs(), x.abs()
    steep = high.compare("gt", wide)
    longer, shorter = select(steep, high, wide), select(steep, wide, high)
    equal = select(longer.compare("eq", 0.0), longer, 1.0)
    ratio = select(longer.compare("eq", shorter), equal, shorter / longer)
    value = _below_one(ratio)
    value = select(steep, math.pi / 2 - value, value)
    return select(x.bits().compare("slt", 0), math.pi - value, value).with_sign_of(y)


def _below_one(x: Scalar) -> Scalar:
    """From tan(pi/8) on by atan(x) = pi/4 + atan((x - 1) / (x + 1))."""
    near_one = x.compare("gt", math.tan(math.pi / 8))
    reduced = select(near_one, (x - 1.0) / (x + 1.0), x)
    square = reduced * reduced
    value = reduced + reduced * square * (polynomial(square, _P) / polynomial(square, _Q))
    return select(near_one, math.pi / 4 + value, value)

"""The regularized incomplete gamma functions.

igamma(a, x) = igamma(a + 20, x) + the sum of x^(a+k) exp(-x) / gamma(a + k + 1) over k < 20 (DLMF 8.8.5), and from
20 on Temme's uniform expansion (DLMF 8.12.3): igammac(a, x) = erfc(eta sqrt(a/2)) / 2 + R, with
eta² / 2 = mu - log(1 + mu), mu = x / a - 1, whose coefficients are those of Cephes' and SciPy's igam.h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import special
from .values import Operand, Scalar, polynomial, select

_STEPS = 20

# Row k, from the last to the first: the coefficients of eta^17 .. eta^0 in the factor of a^-k.
_TEMME = (
    (
        1.86023389685045e-10,
        -3.9409233028046403e-10,
        -2.3024517174528067e-13,
        3.4463580499464896e-09,
        -1.4189739437803219e-08,
        2.8865829742708783e-08,
        2.956794137544049e-11,
        -2.292934834000805e-07,
        8.907507532205309e-07,
        -1.6954149536558305e-06,
        2.507497226237533e-10,
        1.1375726970678419e-05,
        -3.968365047179435e-05,
        6.641498215465122e-05,
        -1.4638452578843418e-06,
        -0.0002990724803031902,
        0.0007840392217200666,
        -0.0008618882909167117,
    ),
    (
        -1.388823336813903e-14,
        2.1541049775774907e-10,
        -9.460496661855133e-10,
        2.0620131815488797e-09,
        2.3928620439808118e-12,
        -1.9111168485973655e-08,
        8.099464905388083e-08,
        -1.6958404091930278e-07,
        -2.7861080291528143e-11,
        1.4230900732435883e-06,
        -5.6749528269915965e-06,
        1.1082654115347302e-05,
        -2.396505113867297e-07,
        -7.561801671883977e-05,
        0.00026772063206283885,
        -0.0004691894943952557,
        0.00022947209362139917,
        0.0006494341563786008,
    ),
    (
        -5.5645956134363323e-11,
        1.2872252400089318e-10,
        9.428356159014678e-13,
        -1.3670488396617112e-09,
        6.228974084922022e-09,
        -1.409252991086752e-08,
        -2.0477098421990866e-10,
        1.4280614206064242e-07,
        -6.298992138380055e-07,
        1.3721957309062932e-06,
        3.423578734096138e-08,
        -1.2760635188618728e-05,
        5.2923448829120125e-05,
        -0.00010736653226365161,
        2.0093878600823047e-06,
        0.0007716049382716049,
        -0.0026813271604938273,
        0.004133597883597883,
    ),
    (
        6.067215101604758e-14,
        -8.56390702649298e-11,
        4.162792991842583e-10,
        -1.0091543710600413e-09,
        -1.7543241719747647e-11,
        1.1951628599778148e-08,
        -5.752545603517705e-08,
        1.378633446915721e-07,
        4.647127802807434e-09,
        -1.6120900894563446e-06,
        7.64916091608111e-06,
        -1.8098550334489977e-05,
        -4.018775720164609e-07,
        0.00020576131687242798,
        -0.0009902263374485596,
        0.0026455026455026454,
        -0.003472222222222222,
        -0.001851851851851852,
    ),
    (
        2.4361948020667415e-11,
        -5.830772132550426e-11,
        -2.551419399494625e-11,
        9.14769958223679e-10,
        -4.382036018453353e-09,
        1.0261809784240309e-08,
        6.707853543401498e-09,
        -1.7665952736826078e-07,
        8.296711340953087e-07,
        -1.85406221071516e-06,
        -2.1854485106799924e-06,
        3.919263178522438e-05,
        -0.0001787551440329218,
        0.0003527336860670194,
        0.0011574074074074073,
        -0.014814814814814815,
        0.08333333333333333,
        -0.3333333333333333,
    ),
)


def igamma(a: Scalar, x: Scalar) -> Scalar:
    """The lower one, P."""
    small = a.compare("lt", _STEPS)
    eta, rest, shifted = _transition(select(small, a + _STEPS, a), x)
    value = 0.5 * special.erfc(-eta * (0.5 * shifted).sqrt()) - rest
    return _limits(a, x, value + select(small, _first_terms(a, x), 0.0), 0.0, 1.0)


def igammac(a: Scalar, x: Scalar) -> Scalar:
    """The upper one, Q = 1 - P; by P where a is small, which loses nothing that the tolerance sees."""
    small = a.compare("lt", _STEPS)
    eta, rest, shifted = _transition(select(small, a + _STEPS, a), x)
    value = 0.5 * special.erfc(eta * (0.5 * shifted).sqrt()) + rest
    return _limits(a, x, value - select(small, _first_terms(a, x), 0.0), 1.0, 0.0)


def _limits(a: Scalar, x: Scalar, value: Scalar, at_zero: float, at_infinity: float) -> Scalar:
    """Within 0 and 1, and eager's values at zero and infinity, which it looks for before NaN."""
    value = select(value.compare("gt", 1.0), 1.0, select(value.compare("lt", 0.0), 0.0, value))
    value = select(a.compare("une", a) | x.compare("une", x), math.nan, value)
    endless = x.compare("eq", math.inf)
    value = select(endless, at_infinity, value)
    value = select(a.compare("eq", math.inf), select(endless, x * 0.0, at_zero), value)
    value = select(x.compare("eq", 0.0), at_zero, value)
    value = select(a.compare("eq", 0.0), select(x.compare("gt", 0.0), x.like(at_infinity), math.nan), value)
    return select(a.compare("lt", 0.0) | x.compare("lt", 0.0), math.nan, value)


def _first_terms(a: Scalar, x: Scalar) -> Scalar:
    """The terms of the lower function between a and a + 20."""
    term = total = a.like(1.0)
    for k in range(1, _STEPS):
        term = term * (x / (a + k))
        total = total + term
    power = select(a.compare("eq", 0.0), 0.0, a * x.log())
    # The logarithm of the sum, since its factors may over- and underflow.
    return (power - x - special.lgamma(a + 1.0) + total.log()).exp()


def _transition(a: Scalar, x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """eta, R, and a."""
    mu = (x - a) / a
    half_square = _minus_log1p(mu)
    size = (2.0 * half_square).sqrt()
    eta = select(mu.compare("lt", 0.0), -size, size)
    near = select(eta.compare("gt", 2.0), 2.0, select(eta.compare("lt", -2.0), -2.0, eta))
    table = _TEMME if a.width == 64 else [row[-11:] for row in _TEMME[-3:]]
    rows: Sequence[Operand] = [polynomial(near, row) for row in table]
    series = polynomial(1.0 / a, rows)
    return eta, (-a * half_square).exp() * series / (2 * math.pi * a).sqrt(), a


def _minus_log1p(mu: Scalar) -> Scalar:
    """mu - log(1 + mu); near zero with log(1 + mu) = 2 artanh(s), s = mu / (2 + mu), which cancels by hand."""
    s = mu / (2.0 + mu)
    square = s * s
    series = polynomial(square, [1 / k for k in range(33 if mu.width == 64 else 17, 1, -2)])
    near = mu * s - 2.0 * s * square * series
    return select(mu.abs().compare("lt", 0.6), near, mu - (1.0 + mu).log())

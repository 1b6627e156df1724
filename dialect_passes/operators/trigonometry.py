"""sin, cos and tan for large arguments, and what the compiler's own functions get wrong or do not have.

IREE's sine loses its digits from about 1000 on (and is not bounded by 1 in the end), and in f64 it calls C functions
that its executables do not hold. The argument is reduced by multiples of pi/2 in parts whose products are exact (Cody
and Waite), up to 1e5 in f32 and 1e8 in f64. Beyond it digits are lost, and results stay within [-1, 1].
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from .series import decomposes_float, polynomial

if TYPE_CHECKING:
    from torch import Tensor

_HALF_PI = Fraction(
    "1.57079632679489661923132169163975144209858469968755291048747229615390820314310449931401741267105853399107404326"
)


def _parts(bits: int, count: int) -> list[float]:
    """pi/2 as a sum of numbers of so many bits each."""
    rest, parts = _HALF_PI, []
    for i in range(count):
        unit = Fraction(1, 2 ** ((i + 1) * bits - 1))
        part = rest // unit * unit
        parts.append(float(part))
        rest -= part
    return parts


def _sine_cosine(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sine and cosine of the distance from the nearest multiple of pi/2, and which multiple that is."""
    import torch

    wide = x.dtype == torch.float64
    multiple = torch.round(x * (2 / math.pi))
    rest = x
    for part in _parts(26, 4) if wide else _parts(7, 7):
        rest = rest - multiple * part
    rest = torch.where(torch.isnan(rest), rest, rest.clamp(-0.8, 0.8))
    square = rest * rest
    terms = 9 if wide else 5
    sines = [(-1) ** k / math.factorial(2 * k + 1) for k in range(terms, 0, -1)]
    cosines = [(-1) ** k / math.factorial(2 * k) for k in range(terms, 1, -1)]
    sine = rest + rest * square * polynomial(square, sines)
    cosine = 1 - 0.5 * square + square * square * polynomial(square, cosines)
    return sine, cosine, multiple - 4 * torch.floor(multiple * 0.25)


@decomposes_float("aten.sin.default")
def sin(x: Tensor) -> Tensor:
    """By quarters of the circle."""
    import torch

    sine, cosine, quarter = _sine_cosine(x)
    value = torch.where((quarter == 1) | (quarter == 3), cosine, sine)
    return torch.where(quarter >= 2, -value, value)


@decomposes_float("aten.cos.default")
def cos(x: Tensor) -> Tensor:
    """By quarters of the circle."""
    import torch

    sine, cosine, quarter = _sine_cosine(x)
    value = torch.where((quarter == 1) | (quarter == 3), sine, cosine)
    return torch.where((quarter == 1) | (quarter == 2), -value, value)


@decomposes_float("aten.tan.default")
def tan(x: Tensor) -> Tensor:
    """sin / cos, of one reduction."""
    import torch

    sine, cosine, quarter = _sine_cosine(x)
    odd = (quarter == 1) | (quarter == 3)
    return torch.where(odd, -cosine, sine) / torch.where(odd, sine, cosine)


@decomposes_float("aten.asinh.default")
def asinh(x: Tensor) -> Tensor:
    """log(|x| + sqrt(x² + 1)) with the sign of x; for large x log 2|x|, for small without cancellation."""
    import torch

    size = x.abs()
    small = size.clamp(max=1e4)
    near = torch.log1p(small + small * small / (1 + torch.sqrt(1 + small * small)))
    value = torch.where(size > 1e4, torch.log(size) + math.log(2), near)
    return torch.where(x < 0, -value, torch.where(x == 0, x, value))


@decomposes_float("aten.acosh.default")
def acosh(x: Tensor) -> Tensor:
    """log(x + sqrt(x² - 1)); NaN below 1."""
    import torch

    d = x.clamp(max=1e4) - 1
    near = torch.log1p(d + torch.sqrt(d * (d + 2)))
    value = torch.where(x > 1e4, torch.log(x) + math.log(2), near)
    return torch.where(x < 1, math.nan, value)


@decomposes_float("aten.log10.default")
def log10(x: Tensor) -> Tensor:
    """IREE calls a C function for it."""
    import torch

    return torch.log(x) * (1 / math.log(10))

"""Powers of real numbers, with eager's rules for zeros, infinities and negative bases.

The lowering computes exp(y log x) in the type of x: in f32 up to 1e-5 wrong, and NaN for many negative bases. Here
log x is a sum of two floats (Dekker's arithmetic), so that the exponent keeps its digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .once_rounded import rounded_number
from .registry import decomposes
from .series import decomposes_float, polynomial
from .whole import whole

if TYPE_CHECKING:
    from torch import Tensor

_LARGEST_PRODUCT = 32


@decomposes("aten.pow.Tensor_Scalar")
def pow_scalar(x: Tensor, exponent: Any) -> Tensor:
    """Small whole exponents by products, a half by the root."""
    import torch

    if x.is_complex() or isinstance(exponent, complex):
        return NotImplemented
    if not torch.result_type(x, exponent).is_floating_point:
        return _integer_power(x, exponent)
    if isinstance(exponent, (torch.SymInt, torch.SymFloat)):
        value: Any = exponent
        return torch.pow(x, torch.full_like(x, value))
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    wide = wide if wide.is_floating_point() else wide.to(torch.get_default_dtype())
    if x.dtype == torch.bfloat16 and exponent in (3, -2):
        # Eager's kernel multiplies bfloat16.
        return x * x * x if exponent == 3 else 1 / (x * x)
    if x.dtype in (torch.float16, torch.bfloat16) and isinstance(exponent, float) and math.isfinite(exponent):
        exponent = rounded_number(exponent, x.dtype)
    result = x.dtype if x.is_floating_point() else wide.dtype
    if exponent == int(exponent) if math.isfinite(exponent) else False:
        if abs(exponent) <= _LARGEST_PRODUCT:
            power = _product(wide, int(abs(exponent)))
            return (power if exponent >= 0 else 1 / power).to(result)
    if exponent in (0.5, -0.5):
        return (torch.sqrt(wide) if exponent > 0 else torch.rsqrt(wide)).to(result)
    return power_of(wide, torch.full_like(wide, exponent)).to(result)


def _integer_power(x: Tensor, exponent: Any) -> Tensor:
    import torch

    few = isinstance(exponent, int) and 0 <= exponent <= _LARGEST_PRODUCT
    return _product(x, exponent) if few else torch.pow(x, torch.full_like(x, exponent))


def _product(x: Tensor, exponent: int) -> Tensor:
    import torch

    power = None
    while exponent:
        if exponent & 1:
            power = x if power is None else power * x
        exponent >>= 1
        x = x * x if exponent else x
    return torch.ones_like(x) if power is None else power


@decomposes("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_tensor(x: Any, y: Tensor) -> Tensor:
    """Of floats, and of integers as a loop of our own."""
    import torch

    dtype = torch.result_type(x, y)
    if dtype.is_complex:
        return NotImplemented
    return _pow_float(x, y) if dtype.is_floating_point else whole(torch.pow, x, y)


def _pow_float(x: Any, y: Any) -> Tensor:
    import torch

    dtype = torch.result_type(x, y)
    compute = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    x, y = (
        v.to(compute) if isinstance(v, torch.Tensor) else torch.scalar_tensor(v, dtype=dtype).to(compute)
        for v in (x, y)
    )
    return power_of(x, y).to(dtype)


def power_of(x: Tensor, y: Tensor) -> Tensor:
    """x ** y of two float tensors (C99, F.9.4.4)."""
    import torch

    size = x.abs()
    value = _power_of_size(size, y)
    whole = torch.floor(y) == y
    odd = whole & (torch.floor(0.5 * y) != 0.5 * y)
    zero_or_infinite = (size == 0) | torch.isinf(size)
    falls = (size == 0) == (y > 0)
    value = torch.where(zero_or_infinite, torch.where(falls, 0.0, math.inf).to(value.dtype), value)
    grows = (size > 1) == (y > 0)
    at_infinity = torch.where(size == 1, 1.0, torch.where(grows, math.inf, 0.0).to(value.dtype))
    value = torch.where(torch.isinf(y), at_infinity, value)
    negative = (x < 0) | ((x == 0) & (1 / x < 0))
    value = torch.where(negative & odd, -value, value)
    value = torch.where((x < 0) & ~whole & ~torch.isinf(x), math.nan, value)
    value = torch.where(torch.isnan(x) | torch.isnan(y), math.nan, value)
    return torch.where((y == 0) | (x == 1), 1.0, value)


def _power_of_size(size: Tensor, y: Tensor) -> Tensor:
    """Of positive numbers."""
    import torch

    if size.dtype == torch.float64:
        return torch.exp(y * torch.log(size))
    high, low = _logarithm(size)
    product, error = _exact_product(y, high)
    # Far beyond the limits of exp the error is NaN.
    error = torch.where(product.abs() < 200, error + y * low, 0.0)
    return torch.exp(product) * (1 + error)


def _exact_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a b and its rounding error (Dekker, with Veltkamp's splits)."""
    product = a * b
    a_high, b_high = _split(a), _split(b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Tensor) -> Tensor:
    scaled = a * 4097.0
    return scaled - (scaled - a)


def _logarithm(x: Tensor) -> tuple[Tensor, Tensor]:
    """log x as a sum: x = 2^e m by exact steps, log m = 2 artanh(s), s = (m - 1) / (m + 1)."""
    import torch

    m, e = x, torch.zeros_like(x)
    for step in (64, 32, 16, 8, 4, 2, 1):
        large, small = m >= 2.0 ** (step - 1) * math.sqrt(2), m < 2.0**-step * math.sqrt(2)
        m = torch.where(large, m * 2.0**-step, torch.where(small, m * 2.0**step, m))
        e = torch.where(large, e + step, torch.where(small, e - step, e))
    top = m - 1
    bottom = m + 1
    bottom_error = (m - bottom) + 1
    s = top / bottom
    product, error = _exact_product(s, bottom)
    s_low = ((top - product) - error - s * bottom_error) / bottom
    square = s * s
    series = 2 * s * square * polynomial(square, [1 / k for k in range(13, 1, -2)])
    ln2_high = 0.693115234375  # 13 bits, so that its product with e is exact
    a, b = e * ln2_high, 2 * s
    high = a + b
    rest = high - a
    low = (a - (high - rest)) + (b - rest) + e * (math.log(2) - ln2_high) + 2 * s_low + series
    total = high + low
    return total, low - (total - high)


@decomposes("aten.ldexp.Tensor")
def ldexp(x: Tensor, exponent: Tensor) -> Tensor:
    """x 2^exponent."""
    import torch

    return x * torch.pow(2.0, exponent)


@decomposes_float("aten.exp2.default", "aten.special_exp2.default")
def exp2(x: Tensor) -> Tensor:
    """2 ** x, as a product of the powers of both parts of x log 2."""
    import torch

    if x.dtype == torch.float64:
        return torch.exp(x * math.log(2))
    product, error = _exact_product(x, torch.full_like(x, math.log(2)))
    low = math.log(2) - 0.693147182464599609375
    error = torch.where(product.abs() < 200, error + x * low, 0.0)
    return torch.exp(product) * (1 + error)

"""Powers of real numbers: products, roots, and a loop of our own for the rest (`scalars/powers.py`).

The lowering computes exp(y log x) in the type of x: in f32 up to 1e-5 wrong, and NaN for many negative bases.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .once_rounded import rounded_number
from .registry import decomposes
from .series import decomposes_float
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
    return torch.pow(wide, torch.full_like(wide, exponent)).to(result)


def _integer_power(x: Tensor, exponent: Any) -> Tensor:
    """Of a bool it is an int64."""
    import torch

    if x.dtype is torch.bool:
        x = x.to(torch.result_type(x, exponent))
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
    """As a loop of our own."""
    import torch

    dtype = torch.result_type(x, y)
    if dtype.is_complex:
        return NotImplemented
    if dtype not in (torch.float16, torch.bfloat16):
        return whole(torch.pow, x, y)
    # Integers are rounded to half precision first.
    base = x.to(dtype).float() if isinstance(x, torch.Tensor) else rounded_number(x, dtype)
    return torch.pow(base, y.to(dtype).float()).to(dtype)


@decomposes("aten.ldexp.Tensor")
def ldexp(x: Tensor, exponent: Tensor) -> Tensor:
    """x 2^exponent."""
    import torch

    return x * torch.pow(2.0, exponent)


@decomposes_float("aten.exp2.default", "aten.special_exp2.default")
def exp2(x: Tensor) -> Tensor:
    """2 ** x."""
    import torch

    return torch.pow(torch.full_like(x, 2.0), x)

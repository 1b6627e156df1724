"""Rounding division, remainders and negation, exact as in eager.

IREE computes a remainder as a - trunc(a / b) * b, which is wrong as soon as the product needs rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.broadcasting import broadcast
from pipeline.shape_lib.helpers.promotion import integral, promoted
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

# The largest quotient of two f32 numbers is 2**277; each round takes 23 bits off it.
_ROUNDS = 13
# Adding and taking away this multiple of an f64 number leaves its upper 24 bits.
_SPLIT = 2.0**29 + 1


@decomposes("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(a: Tensor, b: Any) -> Tensor:
    """The remainder with the sign of a. f64 is left whole (and refused: there is nothing wider)."""
    import torch

    dtype = torch.result_type(a, b)
    if not dtype.is_floating_point or dtype == torch.float64:
        return NotImplemented
    return _fmod(_wide(a, dtype), _wide(b, dtype, a)).to(dtype)


@decomposes("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(a: Any, b: Any) -> Tensor:
    """The remainder with the sign of b."""
    import torch

    dtype = torch.result_type(a, b)
    if dtype == torch.float64 or not dtype.is_floating_point:
        return NotImplemented
    like = a if isinstance(a, torch.Tensor) else b
    wide = _wide(b, dtype, like)
    rest = _fmod(_wide(a, dtype, like), wide)
    return torch.where((rest != 0) & ((wide < 0) != (rest < 0)), rest + wide, rest).to(dtype)


def _wide(a: Any, dtype: Any, like: Any = None) -> Tensor:
    """a, rounded to `dtype`, in f64.

    A number is rounded here and tied to the values of `like`: torch-mlir folds constants without rounding
    them, and comparisons of constant tensors wrongly, or crashes in them.
    """
    import torch

    if isinstance(a, torch.Tensor):
        return a.to(dtype).to(torch.float64)
    return torch.isnan(like).to(torch.float64) * 0.0 + _rounded(a, dtype)


def _rounded(number: float, dtype: Any) -> float:
    import numpy as np
    import torch

    single = np.float32(number)
    if dtype == torch.float16:
        return float(np.float16(number))
    if dtype == torch.bfloat16:
        # To nearest, ties to even, in the bits of f32.
        bits = int(single.view(np.uint32))
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return float(np.uint32(bits).view(np.float32))
    return float(single)


def _fmod(a: Tensor, b: Tensor) -> Tensor:
    """Of f64 tensors with f32 values: there the product of a 24-bit quotient and b is exact, and so is
    the difference."""
    import torch

    rest, divisor = a.abs(), b.abs()
    for _ in range(_ROUNDS):
        quotient = torch.trunc(rest / divisor)
        shifted = quotient * _SPLIT
        rest = rest - (shifted - (shifted - quotient)) * divisor
    rest = torch.where(rest < 0, rest + divisor, rest)
    rest = torch.where(a < 0, -rest, rest)
    return torch.where((divisor == float("inf")) & (a.abs() < float("inf")), a, rest)


@decomposes("aten.div.Tensor_mode")
def div_mode(a: Tensor, b: Tensor, rounding_mode: str | None = None) -> Tensor:
    """Quotient rounded towards zero or down; for floats by way of the remainder (1 // 0.1 is 9)."""
    return _floor_divide(a, b) if rounding_mode == "floor" else NotImplemented


@decomposes("aten.div.Scalar_mode")
def div_scalar_mode(a: Tensor, b: float, rounding_mode: str | None = None) -> Tensor:
    """The same by a number."""
    return _floor_divide(a, b) if rounding_mode == "floor" else NotImplemented


@decomposes("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(a: Tensor, b: Any) -> Tensor:
    """Quotient rounded down."""
    return _floor_divide(a, b)


def _floor_divide(a: Tensor, b: Any) -> Tensor:
    """In f32, as eager also does for f16 and bf16."""
    import torch

    dtype = torch.result_type(a, b)
    if not dtype.is_floating_point:
        return _floor_divide_integers(a.to(dtype), b.to(dtype) if isinstance(b, torch.Tensor) else b)
    if dtype == torch.float64:
        return NotImplemented
    single = torch.float32
    wide_a, wide_b = _wide(a, single), _wide(b, single, a)
    rest = _fmod(wide_a, wide_b)
    a, b = wide_a.to(single), wide_b.to(single)
    quotient = (a - rest.to(single)) / b
    quotient = torch.where((rest != 0) & ((wide_b < 0) != (rest < 0)), quotient - 1, quotient)
    floor = torch.floor(quotient)
    floor = torch.where(quotient - floor > 0.5, floor + 1, floor)
    floor = torch.where(quotient != 0, floor, a / b * 0)
    return torch.where(wide_b == 0, a / b, floor).to(dtype)


def _floor_divide_integers(a: Tensor, b: Any) -> Tensor:
    """From the quotient rounded towards zero: torch-mlir rounds down in floats, which lose bits above 2**53."""
    import torch

    quotient = torch.div(a, b, rounding_mode="trunc")
    rest = a - quotient * b
    negative = b < 0 if isinstance(b, torch.Tensor) else torch.full_like(rest, b, dtype=rest.dtype) < 0
    return torch.where((rest != 0) & ((rest < 0) != negative), quotient - 1, quotient)


@decomposes("aten.neg.default")
def neg(a: Tensor) -> Tensor:
    """-a; of integers as a product, since torch-mlir negates them as floats."""
    import torch

    if a.is_floating_point() or a.is_complex():
        return NotImplemented
    return torch.mul(a, -1)


@decomposes("aten.isclose.default")
def isclose(
    a: Tensor, b: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """|a - b| <= atol + |rtol * b|, infinities only to themselves."""
    import torch

    close = a == b
    if equal_nan and a.is_floating_point():
        close = close | (torch.isnan(a) & torch.isnan(b))
    if rtol == 0 and atol == 0:
        return close
    if not (a.is_floating_point() or a.is_complex()):
        a, b = a.to(torch.get_default_dtype()), b.to(torch.get_default_dtype())
    error = (a - b).abs()
    return close | ((error < float("inf")) & (error <= atol + (rtol * b).abs()))


@decomposes("aten.isfinite.default")
def isfinite(x: Tensor) -> Tensor:
    """Neither NaN nor infinite."""
    import torch

    if not (x.is_floating_point() or x.is_complex()):
        return torch.ones_like(x, dtype=torch.bool)
    return x.abs() < float("inf")


# torch-mlir's shape functions of the remainders do not broadcast; they stay whole in f64.
@shape_function("aten.fmod.Tensor", "aten.remainder.Tensor", "aten.gcd.default", "aten.lcm.default")
def binary_shape(a: list[int], b: list[int]) -> list[int]:
    """Both broadcast."""
    return broadcast(a, b)


@dtype_function("aten.fmod.Tensor", "aten.remainder.Tensor")
def remainder_dtype(a: tuple[int, int], b: tuple[int, int]) -> int:
    """That of both, promoted."""
    dtype = promoted(a, b)
    assert not dtypes.is_complex_dtype(dtype), "complex numbers have no remainder"
    return dtype


@dtype_function("aten.gcd.default", "aten.lcm.default")
def divisor_dtype(a: tuple[int, int], b: tuple[int, int]) -> int:
    """That of both, promoted: whole numbers only."""
    return integral(promoted(a, b))

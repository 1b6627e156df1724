"""Rounding division, remainders and negation, exact as in eager.

IREE computes a remainder as a - trunc(a / b) * b, which is wrong as soon as the product needs rounding, and calls a C
function for it in f64 that its executables do not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.broadcasting import broadcast
from pipeline.shape_lib.helpers.promotion import integral, promoted
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import decomposes
from .whole import made_ready, ready, whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@decomposes("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(a: Tensor, b: Any) -> Tensor:
    """The remainder with the sign of a."""
    import torch

    dtype = torch.result_type(a, b)
    if dtype.is_floating_point:
        return _of_floats(torch.fmod, a, b)
    a, b = a.to(dtype), b.to(dtype) if isinstance(b, torch.Tensor) else b
    return a - torch.div(a, b, rounding_mode="trunc") * b


@decomposes("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(a: Any, b: Any) -> Tensor:
    """The remainder with the sign of b."""
    import torch

    return _of_floats(torch.remainder, a, b)


@decomposes("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(a: Tensor, b: Any, rounding_mode: str | None = None) -> Tensor:
    """Quotient rounded towards zero or down; for floats by way of the remainder (1 // 0.1 is 9)."""
    import torch

    if rounding_mode == "floor":
        return floor_divide(a, b)
    dtype = torch.result_type(a, b)
    if rounding_mode == "trunc" and dtype in (torch.float16, torch.bfloat16):
        # Eager rounds the quotient before, but not that by one number.
        one = not isinstance(b, torch.Tensor) or b.dim() == 0
        return torch.trunc(a.float() / b).to(dtype) if one else torch.trunc(a / b)
    return NotImplemented


@decomposes("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(a: Tensor, b: Any) -> Tensor:
    """Quotient rounded down."""
    import torch

    dtype = torch.result_type(a, b)
    if dtype.is_floating_point:
        # By one number eager computes in f32, and does not round the number.
        if dtype in (torch.float16, torch.bfloat16) and (not isinstance(b, torch.Tensor) or b.dim() == 0):
            return _of_floats(torch.floor_divide, a.float(), b).to(dtype)
        return _of_floats(torch.floor_divide, a, b, dtype)
    return _floor_divide_integers(a.to(dtype), b.to(dtype) if isinstance(b, torch.Tensor) else b)


def _of_floats(function: Callable[..., Tensor], a: Any, b: Any, compute: torch.dtype | None = None) -> Tensor:
    """As a loop of our own (`scalars.remainders`). compute: in which dtype; else in f64 or f32."""
    import torch

    dtype = torch.result_type(a, b)
    if not dtype.is_floating_point:
        return NotImplemented
    if compute is None:
        compute = dtype if dtype == torch.float64 else torch.float32
    if ready(a, b, compute):
        return NotImplemented
    # Numbers are rounded here: torch-mlir folds constants without rounding them.
    a, b = (
        x.to(dtype) if isinstance(x, torch.Tensor) else torch.scalar_tensor(_rounded(x, dtype), dtype=compute)
        for x in (a, b)
    )
    return function(*made_ready(a, b, compute)).to(dtype)


def _rounded(number: float, dtype: torch.dtype) -> float:
    """In f64 as it is."""
    import numpy as np
    import torch

    if dtype == torch.float64:
        return float(number)
    single = np.float32(number)
    if dtype == torch.float16:
        return float(np.float16(number))
    if dtype == torch.bfloat16:
        # To nearest, ties to even, in the bits of f32.
        bits = int(single.view(np.uint32))
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return float(np.uint32(bits).view(np.float32))
    return float(single)


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


@decomposes("aten.gcd.default")
def gcd(a: Tensor, b: Tensor) -> Tensor:
    """The greatest common divisor; of int8 in the upper half of an int16, where -128 has no size either."""
    import torch

    if a.dtype == b.dtype == torch.int8:
        a, b = a.to(torch.int16) * 256, b.to(torch.int16) * 256
        return torch.div(torch.gcd(a, b), 256, rounding_mode="trunc").to(torch.int8)
    return whole(torch.gcd, a, b)


@decomposes("aten.lcm.default")
def lcm(a: Tensor, b: Tensor) -> Tensor:
    """The least common multiple."""
    import torch

    return whole(torch.lcm, a, b)


# torch-mlir's shape functions of the remainders do not broadcast.
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

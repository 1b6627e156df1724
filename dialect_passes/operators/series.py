"""Helpers of the special functions: polynomials, Chebyshev sums, and entries that compute as eager promotes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


def decomposes_float(*names: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Like `decomposes`, for an elementwise function over f32 or f64 tensors. Complex ones have rules of their own.

    Half precision is computed in f32, and integers become the default float type, as in eager. Numbers arrive as
    tensors without dimensions.
    """

    def register(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(function)
        def decomposition(*args: Any) -> Tensor:
            import torch
            from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

            kind = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
            compute, result = elementwise_dtypes(*args, type_promotion_kind=kind)
            if compute.is_complex:
                return NotImplemented
            values = [
                x.to(compute) if isinstance(x, torch.Tensor) else torch.scalar_tensor(x, dtype=compute)
                for x in args
            ]
            return function(*values).to(result)

        decomposes(*names)(decomposition)
        return function

    return register


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor | float:
    """The polynomial with these coefficients, highest power first (Horner)."""
    value: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def rational(x: Tensor, numerator: Sequence[float], denominator: Sequence[float]) -> Tensor:
    """The quotient of two polynomials."""
    import torch

    value = polynomial(x, numerator) / polynomial(x, denominator)
    assert isinstance(value, torch.Tensor)
    return value


def chebyshev(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Half of the Chebyshev sum over x in [-2, 2], highest order first (Clenshaw, as Cephes' chbevl).

    Orders below the precision of x are left out.
    """
    import torch

    smallest = torch.finfo(x.dtype).eps / 64 * max(map(abs, coefficients))
    start = next(i for i, coefficient in enumerate(coefficients) if abs(coefficient) > smallest)
    value, before, last = torch.full_like(x, coefficients[start]), torch.zeros_like(x), torch.zeros_like(x)
    for coefficient in coefficients[start + 1 :]:
        value, before, last = x * value - before + coefficient, value, before
    return 0.5 * (value - last)


def sin_pi(x: Tensor) -> Tensor:
    """sin(pi x), exact about its zeros."""
    import math

    import torch

    nearest = torch.round(x)
    odd = torch.remainder(nearest, 2.0) != 0
    value = torch.sin(math.pi * (x - nearest))
    return torch.where(odd, -value, value)

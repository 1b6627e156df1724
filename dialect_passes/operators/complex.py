"""Complex numbers, where the lowering knows real ones only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.broadcasting import broadcast
from pipeline.shape_lib.helpers.promotion import floating, inexact, same, to_complex
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.abs.default")
def absolute(z: Tensor) -> Tensor:
    """The length of z, without overflow in the squares."""
    import torch

    if not z.is_complex():
        return NotImplemented
    a, b = torch.real(z).abs(), torch.imag(z).abs()
    longer, shorter = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where((longer == 0) | (longer == float("inf")), 0.0, shorter / longer)
    return longer * torch.sqrt(1 + ratio * ratio)


@decomposes("aten.angle.default")
def angle(x: Tensor) -> Tensor:
    """Of real numbers: pi of negative ones, 0 of others, NaN of NaN. Complex ones: `complex_numbers`."""
    import math

    import torch

    if x.is_complex():
        return NotImplemented
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    return torch.where(torch.isnan(x), x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


@shape_function("aten.angle.default", "aten._conj.default", "aten._conj_physical.default")
def unary_shape(z: list[int]) -> list[int]:
    """That of the argument."""
    return z


@dtype_function("aten.angle.default")
def angle_dtype(z: tuple[int, int]) -> int:
    """A real number; also real numbers have an angle, 0 or pi."""
    _, dtype = z
    return dtypes.real_dtype(inexact(dtype))


@dtype_function("aten._conj.default", "aten._conj_physical.default")
def conjugate_dtype(z: tuple[int, int]) -> int:
    """That of the argument."""
    _, dtype = z
    return dtype


# torch-mlir's own shape function of polar does not broadcast.
@shape_function("aten.complex.default", "aten.polar.default")
def from_parts_shape(a: list[int], b: list[int]) -> list[int]:
    """Both broadcast."""
    return broadcast(a, b)


@dtype_function("aten.complex.default", "aten.polar.default")
def from_parts_dtype(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Of two real tensors of one dtype."""
    _, a_dtype = a
    _, b_dtype = b
    return to_complex(floating(same(a_dtype, b_dtype)))

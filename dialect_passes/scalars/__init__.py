"""Functions of single elements, as the bodies of loops: torch-mlir lowers these operators wrongly or not at all."""

from __future__ import annotations

from collections.abc import Mapping

from . import (
    bits,
    divisors,
    incomplete_gamma,
    integers,
    inverse_trigonometry,
    powers,
    remainders,
    threefry,
    trigonometry,
)
from .values import BYTES, FLOATS, HALVES, INTEGERS, Body

BODIES: Mapping[str, Body] = {
    "torch.aten.sin": Body(trigonometry.sine),
    "torch.aten.cos": Body(trigonometry.cosine),
    "torch.aten.atan": Body(inverse_trigonometry.atan),
    "torch.aten.atan2": Body(inverse_trigonometry.atan2),
    "torch.aten.fmod.Tensor": Body(remainders.fmod),
    "torch.aten.remainder.Tensor": Body(remainders.remainder),
    "torch.aten.floor_divide": Body(remainders.floor_divide, FLOATS | HALVES),
    "torch.aten.igamma": Body(incomplete_gamma.igamma),
    "torch.aten.igammac": Body(incomplete_gamma.igammac),
    "torch.aten.gcd": Body(divisors.gcd, INTEGERS),
    "torch.aten.lcm": Body(divisors.lcm, INTEGERS),
    "torch.aten.bitwise_left_shift.Tensor": Body(integers.left_shift, INTEGERS),
    "torch.aten.bitwise_right_shift.Tensor": Body(integers.right_shift, INTEGERS),
    "torch.aten.pow.Tensor_Tensor": Body(powers.power, INTEGERS | FLOATS),
    "torch.aten.nextafter": Body(bits.nextafter, FLOATS | HALVES),
    "torch.aten.frexp.Tensor": Body(bits.frexp, FLOATS | HALVES),
    "torch.pipeline.threefry": Body(threefry.threefry, frozenset({"int32"})),
    "torch.aten.view.dtype": Body(bits.reinterpret, FLOATS | HALVES | INTEGERS | BYTES),
}
"""Operation of the Torch dialect -> what it does to the elements of its tensors."""

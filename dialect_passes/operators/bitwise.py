"""Operators on the bits of integers: all overloads by that of two tensors, and shifts as loops of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import decomposes
from .whole import made_ready, whole

if TYPE_CHECKING:
    from torch import Tensor


def _overloads(name: str, short: str) -> list[str]:
    """All but the one of two tensors that is lowered."""
    names = [f"aten.{name}.Tensor_Scalar", f"aten.{name}.Scalar_Tensor"]
    return [*names, f"aten.{short}.Tensor", f"aten.{short}.Scalar"]


@decomposes("aten.bitwise_left_shift.Tensor")
def left_shift(a: Tensor, bits: Tensor) -> Tensor:
    """a 2^bits."""
    import torch

    return whole(torch.bitwise_left_shift, a, bits)


@decomposes("aten.bitwise_right_shift.Tensor")
def right_shift(a: Tensor, bits: Tensor) -> Tensor:
    """a / 2^bits, rounded down."""
    import torch

    return whole(torch.bitwise_right_shift, a, bits)


@decomposes(*_overloads("bitwise_left_shift", "__lshift__"))
def left_shift_overload(a: Any, bits: Any) -> Tensor:
    """By a number, or of one."""
    import torch

    return torch.bitwise_left_shift(*made_ready(a, bits, torch.result_type(a, bits)))


@decomposes(*_overloads("bitwise_right_shift", "__rshift__"))
def right_shift_overload(a: Any, bits: Any) -> Tensor:
    """By a number, or of one."""
    import torch

    return torch.bitwise_right_shift(*made_ready(a, bits, torch.result_type(a, bits)))


@decomposes("aten.bitwise_or.Scalar", "aten.bitwise_or.Scalar_Tensor")
def bitwise_or(a: Any, b: Any) -> Tensor:
    """Of a tensor and a number."""
    import torch

    return torch.bitwise_or(*made_ready(a, b, torch.result_type(a, b)))


@decomposes("aten.bitwise_xor.Scalar", "aten.bitwise_xor.Scalar_Tensor")
def bitwise_xor(a: Any, b: Any) -> Tensor:
    """Of a tensor and a number."""
    import torch

    return torch.bitwise_xor(*made_ready(a, b, torch.result_type(a, b)))


@decomposes("aten.bitwise_and.Scalar", "aten.bitwise_and.Scalar_Tensor")
def bitwise_and(a: Any, b: Any) -> Tensor:
    """Of a tensor and a number."""
    import torch

    return torch.bitwise_and(*made_ready(a, b, torch.result_type(a, b)))

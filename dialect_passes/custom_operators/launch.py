"""`Launch`: what a kernel's launch function returns, and what it is told about the call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .call_types import Argument, CallTypes, TensorType
from .sizes import Size

Width = Literal["i32", "i64", "f32", "f64"]


@dataclass(frozen=True)
class Constant:
    """A number passed to a kernel, with its type there. Made by `i32`, `i64`, `f32` and `f64`."""

    value: int | float | Size
    type: Width


def i32(value: int | Size) -> Constant:
    """Passed as ``int32_t``."""
    return Constant(value, "i32")


def i64(value: int | Size) -> Constant:
    """Passed as ``int64_t`` (CPU only)."""
    return Constant(value, "i64")


def f32(value: float) -> Constant:
    """Passed as ``float``."""
    return Constant(value, "f32")


def f64(value: float) -> Constant:
    """Passed as ``double`` (CPU only)."""
    return Constant(value, "f64")


@dataclass(frozen=True)
class Launch:
    """How to run a kernel for one call.

    workgroups: one to three counts; the kernel runs once for each workgroup.
    constants: numbers passed after the tensors. A float is passed as ``float``, or as ``double`` where the call
        has float64 tensors; integers, bools and sizes are passed as ``int64_t`` on the CPU and ``int32_t``
        elsewhere. `i32`, `i64`, `f32` and `f64` say otherwise. Vulkan and CUDA take 32-bit constants only.
    shapes: the sizes of each result; only needed where the meaning cannot tell them for dynamic inputs.
    """

    workgroups: Sequence[int | Size]
    constants: Sequence[int | float | Size | Constant] = ()
    shapes: Sequence[Sequence[int | Size]] | None = None


@dataclass(frozen=True)
class TensorView:
    """A tensor of the call, as a launch function sees it: no values, sizes maybe unknown (`Size`).

    dtype: the torch dtype.
    """

    shape: tuple[int | Size, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def size(self, dim: int) -> int | Size:
        """The size of one dimension; negative numbers count from the last."""
        return self.shape[dim]

    def numel(self) -> int | Size:
        """The number of elements."""
        count: int | Size = 1
        for size in self.shape:
            count = count * size
        return count


def view(tensor: TensorType, sizes: Sequence[int | Size]) -> TensorView:
    """A view of `tensor`, whose dimensions have these sizes."""
    import torch

    return TensorView(tuple(sizes), getattr(torch, tensor.dtype))


def operand_sizes(tensor: TensorType, operand: int) -> list[int | Size]:
    """The sizes of the call's flattened tensor operand number `operand`."""
    return [Size("dim", (operand, dim)) if size is None else size for dim, size in enumerate(tensor.shape)]


def views(call: CallTypes) -> dict[str, Any]:
    """By parameter name: views for tensors, lists of views (or None) for lists, values for the rest."""
    operand = 0

    def one(item: Argument) -> Any:
        nonlocal operand
        if not isinstance(item, TensorType):
            return item
        operand += 1
        return view(item, operand_sizes(item, operand - 1))

    def of(argument: Argument) -> Any:
        return [one(item) for item in argument] if isinstance(argument, tuple) else one(argument)

    return {name: of(argument) for name, argument in call.arguments.items()}


def typed_constants(launch: Launch, call: CallTypes, device: str) -> list[Constant]:
    """The launch's constants with their types. Raises ValueError for one that its type cannot hold."""
    double = any(t.dtype == "float64" for t in [*(t for _, t in call.tensors()), *call.results])
    defaults: tuple[Width, Width] = ("i64" if device == "cpu" else "i32", "f64" if double else "f32")
    return [_typed(value, defaults, device) for value in launch.constants]


def _typed(value: Any, defaults: tuple[Width, Width], device: str) -> Constant:
    if not isinstance(value, Constant):
        if not isinstance(value, (int, float, Size)):
            raise ValueError(
                f"the constant {value!r} is neither a number nor a size; pass a number that encodes it"
            )
        value = Constant(value, defaults[isinstance(value, float)])
    if isinstance(value.value, float) != (value.type[0] == "f"):
        if value.type[0] == "i" or isinstance(value.value, Size):
            raise ValueError(f"the constant {value.value} cannot be passed as {value.type}")
        value = Constant(float(value.value), value.type)
    if device != "cpu" and value.type in ("i64", "f64"):
        raise ValueError(
            f"the constant {value.value} is {value.type}, but kernels for {device} take 32-bit constants only; "
            f"wrap it in {value.type[0]}32(...) if that is enough"
        )
    _check_range(value)
    return value


def _check_range(constant: Constant) -> None:
    number = constant.value
    if isinstance(number, Size):
        return
    if constant.type[0] == "i":
        bits = int(constant.type[1:]) - 1
        fits = -(2**bits) <= number < 2**bits
    else:
        fits = constant.type == "f64" or not math.isfinite(number) or abs(number) <= 3.4028234663852886e38
    if not fits:
        raise ValueError(f"the constant {number} does not fit into {constant.type}")

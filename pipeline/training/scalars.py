"""Optimizers of `torch.optim`, run with tensors where they expect Python numbers, so that they can be traced.

An optimizer of PyTorch reads its step count and its norms back (``.item()``) and computes with Python's floats: the
bias corrections, the learning rate of this step. Traced like that they would be constants. In `numbers_stay_tensors`
such a number is a float64 tensor without dimensions instead, which rounds as Python's floats do and which PyTorch's
promotion treats as a number, so that PyTorch's own code gives the graph, with eager's own arithmetic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.optim._adafactor
from torch._export.utils import _compiling_state_context
from torch.overrides import TorchFunctionMode

_SCALED = {
    "add": "alpha",
    "add_": "alpha",
    "sub": "alpha",
    "sub_": "alpha",
    "addcmul": "value",
    "addcmul_": "value",
    "addcdiv": "value",
    "addcdiv_": "value",
}
"""Methods with a factor that must be a number, and the factor's name."""


@contextlib.contextmanager
def numbers_stay_tensors(counts: Iterable[tuple[torch.Tensor, str]]) -> Iterator[None]:
    """While it is open, `item` gives a tensor, and factors may be tensors.

    counts: steps, each with a name; those of one name are equal whenever powers to them are taken. Powers to them
        are products (as Vulkan has no exponential function in float64), computed once for a name.
    """
    with (
        _compiling_state_context(),
        mock.patch.object(torch.optim._adafactor, "min", _smaller, create=True),
        mock.patch.object(torch.optim._adafactor, "max", _larger, create=True),
        _TensorNumbers(counts),
    ):
        yield


def as_number(value: torch.Tensor) -> torch.Tensor:
    """`value`, of one element, as a number: float64 without dimensions."""
    return value.to(torch.float64).reshape(())


class _TensorNumbers(TorchFunctionMode):
    def __init__(self, counts: Iterable[tuple[torch.Tensor, str]]) -> None:
        super().__init__()
        self._counts = {id(count): name for count, name in counts}
        self._powers: dict[tuple[float, str], torch.Tensor] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "item":
            return as_number(args[0])
        if name == "pow" and args[1:] == (0.5,):  # Vulkan has no exponential function in float64
            return torch.sqrt(args[0])
        if name == "__rpow__" and id(args[0]) in self._counts and isinstance(args[1], float):
            key = args[1], self._counts[id(args[0])]
            if key not in self._powers:
                self._powers[key] = whole_power(args[1], args[0])
            return self._powers[key]
        if isinstance(kwargs.get(_SCALED.get(name)), torch.Tensor):
            return _scaled(func, name, args, kwargs)
        return func(*args, **kwargs)


def _scaled(func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same call with the factor multiplied into the operand that it scales, in the type of the result."""
    factor = kwargs.pop(_SCALED[name])
    target, operand, *others = args
    wide = operand.to(torch.result_type(target, operand))
    return func(target, wide * factor, *others, **kwargs)


def whole_power(base: float, count: torch.Tensor) -> torch.Tensor:
    """``base ** count`` for a count below 2^31, to a few units in the last place of float64."""
    left, result = count.to(torch.int32), torch.ones_like(count)
    for bit in range(31):
        factor = base ** (2**bit)
        if factor == 0.0:  # as are all that follow
            return torch.where(left >= 1 << bit, 0.0, result)
        result = torch.where(left.bitwise_and(1 << bit) != 0, result * factor, result)
    return result


def _smaller(*values: Any) -> Any:
    return torch.minimum(*_both(values)) if _traced(values) else min(values)


def _larger(*values: Any) -> Any:
    return torch.maximum(*_both(values)) if _traced(values) else max(values)


def _traced(values: tuple[Any, ...]) -> bool:
    """Whether one is a tensor; another thread's Adafactor may take its steps in eager meanwhile."""
    return any(isinstance(value, torch.Tensor) for value in values)


def _both(values: tuple[Any, ...]) -> list[torch.Tensor]:
    return [torch.as_tensor(value, dtype=torch.float64) for value in values]

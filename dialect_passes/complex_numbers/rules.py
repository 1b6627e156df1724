"""Complex tensors as pairs of real ones, and the registry of what operators do to them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_ROOMS = ("arithmetic", "functions", "movement", "products")

_RULES: dict[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Pair:
    """A complex tensor by its parts."""

    re: Tensor
    im: Tensor

    def to(self, dtype: torch.dtype) -> Pair:
        """With parts of this real type."""
        return Pair(self.re.to(dtype), self.im.to(dtype))


@dataclass(frozen=True)
class Call:
    """A call of an operator with complex arguments or results.

    target: the operator. dtype: real type of the parts of the result, None where that is not complex.
    """

    target: Any
    dtype: torch.dtype | None


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers ``function(call, *args, **kwargs)`` for the operators ``aten.name`` (all overloads) or ``prims.name``.

    Complex tensors among the arguments, also in lists, are pairs.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in _RULES, f"{name} has two rules"
            _RULES[name] = function
        return function

    return register


def has_rule(target: Any) -> bool:
    """Whether the operator is known for complex numbers."""
    return _name(target) in _rules()


def rule_of(target: Any, dtype: torch.dtype | None) -> Callable[..., Any]:
    """The operator as a function over pairs. dtype: of its result."""
    found = _rules()[_name(target)]
    call = Call(target, None if dtype is None else real_of(dtype))
    return lambda *args, **kwargs: found(call, *args, **kwargs)


def _rules() -> dict[str, Callable[..., Any]]:
    for room in _ROOMS:
        importlib.import_module(f"{__package__}.{room}")
    return _RULES


def _name(target: Any) -> str:
    return ".".join(str(target).split(".")[:2])


def real_of(dtype: torch.dtype) -> torch.dtype | None:
    """The type of the parts of a complex type; None for another type."""
    import torch

    return {
        torch.complex32: torch.float16,
        torch.complex64: torch.float32,
        torch.complex128: torch.float64,
    }.get(dtype)


def pair_of(value: Any, call: Call) -> Pair:
    """A pair, real tensor or number as a pair of the result's type: eager, too, gives real values an imaginary 0."""
    import torch

    dtype = call.dtype
    assert dtype is not None
    if isinstance(value, Pair):
        return value.to(dtype)
    if isinstance(value, torch.Tensor):
        real = value.to(dtype)
        return Pair(real, torch.zeros_like(real))
    number = complex(value)
    return Pair(torch.scalar_tensor(number.real, dtype=dtype), torch.scalar_tensor(number.imag, dtype=dtype))


def each_part(function: Callable[..., Any], value: Any) -> Any:
    """`function` of the real parts and of the imaginary parts; several results become several pairs."""
    re, im = function(value.re), function(value.im)
    if isinstance(re, (tuple, list)):
        return [Pair(a, b) for a, b in zip(re, im, strict=True)]
    return Pair(re, im)

"""Checks of values that PyTorch's Python makes, left out while a model is traced: they cannot be traced.

`torch.distributions` compares its parameters and samples with their constraints, `gaussian_nll_loss` its variances
with 0, and raise in eager. torch.compile leaves those of distributions out too. A negative variance gives NaN instead.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch.distributions import Distribution
from torch.nn.functional import gaussian_nll_loss
from torch.overrides import TorchFunctionMode


@contextlib.contextmanager
def without_value_checks() -> Iterator[None]:
    """Distributions that were made with ``validate_args=True`` still check."""
    with mock.patch.object(Distribution, "_validate_args", False), _Unchecked():
        yield


class _Unchecked(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is gaussian_nll_loss:
            return _gaussian_nll_loss(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _gaussian_nll_loss(
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """PyTorch's formula and checks of shapes. Raises ValueError for arguments that do not fit."""
    if not isinstance(var, torch.Tensor):
        return gaussian_nll_loss(input, target, var, full, eps, reduction)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = _beside(input, torch.where(var < 0, torch.nan, var))
    # The gradient knows nothing of the floor.
    var = torch.where(var < eps, var - var.detach() + eps, var)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"none": lambda: loss, "mean": loss.mean, "sum": loss.sum}[reduction]()


def _beside(input: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
    """A variance for each element of `input`, or one for each of its last rows (of size 1, or without a size)."""
    if var.size() == input.size():
        return var
    if input.size()[:-1] == var.size():
        return var.unsqueeze(-1)
    pairs = zip(input.size(), var.size(), strict=True)
    if input.ndim == var.ndim and sum(own for of, own in pairs if of != own) == 1:
        return var
    raise ValueError("var is of incorrect size")

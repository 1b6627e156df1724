"""The loss of a batch as a module, and what the batch's tensors are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pipeline.errors import InputError, UnsupportedError

from .side_effects import assignments_written


class BatchLoss(nn.Module):
    """``forward(*batch)`` is the loss, of shape () and a floating type.

    The model is the submodule `model`, so that parameters keep their names behind ``model.``.
    """

    def __init__(self, model: nn.Module, loss_fn: Callable[..., Any]) -> None:
        super().__init__()
        self.model = model
        self._takes_model = takes_model(loss_fn)
        # In a tuple, or parameters of a loss module would be the model's.
        self._loss = (loss_fn,)

    def forward(self, *batch: Any) -> torch.Tensor:
        """The loss, as the user's function gives it."""
        with assignments_written(self.model):
            return _checked(self._call(*batch))

    def names(self, count: int) -> list[str]:
        """A name for each of a batch's `count` arguments."""
        return batch_names(self.model, self._loss[0], count)

    def _call(self, *batch: Any) -> Any:
        loss_fn = self._loss[0]
        if self._takes_model:
            return loss_fn(self.model, *batch)
        *inputs, target = batch
        return loss_fn(self.model(*inputs), target)


def takes_model(loss_fn: Callable[..., Any]) -> bool:
    """Whether the loss function calls the model itself: its first parameter is ``model``, or annotated as a module."""
    if isinstance(loss_fn, nn.Module):
        return False
    first = next(iter(_parameters(loss_fn)), None)
    if first is None:
        return False
    annotation = first.annotation
    is_module = isinstance(annotation, type) and issubclass(annotation, nn.Module)
    return first.name == "model" or is_module or annotation in ("nn.Module", "torch.nn.Module", "Module")


def batch_names(model: nn.Module, loss_fn: Callable[..., Any], count: int) -> list[str]:
    """A name for each of `count` arguments of a batch: the parameters of the model and the loss that take them."""
    if takes_model(loss_fn):
        names = _names(loss_fn)[1:]
    else:
        inputs = forward_names(model, count - 1)
        names = [*inputs, *_names(getattr(loss_fn, "forward", loss_fn))[1:2]]
    return _padded(names, count)


def forward_names(model: nn.Module, count: int) -> list[str]:
    """A name for each of `count` arguments of the model, as in `batch_names`."""
    return _padded(_names(model.forward), count)


def named(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """`function` with parameters of these names: what torch.export calls its inputs in the manifest and in errors."""

    def call(*batch: Any) -> Any:
        return function(*batch)

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def check_batch(args: Sequence[Any], loss_fn: Callable[..., Any]) -> None:
    """Raises InputError for a batch that holds too little to take a loss of."""
    if not takes_model(loss_fn) and len(args) < 2:
        raise InputError(
            "args must be a batch of inputs and a target, for loss_fn(model(*inputs), target); a loss that takes "
            "other arguments calls the model itself: def loss_fn(model, *batch)"
        )


def refuse_loss_parameters(loss_fn: Callable[..., Any]) -> None:
    """Raises UnsupportedError for a loss with weights of its own that would have to be trained."""
    if isinstance(loss_fn, nn.Module) and any(p.requires_grad for p in loss_fn.parameters()):
        raise UnsupportedError(
            "the loss function has parameters that take gradients; make it a part of the model, with "
            "def loss_fn(model, *batch)"
        )


def _checked(loss: Any) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        raise InputError(f"loss_fn must return a tensor, got {type(loss).__name__}")
    if loss.shape != () or not loss.is_floating_point():
        raise InputError(
            f"loss_fn must return one floating number, got a tensor of shape {list(loss.shape)} and {loss.dtype}; "
            "reduce it, such as by .mean()"
        )
    return loss


def _names(function: Callable[..., Any]) -> list[str]:
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in _parameters(function) if parameter.kind in by_position]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []  # of a builtin, such as torch.nn.functional's


def _padded(names: list[str], count: int) -> list[str]:
    """`count` different names: the first of `names`, and numbers where they end or repeat."""
    found: list[str] = []
    for i in range(count):
        name = names[i] if i < len(names) else f"batch_{i}"
        found.append(f"{name}_{i}" if name in found else name)
    return found

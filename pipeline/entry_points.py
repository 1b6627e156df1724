"""`EntrySpec`: which method of a model to compile, with which example arguments and dynamic dimensions."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from .errors import InputError

_FIELDS = ("method", "args", "kwargs", "dynamic_shapes", "further_inputs")


@dataclass
class EntrySpec:
    """What to capture as one entry point.

    method: name of the model's method; "forward" unless said otherwise.
    args, kwargs: example arguments. dynamic_shapes: as for `torch.export.export`.
    further_inputs: (args, kwargs) of more calls for `pipeline verify`, such as other dynamic sizes.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    method: str = "forward"
    further_inputs: tuple[tuple[tuple[Any, ...], Mapping[str, Any]], ...] = ()

    @classmethod
    def from_user(cls, name: str, value: Any) -> EntrySpec:
        """Reads one value of a user's ``entry_points`` dict. Raises InputError for anything unknown."""
        if isinstance(value, EntrySpec):
            return value
        if not isinstance(value, Mapping):
            raise InputError(
                f"entry_points['{name}'] must be a dict with {', '.join(_FIELDS)}, got {value!r}"
            )
        unknown = [key for key in value if key not in _FIELDS]
        if unknown:
            raise InputError(
                f"entry_points['{name}'] has unknown keys {unknown}; known: {', '.join(_FIELDS)}"
            )
        return cls(
            args=as_args(value.get("args", ()), f"entry_points['{name}']['args']"),
            kwargs=dict(value.get("kwargs") or {}),
            dynamic_shapes=value.get("dynamic_shapes"),
            method=value.get("method", name if name != "main" else "forward"),
            further_inputs=further_inputs(
                value.get("further_inputs", ()), f"entry_points['{name}']['further_inputs']"
            ),
        )

    @contextlib.contextmanager
    def as_forward(self, model: torch.nn.Module, name: str) -> Iterator[None]:
        """Makes `method` the model's forward for a while: torch.export only traces that."""
        if self.method == "forward":
            yield
            return
        function = getattr(model, self.method, None)
        if not callable(function):
            raise InputError(f"entry point '{name}': {type(model).__name__} has no method '{self.method}'")
        model.forward = function
        try:
            yield
        finally:
            del model.forward

    def parameters(self, model: torch.nn.Module) -> list[inspect.Parameter]:
        """The parameters of the method, without self."""
        return list(inspect.signature(getattr(model, self.method)).parameters.values())

    def ordered_kwargs(self, model: torch.nn.Module) -> dict[str, Any]:
        """The keyword arguments in the method's own order, so that callers may also pass them by position."""
        order = {parameter.name: i for i, parameter in enumerate(self.parameters(model))}
        return dict(sorted(self.kwargs.items(), key=lambda item: order.get(item[0], len(order))))

    def arguments(self, model: torch.nn.Module) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments to trace with: a tensor that is there twice is two, or torch.export takes them for one."""
        given = (self.args, self.ordered_kwargs(model))
        tensors = [id(leaf) for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
        if len(tensors) == len(set(tensors)):
            return given
        return tree_map_only(
            torch.Tensor, lambda x: x.detach().clone().requires_grad_(x.requires_grad), given
        )

    def check(self, model: torch.nn.Module) -> None:
        """Raises InputError when the arguments do not fit the method's signature."""
        try:
            inspect.signature(getattr(model, self.method)).bind(*self.args, **self.kwargs)
        except TypeError as error:
            raise InputError(
                f"the example arguments do not fit {type(model).__name__}.{self.method}"
                f"{inspect.signature(getattr(model, self.method))}: {error}"
            ) from error


def as_args(value: Any, what: str) -> tuple[Any, ...]:
    """Positional arguments as a tuple. Raises InputError for a bare tensor, the common slip."""
    if isinstance(value, torch.Tensor):
        raise InputError(
            f"{what} must be a tuple of arguments, got a tensor; write ({what.split('[', maxsplit=1)[0]},)"
        )
    if not isinstance(value, (tuple, list)):
        raise InputError(f"{what} must be a tuple of arguments, got {type(value).__name__}")
    return tuple(value)


def split_inputs(inputs: Any, what: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) from a tuple of arguments, a dict of keyword arguments, or (tuple, dict)."""
    if isinstance(inputs, dict):
        return (), inputs
    if isinstance(inputs, tuple) and len(inputs) == 2 and isinstance(inputs[0], tuple):
        args, kwargs = inputs
        if isinstance(kwargs, dict):
            return args, kwargs
    return as_args(inputs, what), {}


def further_inputs(value: Any, what: str) -> tuple[tuple[tuple[Any, ...], Mapping[str, Any]], ...]:
    """A list of inputs, each as `split_inputs` takes them. Raises InputError for anything but a list."""
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{what} must be a list of inputs, got {type(value).__name__}")
    return tuple(split_inputs(inputs, f"{what}[{i}]") for i, inputs in enumerate(value))

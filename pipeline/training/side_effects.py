"""What a model's forward pass does to the model itself, beside its result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from pipeline.errors import UnsupportedError


@contextlib.contextmanager
def assignments_written(model: nn.Module) -> Iterator[None]:
    """Turns what a traced forward pass assigns to buffers (``self.ema = ...``) into writes to their tensors.

    The tracer knows tensors: a buffer that is another one afterwards would keep its first value for ever. All other
    attributes get back what they had, so that each of several passes begins as the first one did.

    Raises UnsupportedError for a parameter that is replaced, and a buffer that becomes None or changes shape or dtype.
    """
    modules = dict(model.named_modules())
    before = {path: _Attributes(module) for path, module in modules.items()}
    try:
        yield
        for path, module in modules.items():
            before[path].write_assigned(module, path)
    finally:
        for path, module in modules.items():
            before[path].restore(module)


class _Attributes:
    """The attributes of one module, its submodules' excluded."""

    def __init__(self, module: nn.Module) -> None:
        self._plain = dict(vars(module))
        self._buffers = dict(module._buffers)
        self._parameters = dict(module._parameters)

    def write_assigned(self, module: nn.Module, path: str) -> None:
        """Writes the new values into the tensors that were there."""
        for name in {*self._parameters, *module._parameters}:
            if self._parameters.get(name) is not module._parameters.get(name):
                raise UnsupportedError(f"the forward pass replaces the parameter '{_full(path, name)}'")
        for name in {*self._buffers, *module._buffers}:
            old, new = self._buffers.get(name), module._buffers.get(name)
            if old is not new:
                _write(old, new, _full(path, name))

    def restore(self, module: nn.Module) -> None:
        """Gives the module the attributes that it had."""
        for key in vars(module).keys() - self._plain.keys():
            del module.__dict__[key]
        module.__dict__.update(self._plain)
        _refill(module._buffers, self._buffers)
        _refill(module._parameters, self._parameters)


def _write(old: torch.Tensor | None, new: torch.Tensor | None, name: str) -> None:
    if old is None or new is None or (old.shape, old.dtype) != (new.shape, new.dtype):
        raise UnsupportedError(
            f"the forward pass makes the buffer '{name}' {_what(new)}, it was {_what(old)}; a buffer of a compiled "
            "step keeps its shape and dtype"
        )
    old.copy_(new.detach())


def _what(tensor: torch.Tensor | None) -> str:
    return "nothing" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _full(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _refill(there: dict[str, Any], values: dict[str, Any]) -> None:
    there.clear()
    there.update(values)

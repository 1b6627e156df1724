"""The home of `pipeline.op` and what declarations use, with the compiler that their `check` uses."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.nn import Module

from pipeline.dialect_passes.custom_operators.compiled_checks import set_compiler
from pipeline.dialect_passes.custom_operators.declaration import CustomOp, op
from pipeline.dialect_passes.custom_operators.errors import Unavailable
from pipeline.dialect_passes.custom_operators.launch import Launch, f32, f64, i32, i64
from pipeline.dialect_passes.custom_operators.lowering import Refused
from pipeline.dialect_passes.custom_operators.sizes import ceildiv, maximum, minimum

__all__ = [
    "CustomOp",
    "Launch",
    "Refused",
    "ceildiv",
    "f32",
    "f64",
    "i32",
    "i64",
    "maximum",
    "minimum",
    "op",
]


def _compiled(
    module: Module, args: tuple[Tensor, ...], target: str, lowerings: Mapping[str, str]
) -> Callable[..., Any]:
    """A module compiled for `check`. Raises Unavailable where this machine cannot run the target."""
    from pipeline.runtime import IncompatibleDeviceError

    from .api import compile

    try:
        return compile(module, args=args, target=target, lowerings=lowerings)
    except IncompatibleDeviceError as error:
        raise Unavailable(str(error)) from None


set_compiler(_compiled)

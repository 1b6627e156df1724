"""Shape and dtype functions that an operator's author gives, in the form of the shape library.

A shape function takes a ``list[int]`` for every Tensor, a dtype function a ``(rank, dtype)`` pair under the name
``x_rank_dtype``; other arguments come as they are, dtypes as the library's codes. They return a shape (a dtype code)
per result, several as a tuple, a list of them for a list of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from pipeline.shape_lib import registry
from pipeline.shape_lib.dtypes import CODES

from .results import map_tensors
from .schema import check_parameters

if TYPE_CHECKING:
    from .declaration import CustomOp

Kind = Literal["shape", "dtype"]


def register(op: CustomOp, kind: Kind, function: Callable[..., Any]) -> None:
    """Registers the function for `op` in the shape library.

    Raises DeclarationError where its parameters are not the operator's arguments.
    """
    ending = "_rank_dtype" if kind == "dtype" else ""
    wanted = [f"{a.name}{ending}" if a.holds_tensors else a.name for a in op.schema.arguments]
    check_parameters(f"{op.name}: the {kind} function", function, wanted)
    decorate = registry.shape_function if kind == "shape" else registry.dtype_function
    decorate(op.name)(function)


def forget(op: CustomOp) -> None:
    """Takes the functions of `op` out of the shape library."""
    registry.forget(op.name)


def expected(kind: Kind, results: Sequence[Any]) -> list[Any]:
    """What a shape or dtype function should give for these results of the meaning: nested lists."""
    return map_tensors(_shape if kind == "shape" else _code, list(results))


def given(op: CustomOp, kind: Kind, function: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
    """What the function gives for the arguments' values, in the form of `expected`.

    Raises whatever the function raises, which it may do to refuse the arguments.
    """
    change = _shape if kind == "shape" else _rank_dtype
    answer = function(*(_plain(map_tensors(change, value)) for value in values))
    return _lists(answer) if op.schema.several else [_lists(answer)]


def _plain(value: Any) -> Any:
    return _dtype_code(value) if isinstance(value, torch.dtype) else value


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)


def _code(tensor: Tensor) -> int:
    return _dtype_code(tensor.dtype)


def _rank_dtype(tensor: Tensor) -> tuple[int, int]:
    return tensor.dim(), _dtype_code(tensor.dtype)


def _dtype_code(dtype: torch.dtype) -> int:
    return CODES[str(dtype).removeprefix("torch.")]


def _lists(value: Any) -> Any:
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value

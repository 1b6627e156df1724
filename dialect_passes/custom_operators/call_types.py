"""The types of one call of a custom operator, as its lowerings see them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pipeline.shape_lib.dtypes import SPELLED

from .lowering import Refused
from .sizes import Size


@dataclass(frozen=True)
class TensorType:
    """shape: None for a size that is known only when the program runs. dtype: torch's name, ``"float32"``."""

    shape: tuple[int | None, ...]
    dtype: str

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dynamic_dims(self) -> tuple[int, ...]:
        """The numbers of the dimensions whose size is unknown."""
        return tuple(number for number, size in enumerate(self.shape) if size is None)

    @property
    def element(self) -> str:
        """The element type in linalg: ``f32``, ``i64``, ``i1``. Raises Refused for a dtype that torch-mlir lacks."""
        return self._element.removeprefix("s").removeprefix("u")

    @property
    def element_bytes(self) -> int:
        """The bytes of one element in memory; a bool is one byte."""
        return getattr(torch, self.dtype).itemsize

    @property
    def builtin(self) -> str:
        """As a builtin type: ``tensor<?x6xf32>``."""
        return f"tensor<{'x'.join([*self._sizes, self.element])}>"

    @property
    def torch(self) -> str:
        """As a type of the Torch dialect: ``!torch.vtensor<[?,6],f32>``."""
        return f"!torch.vtensor<[{','.join(self._sizes)}],{self._element}>"

    @property
    def _element(self) -> str:
        """The element type in the Torch dialect. Raises Refused."""
        if self.dtype not in SPELLED:
            raise Refused(f"torch-mlir has no tensors of {self.dtype}")
        return SPELLED[self.dtype]

    @property
    def _sizes(self) -> list[str]:
        return ["?" if size is None else str(size) for size in self.shape]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(self._sizes)}]"


Argument = Any
"""TensorType, a tuple of TensorType or None (a list of tensors), None, or the scalar's Python value."""


@dataclass(frozen=True, eq=False)
class CallTypes:
    """The types of one call.

    arguments: by parameter name, in schema order, defaults filled in. results: of the operator, in order.
    result_sizes: the sizes of each result in terms of the operands'; None where nobody told (see
        `symbolic_sizes.describe_call`). A kernel needs them where a result has unknown sizes.
    """

    arguments: Mapping[str, Argument]
    results: tuple[TensorType, ...]
    result_sizes: tuple[tuple[int | Size, ...], ...] | None = None

    def tensors(self) -> Iterator[tuple[str, TensorType]]:
        """The tensor operands with a name each: lists flattened (``xs_0``, ``xs_1``), None left out."""
        for name, argument in self.arguments.items():
            if isinstance(argument, TensorType):
                yield name, argument
            elif isinstance(argument, tuple):
                for number, item in enumerate(argument):
                    if isinstance(item, TensorType):
                        yield f"{name}_{number}", item

    # By the text: 1, 1.0 and True are equal in Python, but not to a kernel, and a Size cannot be compared.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallTypes) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __getitem__(self, name: str) -> Argument:
        """The argument `name`. Raises KeyError naming those there are."""
        if name not in self.arguments:
            raise KeyError(f"the operator has no parameter '{name}', only {', '.join(self.arguments)}")
        return self.arguments[name]


def is_identifier(name: str) -> bool:
    """Whether `name` can stand in C, GLSL and MLIR alike."""
    return re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None

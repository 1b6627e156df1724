"""The types of one call of a custom operator, as its lowerings see them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .sizes import Size

# torch dtype -> the element type that linalg and the Torch dialect have for it. Signs are torch-mlir's: its
# linalg has none, its Torch dialect writes them.
_BUILTIN = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "i8",
    "bool": "i1",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
_TORCH = (
    _BUILTIN | {name: f"s{_BUILTIN[name]}" for name in ("int64", "int32", "int16", "int8")} | {"uint8": "ui8"}
)
_BYTES = {"float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4}
_BYTES |= {"float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


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
        """The element type in linalg: ``f32``, ``i64``, ``i1``. Raises KeyError for a dtype MLIR lacks."""
        return _BUILTIN[self.dtype]

    @property
    def element_bytes(self) -> int:
        """The bytes of one element in memory; a bool is one byte."""
        return _BYTES[self.dtype]

    @property
    def builtin(self) -> str:
        """As a builtin type: ``tensor<?x6xf32>``."""
        sizes = "".join(f"{'?' if size is None else size}x" for size in self.shape)
        return f"tensor<{sizes}{self.element}>"

    @property
    def torch(self) -> str:
        """As a type of the Torch dialect: ``!torch.vtensor<[?,6],f32>``."""
        sizes = ",".join("?" if size is None else str(size) for size in self.shape)
        return f"!torch.vtensor<[{sizes}],{_TORCH[self.dtype]}>"

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype}[{sizes}]"


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

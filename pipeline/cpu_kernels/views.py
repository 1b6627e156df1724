"""Where the rows of tensors lie in memory: those that a kernel reads and those that it writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iree.compiler import ir


class Indices:
    """Constants of a kernel."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def __call__(self, value: int) -> str:
        return self._names.setdefault(value, f"%i{value}")

    def lines(self) -> list[str]:
        """Their definitions, which come first."""
        return [f"{name} = arith.constant {value} : index" for value, name in self._names.items()]


@dataclass(frozen=True)
class View:
    """Rows of a tensor in memory. size: elements of the tensor; None: it has as many rows as `%rows` says.

    strides: elements from a row to the next, for each dimension that counts rows, from the slowest.
    offset: of the first row's first element.
    """

    size: int | None
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def memory(self) -> str:
        """The type of the tensor's memory."""
        return self.memory_of("f32")

    def memory_of(self, element: str) -> str:
        """The type of the memory of elements of another type."""
        return f"memref<{'?' if self.size is None else self.size}x{element}>"

    def bind(self, name: str, binding: int, element: str, index: Indices) -> list[str]:
        """Lines that give the tensor's memory the name `name`."""
        subspan = f"{name} = stream.binding.subspan %arg{binding}[{index(0)}] : !stream.binding"
        if self.size is not None:
            return [f"{subspan} -> {self.memory_of(element)}"]
        return [
            f"{name}size = arith.muli %rows, {index(self.strides[0])} : index",
            f"{subspan} -> {self.memory_of(element)}{{{name}size}}",
        ]

    def start(self, name: str, row: Row, index: Indices) -> list[str]:
        """Lines that compute where `row` begins, as `name`."""
        lines: list[str] = []
        total = index(self.offset)
        for number, (place, stride) in enumerate(zip(row, self.strides, strict=True)):
            last = number == len(row) - 1
            sum_ = name if last else f"{name}t{number}"
            lines.append(f"{name}s{number} = arith.muli {place}, {index(stride)} : index")
            lines.append(f"{sum_} = arith.addi {total}, {name}s{number} : index")
            total = sum_
        return lines


Counts = tuple[int | None, ...]
"""Of rows, by dimension, from the slowest."""

Row = Sequence[str]
"""The names of a row's numbers in each dimension that counts rows, from the slowest."""


@dataclass(frozen=True)
class Border:
    """Pixels around an image: above, below, left and right of it; value: the text of what they hold."""

    top: int
    bottom: int
    left: int
    right: int
    value: str


@dataclass(frozen=True)
class Shape:
    """What a kernel computes: `columns` for each row; counts: of rows, by dimension, from the slowest.

    Where only a call tells the number of rows, counts are (None,).
    border: around images (batch, rows, pixels of a row), in the memory of the result.
    """

    counts: Counts
    columns: int
    border: Border | None = None

    @property
    def is_open(self) -> bool:
        """Whether only a call tells how many rows there are."""
        return None in self.counts

    @property
    def known(self) -> tuple[int, ...]:
        """The counts, where they are known."""
        return tuple(count for count in self.counts if count is not None)

    @property
    def rows(self) -> int:
        """How many rows there are, where that is known."""
        return math.prod(self.known)

    @property
    def padded(self) -> tuple[int, ...]:
        """The known counts with the border."""
        if self.border is None:
            return self.known
        batch, rows, pixels = self.known
        border = self.border
        return (batch, rows + border.top + border.bottom, pixels + border.left + border.right)

    @property
    def view(self) -> View:
        """The rows in the memory of the result."""
        if self.is_open:
            return View(None, (self.columns,))
        padded = self.padded
        strides = tuple(math.prod(padded[i + 1 :]) * self.columns for i in range(len(padded)))
        offset = self.border.top * strides[1] + self.border.left * strides[2] if self.border else 0
        return View(math.prod(padded) * self.columns, strides, offset)


def view_of(value: ir.Value, counts: Counts) -> tuple[ir.Value, View]:
    """The memory that holds `value`, and its rows there, counted as `counts` says: slices are read where they are."""
    whole = _whole(value, counts)
    if whole is None:
        columns = value.type.shape[-1]
        return value, Shape(counts, columns).view
    strides = _strides(whole.type.shape)
    offsets = list(ir.DenseI64ArrayAttr(value.owner.attributes["static_offsets"]))
    offset = sum(place * stride for place, stride in zip(offsets, strides, strict=True))
    return whole, View(math.prod(whole.type.shape), tuple(strides[:-1]), offset)


def _whole(value: ir.Value, counts: Counts) -> ir.Value | None:
    """What `value` is a slice of, where that is one of neighbours in each dimension."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "tensor.extract_slice":
        return None
    source = value.owner.operands[0]
    steps = list(ir.DenseI64ArrayAttr(value.owner.attributes["static_strides"]))
    known = len(value.owner.operands) == 1 and source.type.has_static_shape
    same = source.type.rank == value.type.rank and list(value.type.shape[:-1]) == list(counts)
    return source if known and same and all(step == 1 for step in steps) else None


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]

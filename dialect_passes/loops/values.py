"""Numbers and arrays of a loop kernel while it is translated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["bool", "int", "real", "complex"]
KINDS: tuple[Kind, ...] = ("bool", "int", "real", "complex")
"""From the narrowest to the widest: where two meet, the wider one is computed in."""


class LoopError(Exception):
    """The kernel uses Python that loops in the IR have no form for; the message quotes the line."""


@dataclass(frozen=True)
class Value:
    """A number that the program computes. parts: its SSA values; of a complex one, real and imaginary part."""

    kind: Kind
    parts: tuple[str, ...]


Number = Value | int | float | bool
"""A number; what Python can tell stays a Python number."""


@dataclass(frozen=True)
class Array:
    """The matrix (vector, number) of one batch entry.

    memory: the memref of all entries, a row each. element: its element type; complex numbers are pairs of it.
    entry: the number of this one. sizes: its dimensions.
    """

    memory: str
    element: str
    kind: Kind
    entry: str
    sizes: tuple[Number, ...]

    @property
    def memory_type(self) -> str:
        """The type of `memory`."""
        return memory_type(self.element)


def memory_type(element: str) -> str:
    """The type of an array's memory: a row per entry, that may begin anywhere in a buffer."""
    return f"memref<?x?x{element}, strided<[?, 1], offset: ?>>"


def kind_of(value: Number) -> Kind:
    """The kind of a number, also of Python's."""
    if isinstance(value, Value):
        return value.kind
    return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"


def wider(*kinds: Kind) -> Kind:
    """The widest of `kinds`."""
    return max(kinds, key=KINDS.index)

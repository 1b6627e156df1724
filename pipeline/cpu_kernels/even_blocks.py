"""Rows cut into blocks for the kernels' tiles, as even as can be: the first ones are one row taller than the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .views import Indices


@dataclass(frozen=True)
class EvenBlocks:
    """rows: how many there are. tallest: how many a tile has at most."""

    rows: int
    tallest: int

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return -(-self.rows // self.tallest)

    @property
    def height(self) -> int:
        """Rows of the first blocks."""
        return -(-self.rows // self.count)

    @property
    def tall(self) -> int:
        """How many blocks have that height; the others have one row less."""
        return self.rows - self.count * (self.height - 1)

    def in_chunk(self, rows: int) -> int:
        """How many blocks a workgroup takes that is to have about so many rows."""
        return max(1, rows // self.height)

    def chunks(self, rows: int) -> int:
        """How many such workgroups there are."""
        return -(-self.count // self.in_chunk(rows))

    def chunk_loops(self, rows: int, index: Indices, block: Callable[[int, str], list[str]]) -> list[str]:
        """`loops` over the blocks of workgroup `%chunk`."""
        each = index(self.in_chunk(rows))
        return [
            f"%first = arith.muli %chunk, {each} : index",
            f"%next = arith.addi %first, {each} : index",
            f"%last = arith.minsi %next, {index(self.count)} : index",
            *self.loops("%first", "%last", index, block),
        ]

    def loops(
        self, first: str, last: str, index: Indices, block: Callable[[int, str], list[str]]
    ) -> list[str]:
        """Loops over the blocks from number `first` up to `last`.

        block: writes a block of so many rows with names of its own prefix; it begins at row `%<prefix>start`.
        """
        lines = [
            f"%talllast = arith.minsi {last}, {index(self.tall)} : index",
            *self._loop(first, "%talllast", self.height, index, "t", block),
        ]
        if self.tall < self.count:
            lines.append(f"%shortfirst = arith.maxsi {first}, {index(self.tall)} : index")
            lines += self._loop("%shortfirst", last, self.height - 1, index, "s", block)
        return lines

    def _loop(
        self,
        first: str,
        last: str,
        rows: int,
        index: Indices,
        prefix: str,
        block: Callable[[int, str], list[str]],
    ) -> list[str]:
        before = 0 if rows == self.height else self.tall
        return [
            f"scf.for %{prefix}block = {first} to {last} step {index(1)} {{",
            f"%{prefix}before = arith.muli %{prefix}block, {index(rows)} : index",
            f"%{prefix}start = arith.addi %{prefix}before, {index(before)} : index",
            *block(rows, prefix),
            "}",
        ]

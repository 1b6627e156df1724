"""A block of sums in registers: so many rows of the left factor by so many vectors of the right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .views import Indices

Load = Callable[[int], list[str]]


@dataclass(frozen=True)
class Block:
    """prefix: of all names. rows, vectors: of the block. lanes: of a vector."""

    prefix: str
    rows: int
    vectors: int
    lanes: int

    @property
    def vector(self) -> str:
        """The type of a vector."""
        return f"vector<{self.lanes}xf32>"

    @property
    def types(self) -> str:
        """The types of all sums."""
        return ", ".join([self.vector] * (self.rows * self.vectors))

    @property
    def k(self) -> str:
        """The counter of `loop`."""
        return f"%{self.prefix}k"

    def names(self, kind: str) -> list[str]:
        """A name for each sum, row by row."""
        return [f"%{self.prefix}{kind}{r}_{v}" for r in range(self.rows) for v in range(self.vectors)]

    def left(self, row: int) -> str:
        """The element of the left factor in `row`, which is to be loaded."""
        return f"%{self.prefix}e{row}"

    def right(self, vector: int) -> str:
        """The vector of the right factor, which is to be loaded."""
        return f"%{self.prefix}b{vector}"

    def multiply(self, left: Load, right: Load, sums: list[str]) -> list[str]:
        """One step of k: `sums` and the products, as names of kind "f". left, right: lines that load."""
        made = self.names("f")
        lines = [line for v in range(self.vectors) for line in right(v)]
        for r in range(self.rows):
            each = f"%{self.prefix}a{r}"
            lines += [*left(r), f"{each} = vector.broadcast {self.left(r)} : f32 to {self.vector}"]
            for v in range(self.vectors):
                number = r * self.vectors + v
                lines.append(
                    f"{made[number]} = vector.fma {each}, {self.right(v)}, {sums[number]} : {self.vector}"
                )
        return lines

    def loop(self, depth: int, left: Load, right: Load, index: Indices) -> tuple[list[str], list[list[str]]]:
        """All steps of k, from %zero on; then the names of the sums, by row."""
        carried, made = self.names("s"), self.names("f")
        sums = f"%{self.prefix}sums"
        starts = ", ".join(f"{name} = %zero" for name in carried)
        lines = [
            f"{sums}:{len(made)} = scf.for {self.k} = {index(0)} to {index(depth)} step {index(1)} "
            f"iter_args({starts}) -> ({self.types}) {{",
            *self.multiply(left, right, carried),
            f"scf.yield {', '.join(made)} : {self.types}",
            "}",
        ]
        return lines, self.by_row([f"{sums}#{i}" for i in range(len(made))])

    def by_row(self, names: list[str]) -> list[list[str]]:
        """The names of each row."""
        return [names[r * self.vectors : (r + 1) * self.vectors] for r in range(self.rows)]

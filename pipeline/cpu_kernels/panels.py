"""Text of the kernel that multiplies rows by packed panels: matrix products, convolutions of channels-last images.

    result[row, column] = sum over k of left[start(row) + place(k)] * panels[column / width, k, column % width]

A row of a matrix is one run of neighbours in memory; what a convolution multiplies for a pixel are several, one for
each row of its window (for each of its elements, with dilation). The sums of `tile.rows` rows times `tile.vectors`
vectors of columns stay in registers while k runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .blocks import Block
from .epilogues import Epilogue
from .even_blocks import EvenBlocks
from .isa import Tile, VectorUnit
from .views import Indices, Row, Shape, View
from .writing import Columns, Results, Work, executable

# Rows that one workgroup takes; what it reads of them stays in the second-level cache for all panels.
_CHUNK = 224

# Heights of blocks, below the tile's, where only the call tells how many rows there are.
_LOW = (4, 1)


@dataclass(frozen=True)
class Steps:
    """count: how many. stride: elements from one to the next."""

    count: int
    stride: int


@dataclass(frozen=True)
class PanelProduct:
    """left: where the runs of each row are counted from. runs: what each row multiplies, as nested steps; the last are
    neighbours. shape: of the result."""

    shape: Shape
    left: View
    runs: tuple[Steps, ...]
    tile: Tile
    unit: VectorUnit

    @property
    def depth(self) -> int:
        """Products in each sum."""
        return math.prod(steps.count for steps in self.runs)

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.tile.vectors * self.unit.lanes

    @property
    def panels(self) -> int:
        """How many panels the right factor is packed into."""
        return -(-self.shape.columns // self.width)


def kernel_text(symbol: str, product: PanelProduct, epilogue: Epilogue) -> str:
    """The executable `symbol`: bindings are the left factor, the panels, the epilogue's tensors, the result."""
    return _Writer(product, epilogue).text(symbol)


class _Writer:
    def __init__(self, product: PanelProduct, epilogue: Epilogue) -> None:
        self._product = product
        self._is_long = epilogue.is_long
        self._bindings = 3 + len(epilogue.extra)
        self._index = Indices()
        self._results = Results(product.shape, product.unit, epilogue, self._index)
        self._columns: list[Columns] = []
        self._panels = f"memref<{product.panels}x{product.depth}x{product.width}xf32>"
        self._blocks = EvenBlocks(product.shape.rows, product.tile.rows)

    def text(self, symbol: str) -> str:
        """The whole."""
        product = self._product
        if product.shape.is_open:
            lines = [*self._bind(), *self._open_chunk()]
            workgroups = (product.panels, _CHUNK)
            return executable(symbol, self._bindings, workgroups, [*self._index.lines(), *lines], None)
        lines = [*self._bind(), *self._chunk()]
        workgroups = (product.panels, self._blocks.chunks(_CHUNK))
        operations = 2 * product.shape.rows * product.depth * product.shape.columns
        tensors = (
            (product.left.size or 0) + product.panels * product.depth * product.width + self._results.size
        )
        work = Work(operations, 4 * tensors)
        return executable(symbol, self._bindings, workgroups, [*self._index.lines(), *lines], work)

    def _bind(self) -> list[str]:
        zero = self._index(0)
        lines, self._columns = self._results.columns("col", "%column", self._product.tile.vectors)
        return [
            *self._product.left.bind("%left", 0, "f32", self._index),
            f"%panels = stream.binding.subspan %arg1[{zero}] : !stream.binding -> {self._panels}",
            *self._results.bind(2),
            "%panel = stream.dispatch.workgroup.id[0] : index",
            "%chunk = stream.dispatch.workgroup.id[1] : index",
            f"%column = arith.muli %panel, {self._index(self._product.width)} : index",
            f"%following = arith.addi %panel, {self._index(1)} : index",
            f"%soon = arith.minsi %following, {self._index(self._product.panels - 1)} : index",
            *lines,
        ]

    def _chunk(self) -> list[str]:
        """The blocks of rows of one workgroup."""
        border = self._results.fill_border(self._columns, "b")
        if border:
            is_first = f"%isfirst = arith.cmpi eq, %chunk, {self._index(0)} : index"
            border = [is_first, "scf.if %isfirst {", *border, "}"]
        return [*border, *self._blocks.chunk_loops(_CHUNK, self._index, self._block)]

    def _open_chunk(self) -> list[str]:
        """Blocks of the greatest height that the workgroup's rows allow; the last one ends with them."""
        lines = [
            f"%first = arith.muli %chunk, {self._index(_CHUNK)} : index",
            f"%next = arith.addi %first, {self._index(_CHUNK)} : index",
            "%last = arith.minsi %next, %rows : index",
            "%mine = arith.subi %last, %first : index",
        ]
        heights = [self._product.tile.rows, *(height for height in _LOW if height < self._product.tile.rows)]
        for height in heights:
            own = f"%h{height}"
            lines += [
                f"{own}fits = arith.cmpi sge, %mine, {self._index(height)} : index",
                f"scf.if {own}fits {{",
                f"{own}latest = arith.subi %last, {self._index(height)} : index",
                f"scf.for {own}next = %first to %last step {self._index(height)} {{",
                f"{own}start = arith.minsi {own}next, {own}latest : index",
                *self._block(height, f"h{height}"),
                "}",
                "} else {",
            ]
        return [*lines, *["}"] * len(heights)]

    def _block(self, rows: int, prefix: str) -> list[str]:
        """The results of so many rows from `%...start` on."""
        lines: list[str] = []
        numbers: list[Row] = []
        for r in range(rows):
            lines.append(f"%{prefix}row{r} = arith.addi %{prefix}start, {self._index(r)} : index")
            text, row = self._numbers(f"%{prefix}row{r}")
            lines += [*text, *self._product.left.start(f"%{prefix}from{r}", row, self._index)]
            numbers.append(row)
        sums, text = self._sums(rows, prefix)
        return [*lines, *text, *self._finish(numbers, prefix, sums)]

    def _numbers(self, row: str) -> tuple[list[str], Row]:
        """The row's number in each dimension that counts rows."""
        lines: list[str] = []
        numbers: list[str] = []
        rest = row
        for i, count in reversed(list(enumerate(self._product.shape.counts))):
            if i == 0 or count is None:
                numbers.insert(0, rest)
                continue
            lines.append(f"{row}d{i} = arith.remui {rest}, {self._index(count)} : index")
            lines.append(f"{row}q{i} = arith.divui {rest}, {self._index(count)} : index")
            numbers.insert(0, f"{row}d{i}")
            rest = f"{row}q{i}"
        return lines, numbers

    def _sums(self, rows: int, prefix: str) -> tuple[list[list[str]], list[str]]:
        """The names of the sums, by row, and the loops over k."""
        block = Block(prefix, rows, self._product.tile.vectors, self._product.unit.lanes)
        made = block.names("f")
        place, k, carried = self._index(0), self._index(0), ["%zero"] * len(made)
        lines: list[str] = []
        loops = self._loops()
        for number, (steps, depth) in enumerate(loops):
            own = f"%{prefix}{number}"
            names = block.names(f"{number}s")
            starts = ", ".join(f"{name} = {value}" for name, value in zip(names, carried, strict=True))
            lines += [
                f"{own}sum:{len(names)} = scf.for {own}i = {self._index(0)} to {self._index(steps.count)} "
                f"step {self._index(1)} iter_args({starts}) -> ({block.types}) {{",
                f"{own}step = arith.muli {own}i, {self._index(steps.stride)} : index",
                f"{own}place = arith.addi {place}, {own}step : index",
                f"{own}deeper = arith.muli {own}i, {self._index(depth)} : index",
                f"{own}k = arith.addi {k}, {own}deeper : index",
            ]
            place, k, carried = f"{own}place", f"{own}k", names
        lines += self._multiply(block, place, k, carried)
        for number in reversed(range(len(loops))):
            lines.append(f"scf.yield {', '.join(made)} : {block.types}\n}}")
            made = [f"%{prefix}{number}sum#{i}" for i in range(len(made))]
        return block.by_row(made), lines

    def _loops(self) -> list[tuple[Steps, int]]:
        """The steps of k, and how much of k each takes."""
        loops: list[tuple[Steps, int]] = []
        depth = 1
        for steps in reversed(self._product.runs):
            if steps.count > 1:
                loops.insert(0, (steps, depth))
            depth *= steps.count
        return loops or [(self._product.runs[-1], 1)]

    def _multiply(self, block: Block, place: str, k: str, sums: list[str]) -> list[str]:
        own = f"%{block.prefix}"

        def left(r: int) -> list[str]:
            return [
                f"{own}p{r} = arith.addi {own}from{r}, {place} : index",
                f"{block.left(r)} = memref.load %left[{own}p{r}] : {self._product.left.memory}",
            ]

        def right(v: int) -> list[str]:
            at = f"{k}, {self._index(v * block.lanes)}] : {self._panels}"
            return [
                f"{block.right(v)} = vector.load %panels[%panel, {at}, {block.vector}",
                # The caches' own look-ahead ends with the panel, and weights come from far away.
                f"memref.prefetch %panels[%soon, {k}, {self._index(v * block.lanes)}], read, locality<2>, data : "
                f"{self._panels}",
            ]

        return block.multiply(left, right, sums)

    def _finish(self, rows: list[Row], prefix: str, sums: list[list[str]]) -> list[str]:
        """The results: a long epilogue is a loop over the rows of the sums, which are in memory until then."""
        if not self._is_long:
            parts = [
                self._results.row(row, sums[r], self._columns, f"{prefix}{r}") for r, row in enumerate(rows)
            ]
            return [line for part in parts for line in part]
        kept = [
            self._results.store_raw(row, sums[r], self._columns, f"{prefix}{r}") for r, row in enumerate(rows)
        ]
        number, raw = f"%{prefix}number", [f"%{prefix}raw{v}" for v in range(len(self._columns))]
        text, row = self._numbers(number)
        return [
            *(line for part in kept for line in part),
            f"%{prefix}end = arith.addi %{prefix}start, {self._index(len(rows))} : index",
            f"scf.for {number} = %{prefix}start to %{prefix}end step {self._index(1)} {{",
            *text,
            *self._results.load_raw(raw, row, self._columns, prefix),
            *self._results.row(row, raw, self._columns, prefix),
            "}",
        ]

"""Text of the kernel of attention: the scores of some rows are in memory of the kernel, and never all of them.

    result[head, row] = sum over n of softmax(scores[head, row])[n] * values[head, n]
    scores[head, row, n] = epilogue(sum over k of queries[head, row, k] * keys[head, n, k])

As the three operations that it stands for: a row whose scores are all -inf is NaN, or `masked` where that is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .blocks import Block
from .epilogues import Epilogue
from .even_blocks import EvenBlocks
from .isa import Tile, VectorUnit
from .views import Indices, Shape
from .writing import Columns, Results, Work, executable

# Rows of queries that one workgroup takes.
_CHUNK = 64


@dataclass(frozen=True)
class Attention:
    """counts: of rows: one or more dimensions of heads, then queries. keys: how many. width: of queries and keys.

    values: width of the values. masked: the text of the probability in rows of -inf alone.
    """

    counts: tuple[int, ...]
    keys: int
    width: int
    values: int
    masked: str | None
    unit: VectorUnit

    @property
    def heads(self) -> int:
        """How many there are in all."""
        return math.prod(self.counts[:-1])

    @property
    def tile(self) -> Tile:
        """Of scores and of results alike."""
        return Tile.of_vectors(2, self.unit)

    @property
    def panels(self) -> int:
        """Panels that the keys of a head are packed into."""
        return -(-self.keys // self.panel)

    @property
    def panel(self) -> int:
        """Keys in a panel."""
        return self.tile.vectors * self.unit.lanes

    @property
    def bytes(self) -> int:
        """Memory for the scores of a block of rows."""
        return 4 * self.tile.rows * self.panels * self.panel


def kernel_text(symbol: str, attention: Attention, scores: Epilogue) -> str:
    """The executable `symbol`: bindings are queries [heads, rows, width], keys [heads, panels, width, panel], values
    [heads, keys, values], the tensors of `scores`, the result."""
    return _Writer(attention, scores).text(symbol)


class _Writer:
    def __init__(self, attention: Attention, scores: Epilogue) -> None:
        own = self._own = attention
        self._index = Indices()
        self._bindings = 4 + len(scores.extra)
        self._scores = Results(Shape(own.counts, own.keys), own.unit, scores, self._index)
        nothing = Epilogue(scores.start, scores.start)
        self._results = Results(
            Shape((own.heads, own.counts[-1]), own.values), own.unit, nothing, self._index
        )
        self._vector = f"vector<{own.unit.lanes}xf32>"
        rows = own.counts[-1]
        self._blocks = EvenBlocks(rows, own.tile.rows)
        self._padded = own.panels * own.panel
        self._row = f"memref<{self._blocks.height}x{self._padded}xf32>"
        self._queries = f"memref<{own.heads * rows * own.width}xf32>"
        self._keys = f"memref<{own.heads * own.panels}x{own.width}x{own.panel}xf32>"
        self._values = f"memref<{own.heads * own.keys}x{own.values}xf32>"

    def text(self, symbol: str) -> str:
        """The whole."""
        lines = [*self._bind(), *self._blocks.chunk_loops(_CHUNK, self._index, self._block)]
        workgroups = (self._blocks.chunks(_CHUNK), self._own.heads)
        own = self._own
        rows = own.heads * own.counts[-1]
        operations = 2 * rows * own.keys * (own.width + own.values)
        tensors = rows * own.width + own.heads * (self._padded * own.width + own.keys * own.values)
        work = Work(operations, 4 * (tensors + self._scores.extra_size + self._results.size))
        return executable(symbol, self._bindings, workgroups, [*self._index.lines(), *lines], work)

    def _bind(self) -> list[str]:
        own, zero, out = self._own, self._index(0), self._bindings - 1
        memories = {0: ("%queries", self._queries), 1: ("%keys", self._keys), 2: ("%values", self._values)}
        memories[out] = ("%out", Shape((own.heads, own.counts[-1]), own.values).view.memory)
        return [
            *(
                f"{name} = stream.binding.subspan %arg{i}[{zero}] : !stream.binding -> {type_}"
                for i, (name, type_) in memories.items()
            ),
            *self._scores.bind_extra(3),
            f"%lowest = arith.constant dense<0xFF800000> : {self._vector}",
            "%low = arith.constant 0xFF800000 : f32",
            "%one = arith.constant 1.0 : f32",
            f"%rows = memref.alloca() : {self._row}",
            "%chunk = stream.dispatch.workgroup.id[0] : index",
            "%head = stream.dispatch.workgroup.id[1] : index",
            f"%firstpanel = arith.muli %head, {self._index(self._own.panels)} : index",
            f"%firstkey = arith.muli %head, {self._index(self._own.keys)} : index",
            f"%firstrow = arith.muli %head, {self._index(self._own.counts[-1])} : index",
            *self._head_numbers(),
        ]

    def _head_numbers(self) -> list[str]:
        """The number of the head in each dimension of heads, as %head0, %head1, ..."""
        lines: list[str] = []
        rest = "%head"
        for i, count in reversed(list(enumerate(self._own.counts[:-1]))):
            lines.append(f"%head{i} = arith.remui {rest}, {self._index(count)} : index")
            lines.append(f"%headq{i} = arith.divui {rest}, {self._index(count)} : index")
            rest = f"%headq{i}"
        return lines

    def _block(self, rows: int, prefix: str) -> list[str]:
        """So many rows: their scores, the softmax of those, and what it makes of the values."""
        own = f"%{prefix}"
        lines: list[str] = []
        for r in range(rows):
            lines += [
                f"{own}row{r} = arith.addi {own}start, {self._index(r)} : index",
                f"{own}query{r} = arith.addi %firstrow, {own}row{r} : index",
                f"{own}from{r} = arith.muli {own}query{r}, {self._index(self._own.width)} : index",
            ]
        return [*lines, *self._score(rows, prefix), *self._softmax(rows, prefix), *self._sum(rows, prefix)]

    def _score(self, rows: int, prefix: str) -> list[str]:
        """The rows' scores, panel by panel."""
        own = f"%{prefix}"
        text, columns = self._scores.columns(f"{prefix}key", f"{own}keys", self._own.tile.vectors)
        block = Block(f"{prefix}q", rows, self._own.tile.vectors, self._lanes)
        k = block.k

        def query(r: int) -> list[str]:
            return [
                f"{own}place{r} = arith.addi {own}from{r}, {k} : index",
                f"{block.left(r)} = memref.load %queries[{own}place{r}] : {self._queries}",
            ]

        def key(v: int) -> list[str]:
            at = f"%keys[{own}panel, {k}, {self._index(v * self._lanes)}] : {self._keys}"
            return [f"{block.right(v)} = vector.load {at}, {self._vector}"]

        product, sums = block.loop(self._own.width, query, key, self._index)
        lines = [
            f"scf.for {own}number = {self._index(0)} to {self._index(self._own.panels)} step {self._index(1)} {{",
            f"{own}panel = arith.addi %firstpanel, {own}number : index",
            f"{own}keys = arith.muli {own}number, {self._index(self._own.panel)} : index",
            *text,
            *product,
        ]
        heads = [f"%head{i}" for i in range(len(self._own.counts) - 1)]
        for r in range(rows):
            values, scores = self._scores.values([*heads, f"{own}row{r}"], sums[r], columns, f"{prefix}e{r}")
            lines += values
            for score, at in zip(scores, columns, strict=True):
                lines += self._store_score(score, r, at, prefix)
        return [*lines, "}"]

    def _store_score(self, score: str, r: int, columns: Columns, prefix: str) -> list[str]:
        """There are no keys behind the last one: their scores are -inf."""
        lines: list[str] = []
        if columns.mask is not None:
            known = f"%{prefix}known{r}_{columns.place[1:]}"
            types = f"vector<{self._lanes}xi1>, {self._vector}"
            lines.append(f"{known} = arith.select {columns.mask}, {score}, %lowest : {types}")
            score = known
        return [
            *lines,
            f"vector.store {score}, %rows[{self._index(r)}, {columns.place}] : {self._row}, {self._vector}",
        ]

    @property
    def _lanes(self) -> int:
        return self._own.unit.lanes

    def _softmax(self, rows: int, prefix: str) -> list[str]:
        """Makes probabilities of the scores, in place."""
        own = f"%{prefix}"
        loop = f"{self._index(0)} to {self._index(self._padded)} step {self._index(self._lanes)}"
        load = f"vector.load %rows[{own}r, {own}at] : {self._row}, {self._vector}"
        fix = self._fix(prefix)
        return [
            f"scf.for {own}r = {self._index(0)} to {self._index(rows)} step {self._index(1)} {{",
            f"{own}most = scf.for {own}at = {loop} iter_args({own}m = %lowest) -> ({self._vector}) {{",
            f"{own}read = {load}",
            f"{own}more = arith.maximumf {own}m, {own}read : {self._vector}",
            f"scf.yield {own}more : {self._vector}\n}}",
            f"{own}max = vector.reduction <maximumf>, {own}most : {self._vector} into f32",
            f"{own}maxes = vector.broadcast {own}max : f32 to {self._vector}",
            f"{own}sums = scf.for {own}at = {loop} iter_args({own}s = %zero) -> ({self._vector}) {{",
            f"{own}score = {load}",
            f"{own}below = arith.subf {own}score, {own}maxes : {self._vector}",
            f"{own}exp = math.exp {own}below : {self._vector}",
            f"vector.store {own}exp, %rows[{own}r, {own}at] : {self._row}, {self._vector}",
            f"{own}added = arith.addf {own}s, {own}exp : {self._vector}",
            f"scf.yield {own}added : {self._vector}\n}}",
            f"{own}total = vector.reduction <add>, {own}sums : {self._vector} into f32",
            f"{own}inverse = arith.divf %one, {own}total : f32",
            f"{own}inverses = vector.broadcast {own}inverse : f32 to {self._vector}",
            f"scf.for {own}at = {loop} {{",
            f"{own}part = {load}",
            f"{own}scaled = arith.mulf {own}part, {own}inverses : {self._vector}",
            *fix,
            f"vector.store {own}{'fixed' if fix else 'scaled'}, %rows[{own}r, {own}at] : {self._row}, {self._vector}",
            "}",
            "}",
        ]

    def _fix(self, prefix: str) -> list[str]:
        """What a row of -inf alone has for probabilities, where that is said."""
        if self._own.masked is None:
            return []
        own = f"%{prefix}"
        return [
            f"{own}isnothing = arith.cmpf oeq, {own}max, %low : f32",
            f"{own}instead = arith.constant dense<{self._own.masked}> : {self._vector}",
            f"{own}fixed = arith.select {own}isnothing, {own}instead, {own}scaled : {self._vector}",
        ]

    def _sum(self, rows: int, prefix: str) -> list[str]:
        """The values by their probabilities."""
        own, width = f"%{prefix}", self._own.tile.vectors * self._lanes
        text, columns = self._results.columns(f"{prefix}col", f"{own}column", self._own.tile.vectors)
        block = Block(f"{prefix}v", rows, self._own.tile.vectors, self._lanes)

        def probability(r: int) -> list[str]:
            return [f"{block.left(r)} = memref.load %rows[{self._index(r)}, {block.k}] : {self._row}"]

        def value(v: int) -> list[str]:
            key = f"{own}valuekey{v}"
            at = f"%values[{key}, {columns[v].place}]"
            known = [f"{key} = arith.addi %firstkey, {block.k} : index"]
            mask = columns[v].mask
            if mask is None:
                return [*known, f"{block.right(v)} = vector.load {at} : {self._values}, {self._vector}"]
            types = f"{self._values}, vector<{self._lanes}xi1>, {self._vector} into {self._vector}"
            return [*known, f"{block.right(v)} = vector.maskedload {at}, {mask}, %zero : {types}"]

        product, sums = block.loop(self._own.keys, probability, value, self._index)
        lines = [
            f"scf.for {own}column = {self._index(0)} to {self._index(self._own.values)} step {self._index(width)} {{",
            *text,
            *product,
        ]
        for r in range(rows):
            lines += self._results.row(["%head", f"{own}row{r}"], sums[r], columns, f"{prefix}o{r}")
        return [*lines, "}"]

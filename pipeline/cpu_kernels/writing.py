"""What the kernels' texts have in common: the executable around them, and their results with an epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .epilogues import Epilogue, VectorBody
from .isa import VectorUnit
from .views import Indices, Row, Shape, View

OPERATIONS, BYTES = "pipeline.operations", "pipeline.bytes"


@dataclass(frozen=True)
class Work:
    """What a kernel does in a call, for `pipeline profile`: float operations, and bytes of the tensors."""

    operations: int
    bytes: int


def executable(
    symbol: str, bindings: int, workgroups: tuple[int, int], lines: Sequence[str], work: Work | None
) -> str:
    """The executable `symbol` with the entry point of the same name, which gets `bindings` tensors.

    work: None for a kernel that is told by the call how many rows there are: `%rows` for it, and `workgroups` are for
    the columns and how many rows each takes.
    """
    arguments = [f"%arg{i}: !stream.binding" for i in range(bindings)]
    x, y = workgroups
    if work is None:
        arguments.append("%open: i32")
        lines = ["%rows = arith.index_cast %open : i32 to index", *lines]
        count = f"%each = arith.constant {y} : index\n      %y = arith.ceildivui %w, %each : index"
        told, attributes = "%w: index", ""
    else:
        told = ""
        count = f"%y = arith.constant {y} : index"
        attributes = f" attributes {{{OPERATIONS} = {work.operations} : i64, {BYTES} = {work.bytes} : i64}}"
    body = "\n".join(f"        {line}" for line in lines)
    return f"""
  stream.executable private @{symbol} {{
    stream.executable.export public @{symbol} workgroups({told}) -> (index, index, index) {{
      %x = arith.constant {x} : index
      {count}
      %z = arith.constant 1 : index
      stream.return %x, %y, %z : index, index, index
    }}
    builtin.module {{
      func.func @{symbol}({", ".join(arguments)}){attributes} {{
{body}
        return
      }}
    }}
  }}
"""


# A bool is stored as a byte.
_BYTE = "i8"


@dataclass(frozen=True)
class Columns:
    """Neighbouring columns, as many as a vector has lanes. mask: which of them there are; None: all."""

    place: str
    mask: str | None


class Results:
    """Writes what becomes of sums: the epilogue, and the result in memory.

    The result is the last binding, what the epilogue reads beside comes right before it.
    """

    def __init__(self, shape: Shape, unit: VectorUnit, epilogue: Epilogue, index: Indices) -> None:
        self._shape = shape
        self._lanes = unit.lanes
        self._vector = f"vector<{unit.lanes}xf32>"
        self._epilogue = epilogue
        self._body = VectorBody(epilogue, unit.lanes)
        self._index = index
        self._views = {"%out": shape.view}
        self._elements: dict[str, str] = {}
        for number, extra in enumerate(epilogue.extra.values()):
            if extra.view is not None:
                self._views[f"%extra{number}"] = extra.view
            if extra.is_bool:
                self._elements[f"%extra{number}"] = _BYTE

    @property
    def extra_size(self) -> int:
        """Elements that the epilogue reads beside, of tensors whose size is known."""
        views = [extra.view for extra in self._epilogue.extra.values()]
        return sum(self._shape.columns if view is None else view.size or 0 for view in views)

    @property
    def size(self) -> int:
        """Elements of the result and of what the epilogue reads beside, where they are known."""
        return (self._shape.view.size or 0) + self.extra_size

    def bind(self, first: int) -> list[str]:
        """The memory of the epilogue's tensors and of the result, from binding number `first`."""
        result = first + len(self._epilogue.extra)
        return [*self.bind_extra(first), *self._shape.view.bind("%out", result, "f32", self._index)]

    def bind_extra(self, first: int) -> list[str]:
        """The memory of the epilogue's tensors, from binding number `first`."""
        lines = [
            f"%zero = arith.constant dense<0.0> : {self._vector}",
            f"%nothing = arith.constant dense<0> : vector<{self._lanes}xi8>",
        ]
        for number in range(len(self._epilogue.extra)):
            name = f"%extra{number}"
            view = self._views.get(name, View(self._shape.columns, ()))
            lines += view.bind(name, first + number, self._elements.get(name, "f32"), self._index)
        return lines

    def columns(self, name: str, first: str, vectors: int) -> tuple[list[str], list[Columns]]:
        """`vectors` vectors of columns from `first` on, and the lines before their use."""
        lines: list[str] = []
        found: list[Columns] = []
        for v in range(vectors):
            place, mask = f"%{name}{v}", None
            lines.append(f"{place} = arith.addi {first}, {self._index(v * self._lanes)} : index")
            if self._shape.columns % (vectors * self._lanes):
                mask = f"{place}mask"
                lines.append(f"{place}left = arith.subi {self._index(self._shape.columns)}, {place} : index")
                lines.append(f"{mask} = vector.create_mask {place}left : vector<{self._lanes}xi1>")
            found.append(Columns(place, mask))
        return lines, found

    def row(self, row: Row, sums: Sequence[str], columns: Sequence[Columns], prefix: str) -> list[str]:
        """Puts the results of a row of sums into the memory of the result."""
        lines, values = self.values(row, sums, columns, prefix)
        lines += self._views["%out"].start(f"%out{prefix}", row, self._index)
        for value, own in zip(values, columns, strict=True):
            lines += self._store(value, f"%out{prefix}", own)
        return lines

    def values(
        self, row: Row, sums: Sequence[str], columns: Sequence[Columns], prefix: str
    ) -> tuple[list[str], list[str]]:
        """Lines that compute the results of a row of sums, and the results' names."""
        lines: list[str] = []
        values: list[str] = []
        for memory, view in self._views.items():
            if memory != "%out":
                lines += view.start(f"{memory}{prefix}", row, self._index)
        for v, (start, own) in enumerate(zip(sums, columns, strict=True)):
            extra = {}
            for number, value in enumerate(self._epilogue.extra):
                name, memory = f"%{prefix}x{number}_{v}", f"%extra{number}"
                where = f"{memory}{prefix}" if memory in self._views else None
                lines += self._load(name, memory, where, own)
                extra[value] = name
            written, result = self._body.lines(start, extra, f"{prefix}y{v}")
            lines += written
            values.append(result)
        return lines, values

    def store_raw(self, row: Row, sums: Sequence[str], columns: Sequence[Columns], prefix: str) -> list[str]:
        """The sums themselves in the memory of the results, until `load_raw`."""
        lines = self._views["%out"].start(f"%out{prefix}", row, self._index)
        for name, own in zip(sums, columns, strict=True):
            lines += self._store(name, f"%out{prefix}", own)
        return lines

    def load_raw(self, names: Sequence[str], row: Row, columns: Sequence[Columns], prefix: str) -> list[str]:
        """What `store_raw` has put there, as `names`."""
        lines = self._views["%out"].start(f"%raw{prefix}", row, self._index)
        for name, own in zip(names, columns, strict=True):
            lines += self._load(name, "%out", f"%raw{prefix}", own)
        return lines

    def fill_border(self, columns: Sequence[Columns], prefix: str) -> list[str]:
        """The border of the result in these columns."""
        border = self._shape.border
        if border is None:
            return []
        batch, rows, pixels = self._shape.padded
        value = f"%{prefix}border"
        lines = [f"{value} = arith.constant dense<{border.value}> : {self._vector}"]
        parts = {
            "above": ((0, border.top), (0, pixels)),
            "below": ((rows - border.bottom, rows), (0, pixels)),
            "before": ((border.top, rows - border.bottom), (0, border.left)),
            "behind": ((border.top, rows - border.bottom), (pixels - border.right, pixels)),
        }
        for name, area in parts.items():
            if all(first < last for first, last in area):
                lines += self._fill(((0, batch), *area), value, columns, f"{prefix}{name}")
        return lines

    def _fill(
        self, area: tuple[tuple[int, int], ...], value: str, columns: Sequence[Columns], prefix: str
    ) -> list[str]:
        lines = [
            f"scf.for %{prefix}{i} = {self._index(first)} to {self._index(last)} step {self._index(1)} {{"
            for i, (first, last) in enumerate(area)
        ]
        whole = View(self._shape.view.size, self._shape.view.strides)
        lines += whole.start(f"%{prefix}at", [f"%{prefix}{i}" for i in range(3)], self._index)
        for own in columns:
            lines += self._store(value, f"%{prefix}at", own)
        return [*lines, *["}"] * len(area)]

    def _memory(self, name: str) -> str:
        view = self._views.get(name, View(self._shape.columns, ()))
        return view.memory_of(self._elements.get(name, "f32"))

    def _load(self, name: str, memory: str, start: str | None, columns: Columns) -> list[str]:
        """A vector of the row that begins at `start`, or of what is the same for all rows."""
        place, lines = columns.place, []
        if start is not None:
            place = f"{name}at"
            lines.append(f"{place} = arith.addi {start}, {columns.place} : index")
        if self._elements.get(memory) == _BYTE:
            vector = f"vector<{self._lanes}x{_BYTE}>"
            lines += self._read(f"{name}byte", memory, place, columns, vector, "%nothing")
            return [*lines, f"{name} = arith.trunci {name}byte : {vector} to vector<{self._lanes}xi1>"]
        return [*lines, *self._read(name, memory, place, columns, self._vector, "%zero")]

    def _read(
        self, name: str, memory: str, place: str, columns: Columns, vector: str, otherwise: str
    ) -> list[str]:
        type_ = self._memory(memory)
        if columns.mask is None:
            return [f"{name} = vector.load {memory}[{place}] : {type_}, {vector}"]
        masked = f"{type_}, vector<{self._lanes}xi1>, {vector} into {vector}"
        return [f"{name} = vector.maskedload {memory}[{place}], {columns.mask}, {otherwise} : {masked}"]

    def _store(self, name: str, start: str, columns: Columns) -> list[str]:
        place = f"{start}_{columns.place[1:]}"
        lines = [f"{place} = arith.addi {start}, {columns.place} : index"]
        type_ = self._memory("%out")
        if columns.mask is None:
            return [*lines, f"vector.store {name}, %out[{place}] : {type_}, {self._vector}"]
        masked = f"{type_}, vector<{self._lanes}xi1>, {self._vector}"
        return [*lines, f"vector.maskedstore %out[{place}], {columns.mask}, {name} : {masked}"]

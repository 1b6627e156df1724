"""A small builder of Torch dialect IR as text, in MLIR's generic form.

Text, because branches are written before it is known what they yield, which bindings to a native IR make hard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .types import Type


def quoted(text: str) -> str:
    """A string as MLIR reads it."""
    escaped = (f"\\{ord(c):02X}" if c in '"\\' or ord(c) < 32 else c for c in text)
    return f'"{"".join(escaped)}"'


@dataclass(frozen=True)
class Location:
    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"loc({quoted(self.file)}:{self.line}:{self.column + 1})"


@dataclass(eq=False)
class Operation:
    name: str
    operands: list[str]
    results: list[tuple[str, Type]]
    attributes: str
    regions: list[Block]
    location: Location


@dataclass(eq=False)
class Block:
    arguments: list[tuple[str, Type]] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


# What counts even where nothing uses its result: it may raise, or ends a block. All else written here is pure.
_MAY_RAISE = ("prim.RaiseException", "func.call", "aten.__getitem__.t")
_EFFECTS = (*_MAY_RAISE, "prim.If.yield", "prim.Loop.condition", "func.return")


class Builder:
    """Writes one function: appends operations to the current block and numbers values."""

    def __init__(self, location: Location) -> None:
        self.body = Block()
        self.block = self.body
        self.location = location
        self._types: dict[str, Type] = {}

    def name(self, type_: Type) -> str:
        """A fresh value name."""
        name = f"%{len(self._types)}"
        self._types[name] = type_
        return name

    def argument(self, block: Block, type_: Type) -> str:
        name = self.name(type_)
        block.arguments.append((name, type_))
        return name

    def op(
        self,
        name: str,
        operands: Sequence[str],
        results: Sequence[Type] = (),
        attributes: str = "",
        regions: Sequence[Block] = (),
    ) -> list[str]:
        """Append an operation (`name` without `torch.`); returns the names of its results."""
        named = [(self.name(type_), type_) for type_ in results]
        self.block.operations.append(
            Operation(name, list(operands), named, attributes, list(regions), self.location)
        )
        return [result for result, _ in named]

    @contextmanager
    def into(self, block: Block) -> Iterator[Block]:
        """Write into `block` inside."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    def function(self, symbol: str, results: Sequence[Type], *, locations: bool = True) -> str:
        """The text of the function, without what nothing uses."""
        _remove_dead(self.body, set())
        printer = _Printer(self._types, locations)
        printer.function(symbol, self.body, results, self.location)
        return "\n".join(printer.lines)


def _remove_dead(block: Block, used: set[str]) -> None:
    """Drop operations without use or effect; `used` collects the names that are used."""
    kept = []
    for operation in reversed(block.operations):
        if not operation.regions and not _needed(operation, used):
            continue
        if operation.name == "prim.If":
            _remove_unused_results(operation, used)
        for region in reversed(operation.regions):
            _remove_dead(region, used)
        if not _needed(operation, used):
            continue
        used.update(operation.operands)
        kept.append(operation)
    block.operations = kept[::-1]


def _remove_unused_results(operation: Operation, used: set[str]) -> None:
    keep = [name in used for name, _ in operation.results]
    operation.results = [result for result, kept in zip(operation.results, keep, strict=True) if kept]
    for region in operation.regions:
        end = region.operations[-1]
        end.operands = [name for name, kept in zip(end.operands, keep, strict=True) if kept]


def _needed(operation: Operation, used: set[str]) -> bool:
    if operation.name in _EFFECTS or any(name in used for name, _ in operation.results):
        return True
    return any(_has_effect(region) for region in operation.regions)


def _has_effect(block: Block) -> bool:
    return any(
        operation.name in _MAY_RAISE or any(map(_has_effect, operation.regions))
        for operation in block.operations
    )


class _Printer:
    def __init__(self, types: dict[str, Type], locations: bool) -> None:
        self.lines: list[str] = []
        self._types = types
        self._locations = locations

    def function(self, symbol: str, body: Block, results: Sequence[Type], location: Location) -> None:
        arguments = ", ".join(f"{name}: {type_}" for name, type_ in body.arguments)
        outputs = ", ".join(map(str, results))
        self.lines.append(f"  func.func @{quoted(symbol)}({arguments}) -> ({outputs}) {{")
        self._operations(body, "    ")
        self.lines.append(f"  }}{self._at(location)}")

    def _at(self, location: Location) -> str:
        return f" {location}" if self._locations else ""

    def _operations(self, block: Block, indent: str) -> None:
        for operation in block.operations:
            self._operation(operation, indent)

    def _operation(self, operation: Operation, indent: str) -> None:
        results = ", ".join(name for name, _ in operation.results)
        name = operation.name if operation.name.startswith("func.") else f"torch.{operation.name}"
        head = f'{indent}{results + " = " if results else ""}"{name}"({", ".join(operation.operands)})'
        inputs = ", ".join(str(self._types[name]) for name in operation.operands)
        outputs = ", ".join(str(type_) for _, type_ in operation.results)
        tail = f"{operation.attributes} : ({inputs}) -> ({outputs}){self._at(operation.location)}"
        if not operation.regions:
            self.lines.append(head + tail)
            return
        self.lines.append(head + " ({")
        for index, region in enumerate(operation.regions):
            if index:
                self.lines.append(f"{indent}}}, {{")
            if region.arguments:
                arguments = ", ".join(f"{name}: {type_}" for name, type_ in region.arguments)
                self.lines.append(f"{indent}^bb0({arguments}):")
            self._operations(region, indent + "  ")
        self.lines.append(f"{indent}}}){tail}")

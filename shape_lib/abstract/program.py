"""Library functions read once from the IR into plain Python objects: walking the bindings again and again is slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from ..locations import frames
from .values import Unknown, Value


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation. name: without the dialect's prefix. operands, results: places in the frame.

    unknowns: what each result is while nothing is known of it. attribute: a constant's value or a callee's name.
    location: ``file:line``, where the library text has locations.
    """

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    unknowns: tuple[Value, ...]
    attribute: Any
    regions: tuple[Block, ...]
    location: str | None


@dataclass(frozen=True, slots=True)
class Block:
    """Straight-line code. exits: the operands of its terminator."""

    arguments: tuple[int, ...]
    body: tuple[Instruction, ...]
    exits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """parameters: types without ``!torch.``, such as ``list<int>``. places: the size of a frame."""

    name: str
    parameters: tuple[str, ...]
    result: str
    places: int
    block: Block


def read_function(function: ir.Operation) -> Function:
    """The function `function` (a func.func with a body)."""
    reader = _Reader()
    block = function.regions[0].blocks[0]
    decoded = reader.block(block)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return Function(
        ir.StringAttr(function.attributes["sym_name"]).value,
        tuple(type_name(t) for t in type_.inputs),
        type_name(type_.results[0]) if type_.results else "none",
        reader.count,
        decoded,
    )


def type_name(type_: ir.Type) -> str:
    """``list<int>`` for ``!torch.list<int>``."""
    return str(type_).removeprefix("!torch.")


_UNKNOWN: dict[str, Value] = {
    "none": None,
    "int": Unknown.INT,
    "float": Unknown.FLOAT,
    "bool": Unknown.BOOL,
}


def unknown_of(type_: str) -> Value:
    """What is known of any value of the type."""
    if type_ in _UNKNOWN:
        return _UNKNOWN[type_]
    may_be_none = (
        type_.startswith("optional<") or type_ == "any" or (type_.startswith("union<") and "none" in type_)
    )
    return Unknown.ANYTHING if may_be_none else Unknown.PRESENT


def constant(op: ir.Operation) -> Value:
    """The value of a ``torch.constant.*``; what is unknown of it for kinds that no shape depends on."""
    kind = op.name.removeprefix("torch.constant.")
    if kind == "none":
        return None
    read = _CONSTANTS.get(kind)
    return read(op.attributes["value"]) if read else Unknown.PRESENT


_CONSTANTS: dict[str, Callable[[ir.Attribute], Value]] = {
    "int": lambda attribute: ir.IntegerAttr(attribute).value,
    "bool": lambda attribute: bool(ir.IntegerAttr(attribute).value),
    "float": lambda attribute: ir.FloatAttr(attribute).value,
    "str": lambda attribute: ir.StringAttr(attribute).value,
}


class _Reader:
    """Numbers the values of one function."""

    def __init__(self) -> None:
        self._places: dict[ir.Value, int] = {}
        self.count = 0

    def block(self, block: ir.Block) -> Block:
        arguments = self._define(block.arguments)
        *body, terminator = list(block.operations)
        instructions = tuple(self._instruction(op.operation) for op in body)
        return Block(arguments, instructions, self._uses(terminator.operation))

    def _instruction(self, op: ir.Operation) -> Instruction:
        operands = self._uses(op)
        regions = tuple(self.block(region.blocks[0]) for region in op.regions)
        unknowns = tuple(unknown_of(type_name(result.type)) for result in op.results)
        return Instruction(
            op.name.removeprefix("torch."),
            operands,
            self._define(op.results),
            unknowns,
            _attribute(op),
            regions,
            _file_and_line(op),
        )

    def _define(self, values: Any) -> tuple[int, ...]:
        first = self.count
        for value in values:
            self._places[value] = self.count
            self.count += 1
        return tuple(range(first, self.count))

    def _uses(self, op: ir.Operation) -> tuple[int, ...]:
        return tuple(self._places[operand] for operand in op.operands)


def _attribute(op: ir.Operation) -> Any:
    if op.name.startswith("torch.constant."):
        return constant(op)
    if op.name == "func.call":
        return ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    return None


def _file_and_line(op: ir.Operation) -> str | None:
    found = frames(op.location)
    return f"{found[0][0]}:{found[0][1]}" if found else None

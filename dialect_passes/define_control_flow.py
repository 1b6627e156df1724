"""define-control-flow: branches and loops around calls of their bodies.

Capture turns an operator that calls functions into a call of a function that it only declares, so that its
bodies lower as ordinary functions.

Before:  func.func private @control.cond_0(tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
             attributes {pipeline.control = "cond", pipeline.bodies = [@yes, @no], pipeline.counts = [1, 1]}
After:   func.func private @control.cond_0(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
           %b = tensor.extract %p[] : tensor<i1>
           %r = scf.if %b -> tensor<4xf32> { %y = call @yes(%x) ... } else { %n = call @no(%x) ... }

A condition is read on the host, between dispatches; a scan is a loop that slices its inputs and inserts into
its results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

CONTROL, BODIES, COUNTS = "pipeline.control", "pipeline.bodies", "pipeline.counts"
"""Attributes of a declaration: the operator, the functions it calls, and how many operands each group has."""


def run(module: ir.Module) -> None:
    """Puts a definition in the place of every declaration of control flow in `module`."""
    functions = {_name(op.operation): op.operation for op in module.body.operations}
    declared = [op for op in functions.values() if CONTROL in op.attributes]
    if not declared:
        return
    signatures = {name: _signature(op) for name, op in functions.items()}
    for op in declared:
        # The declarations are there for the text to parse; only the definition is taken over.
        text = "".join(signatures[name].declaration(name) for name in _bodies(op)) + _definition(
            op, signatures
        )
        parsed = ir.Module.parse(text, module.context)
        definition = list(parsed.body.operations)[-1].operation
        op.erase()
        module.body.append(definition)


@dataclass(frozen=True)
class _Signature:
    inputs: tuple[str, ...]
    results: tuple[str, ...]

    def declaration(self, name: str) -> str:
        return (
            f"func.func private @{_quoted(name)}({', '.join(self.inputs)}) -> ({', '.join(self.results)})\n"
        )


def _name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value


def _quoted(name: str) -> str:
    return f'"{name}"'


def _signature(op: ir.Operation) -> _Signature:
    type_ = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    return _Signature(tuple(map(str, type_.inputs)), tuple(map(str, type_.results)))


def _bodies(op: ir.Operation) -> list[str]:
    return [ir.FlatSymbolRefAttr(name).value for name in ir.ArrayAttr(op.attributes[BODIES])]


def _definition(op: ir.Operation, signatures: dict[str, _Signature]) -> str:
    kind = ir.StringAttr(op.attributes[CONTROL]).value
    counts = [ir.IntegerAttr(count).value for count in ir.ArrayAttr(op.attributes[COUNTS])]
    own = signatures[_name(op)]
    text = _Text()
    arguments = [_Value(f"%arg{i}", type_) for i, type_ in enumerate(own.inputs)]
    bodies = [(name, signatures[name]) for name in _bodies(op)]
    results = _WRITERS[kind](text, arguments, counts, bodies, own.results)
    taken = ", ".join(f"{value.name}: {value.type}" for value in arguments)
    types = ", ".join(own.results)
    text.line(f"return {_names(results)} : {types}" if results else "return")
    return f"func.func private @{_quoted(_name(op))}({taken}) -> ({types}) {{\n{text.text()}}}\n"


@dataclass(frozen=True)
class _Value:
    name: str
    type: str

    @property
    def sizes(self) -> list[str]:
        """Of a tensor type: numbers and ``?``."""
        return re.findall(r"(\d+|\?)x", self.type.removeprefix("tensor<"))

    @property
    def element(self) -> str:
        return re.sub(r"^tensor<((\d+|\?)x)*", "", self.type).removesuffix(">")


_Body = tuple[str, _Signature]


class _Text:
    """Lines of a function's body, with names for what they define."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def line(self, line: str) -> None:
        self._lines.append(line)

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def define(self, operation: str, type_: str) -> _Value:
        value = _Value(self.name(), type_)
        self.line(f"{value.name} = {operation}")
        return value

    def define_all(self, operation: str, types: Sequence[str]) -> list[_Value]:
        """An operation with any number of results; `operation` may go on over the following lines."""
        if not types:
            self.line(operation)
            return []
        name = self.name()
        self.line(f"{name}:{len(types)} = {operation}")
        return [_Value(f"{name}#{i}", type_) for i, type_ in enumerate(types)]

    def cast(self, values: Sequence[_Value], types: Sequence[str]) -> list[_Value]:
        """The values in types that differ in which sizes are known."""
        return [
            value
            if value.type == type_
            else self.define(f"tensor.cast {value.name} : {value.type} to {type_}", type_)
            for value, type_ in zip(values, types, strict=True)
        ]

    def call(self, body: _Body, operands: Sequence[_Value]) -> list[_Value]:
        name, signature = body
        given = self.cast(operands, signature.inputs)
        return self.define_all(
            f"func.call @{_quoted(name)}({_names(given)}) : "
            f"({', '.join(signature.inputs)}) -> ({', '.join(signature.results)})",
            signature.results,
        )

    def truth(self, value: _Value) -> str:
        """The i1 in a condition, which is a tensor of one element or an i1 already."""
        if not value.type.startswith("tensor"):
            return value.name
        zeros = [self.index(0) for _ in value.sizes]
        return self.define(f"tensor.extract {value.name}[{', '.join(zeros)}] : {value.type}", "i1").name

    def index(self, number: int) -> str:
        return self.define(f"arith.constant {number} : index", "index").name

    def size(self, value: _Value, dim: int) -> str:
        number = self.index(dim)
        return self.define(f"tensor.dim {value.name}, {number} : {value.type}", "index").name

    def sizes(self, value: _Value) -> list[str]:
        """As operands of a slice: numbers where they are known."""
        return [self.size(value, i) if size == "?" else size for i, size in enumerate(value.sizes)]


def _names(values: Sequence[_Value]) -> str:
    return ", ".join(value.name for value in values)


def _types(values: Sequence[_Value]) -> str:
    return ", ".join(value.type for value in values)


def _yield(text: _Text, operation: str, values: Sequence[_Value]) -> None:
    text.line(f"{operation} {_names(values)} : {_types(values)}" if values else operation)


def _cond(
    text: _Text, arguments: list[_Value], counts: list[int], bodies: list[_Body], results: tuple[str, ...]
) -> list[_Value]:
    condition = text.truth(arguments[0])
    found = text.define_all(f"scf.if {condition} -> ({', '.join(results)}) {{", results)
    for i, body in enumerate(bodies):
        _yield(text, "scf.yield", text.cast(text.call(body, arguments[1:]), results))
        text.line("}" if i else "} else {")
    return found


def _while_loop(
    text: _Text, arguments: list[_Value], counts: list[int], bodies: list[_Body], results: tuple[str, ...]
) -> list[_Value]:
    start = text.cast(arguments[: counts[0]], results)
    others = arguments[counts[0] :]
    carried = [_Value(text.name(), type_) for type_ in results]
    pairs = ", ".join(f"{new.name} = {old.name}" for new, old in zip(carried, start, strict=True))
    types = ", ".join(results)
    found = text.define_all(f"scf.while ({pairs}) : ({types}) -> ({types}) {{", results)
    condition = text.truth(text.call(bodies[0], [*carried, *others])[0])
    text.line(f"scf.condition({condition}) {_names(carried)} : {types}")
    inner = [_Value(text.name(), type_) for type_ in results]
    text.line("} do {")
    text.line(f"^bb0({', '.join(f'{value.name}: {value.type}' for value in inner)}):")
    _yield(text, "scf.yield", text.cast(text.call(bodies[1], [*inner, *others]), results))
    text.line("}")
    return found


def _scan(
    text: _Text, arguments: list[_Value], counts: list[int], bodies: list[_Body], results: tuple[str, ...]
) -> list[_Value]:
    carries, sources = counts[0], counts[1]
    start = text.cast(arguments[:carries], results[:carries])
    scanned, others = arguments[carries : carries + sources], arguments[carries + sources :]
    zero, one, length = text.index(0), text.index(1), text.size(scanned[0], 0)

    def step(place: str, carried: Sequence[_Value]) -> list[_Value]:
        slices = [_slice(text, source, place) for source in scanned]
        return text.call(bodies[0], [*carried, *slices, *others])

    open_sizes = any("?" in _Value("", type_).sizes[1:] for type_ in results[carries:])
    # Only the sizes of this step's results are used, and they follow from those of its operands.
    first = step(zero, start)[carries:] if open_sizes else []
    stacks = [
        _empty(text, type_, length, first[i] if first else None) for i, type_ in enumerate(results[carries:])
    ]
    initial = [*start, *stacks]
    carried = [_Value(text.name(), type_) for type_ in results]
    pairs = ", ".join(f"{new.name} = {old.name}" for new, old in zip(carried, initial, strict=True))
    place = text.name()
    found = text.define_all(
        f"scf.for {place} = {zero} to {length} step {one} iter_args({pairs}) -> ({', '.join(results)}) {{",
        results,
    )
    made = step(place, carried[:carries])
    kept = text.cast(made[:carries], results[:carries])
    filled = [
        _insert(text, value, stack, place)
        for value, stack in zip(made[carries:], carried[carries:], strict=True)
    ]
    _yield(text, "scf.yield", [*kept, *filled])
    text.line("}")
    return found


def _map(
    text: _Text, arguments: list[_Value], counts: list[int], bodies: list[_Body], results: tuple[str, ...]
) -> list[_Value]:
    return _scan(text, arguments, [0, *counts], bodies, results)


_WRITERS = {"cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map}


def _tensor(sizes: Sequence[str], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"


def _slice(text: _Text, source: _Value, place: str) -> _Value:
    """The element number `place` of dimension 0."""
    sizes = text.sizes(source)[1:]
    type_ = _tensor(source.sizes[1:], source.element)
    bounds = _bounds(place, sizes)
    return text.define(f"tensor.extract_slice {source.name}{bounds} : {source.type} to {type_}", type_)


def _insert(text: _Text, value: _Value, stack: _Value, place: str) -> _Value:
    bounds = _bounds(place, text.sizes(value))
    return text.define(
        f"tensor.insert_slice {value.name} into {stack.name}{bounds} : {value.type} into {stack.type}",
        stack.type,
    )


def _bounds(place: str, sizes: Sequence[str]) -> str:
    offsets = ", ".join([place, *["0"] * len(sizes)])
    return f"[{offsets}] [{', '.join(['1', *sizes])}] [{', '.join(['1'] * (len(sizes) + 1))}]"


def _empty(text: _Text, type_: str, length: str, first: _Value | None) -> _Value:
    """Room for the results of all steps. first: that of one of them, which has their sizes."""
    sizes = _Value("", type_).sizes
    dynamic = [
        length if i == 0 else text.size(first, i - 1)  # type: ignore[arg-type]  # there where sizes are open
        for i, size in enumerate(sizes)
        if size == "?"
    ]
    return text.define(f"tensor.empty({', '.join(dynamic)}) : {type_}", type_)

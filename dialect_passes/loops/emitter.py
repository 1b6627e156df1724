"""Writes the IR of a loop kernel: arithmetic over kinds of numbers, and memory."""

from __future__ import annotations

from collections.abc import Sequence

from ..custom_operators.mlir_text import number
from .values import Array, Kind, LoopError, Number, Value, kind_of, wider

_INT = {"+": "addi", "-": "subi", "*": "muli", "//": "divsi", "%": "remsi"}
_FLOAT = {"+": "addf", "-": "subf", "*": "mulf", "/": "divf"}
_COMPARE_INT = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
# `!=` is true of NaN, all others are false, as in Python.
_COMPARE_FLOAT = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}


class Emitter:
    """Lines of IR and the names of their values. real: the type that real numbers are computed in."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.lines: list[str] = []
        self._count = 0

    def name(self) -> str:
        """A new name for a value."""
        self._count += 1
        return f"%x{self._count}"

    def add(self, operation: str) -> str:
        """Appends an operation with one result; its name."""
        name = self.name()
        self.lines.append(f"{name} = {operation}")
        return name

    def types(self, kind: Kind) -> list[str]:
        """The types of the parts of a value."""
        return {"bool": ["i1"], "int": ["index"], "real": [self.real], "complex": [self.real] * 2}[kind]

    def value(self, item: Number, kind: Kind) -> Value:
        """`item` as a value of `kind`, which is no narrower than its own."""
        own = kind_of(item)
        if wider(own, kind) != kind:
            raise LoopError(f"a {own} number cannot be used as {kind}")
        if not isinstance(item, Value):
            return self._constant(item, kind)
        while item.kind != kind:
            item = self._widened(item)
        return item

    def _constant(self, item: int | float | bool, kind: Kind) -> Value:
        if kind == "bool":
            return Value(kind, (self.add(f"arith.constant {'true' if item else 'false'}"),))
        if kind == "int":
            return Value(kind, (self.add(f"arith.constant {int(item)} : index"),))
        parts = (float(item), 0.0)[: len(self.types(kind))]
        names = (self.add(f"arith.constant {number(part, self.real)} : {self.real}") for part in parts)
        return Value(kind, tuple(names))

    def _widened(self, item: Value) -> Value:
        """A value of the next wider kind."""
        if item.kind == "int":
            integer = self.add(f"arith.index_cast {item.parts[0]} : index to i32")
            return Value("real", (self.add(f"arith.sitofp {integer} : i32 to {self.real}"),))
        if item.kind == "real":
            return Value("complex", (item.parts[0], *self.value(0.0, "real").parts))
        raise LoopError("a condition cannot be used as a number")

    def arithmetic(self, operator: str, left: Number, right: Number) -> Number:
        """``left operator right``."""
        kind = wider(kind_of(left), kind_of(right), "real" if operator == "/" else "int")
        a, b = self.value(left, kind), self.value(right, kind)
        if kind == "complex":
            return self._complex(operator, a, b)
        operations = _INT if kind == "int" else _FLOAT
        if operator not in operations:
            raise LoopError(f"there is no {operator} of {kind} numbers")
        return Value(kind, (self._binary(operations[operator], a.parts[0], b.parts[0], kind),))

    def _binary(self, operation: str, a: str, b: str, kind: Kind = "real") -> str:
        return self.add(f"arith.{operation} {a}, {b} : {self.types(kind)[0]}")

    def _complex(self, operator: str, left: Value, right: Value) -> Value:
        (a, b), (c, d) = left.parts, right.parts
        if operator in "+-":
            operation = _FLOAT[operator]
            return Value("complex", (self._binary(operation, a, c), self._binary(operation, b, d)))
        if operator == "/":
            # (a + bi) / (c + di) = (a + bi)(c - di) / (c² + d²)
            size = self._sum_of_products("addf", c, c, d, d)
            minus = self.add(f"arith.negf {d} : {self.real}")
            top = self._complex("*", left, Value("complex", (c, minus)))
            return Value("complex", tuple(self._binary("divf", part, size) for part in top.parts))
        if operator != "*":
            raise LoopError(f"there is no {operator} of complex numbers")
        return Value(
            "complex", (self._sum_of_products("subf", a, c, b, d), self._sum_of_products("addf", a, d, b, c))
        )

    def _sum_of_products(self, operation: str, a: str, b: str, c: str, d: str) -> str:
        return self._binary(operation, self._binary("mulf", a, b), self._binary("mulf", c, d))

    def compare(self, operator: str, left: Number, right: Number) -> Value:
        """``left operator right``, of real numbers or integers."""
        kind = wider(kind_of(left), kind_of(right), "int")
        if kind == "complex":
            raise LoopError("complex numbers cannot be compared")
        a, b = (self.value(item, kind).parts[0] for item in (left, right))
        integer = kind == "int"
        operation, names = ("cmpi", _COMPARE_INT) if integer else ("cmpf", _COMPARE_FLOAT)
        return Value(
            "bool", (self.add(f"arith.{operation} {names[operator]}, {a}, {b} : {self.types(kind)[0]}"),)
        )

    def negative(self, item: Number) -> Number:
        """``-item``."""
        if kind_of(item) in ("bool", "int"):
            return self.arithmetic("-", 0, item)
        value = self.value(item, kind_of(item))
        return Value(value.kind, tuple(self.add(f"arith.negf {part} : {self.real}") for part in value.parts))

    def conjugate(self, item: Number) -> Number:
        """The conjugate."""
        if not isinstance(item, Value) or item.kind != "complex":
            return item
        return Value("complex", (item.parts[0], self.add(f"arith.negf {item.parts[1]} : {self.real}")))

    def part(self, item: Number, which: int) -> Number:
        """The real (0) or imaginary (1) part."""
        if isinstance(item, Value) and item.kind == "complex":
            return Value("real", (item.parts[which],))
        return 0.0 if which else self.value(item, "real")

    def absolute(self, item: Number) -> Number:
        """The absolute value, of a complex number sqrt(re² + im²)."""
        if kind_of(item) != "complex":
            return self.call("math.absf", item)
        assert isinstance(item, Value)
        (a, b) = item.parts
        return self.call("math.sqrt", Value("real", (self._sum_of_products("addf", a, a, b, b),)))

    def call(self, operation: str, *items: Number) -> Value:
        """An operation on real numbers."""
        names = ", ".join(self.value(item, "real").parts[0] for item in items)
        return Value("real", (self.add(f"{operation} {names} : {self.real}"),))

    def negation(self, item: Number) -> Number:
        """``not item``."""
        value, true = self.value(item, "bool"), self.value(True, "bool")
        return Value("bool", (self.add(f"arith.xori {value.parts[0]}, {true.parts[0]} : i1"),))

    def load(self, array: Array, indices: Sequence[Number]) -> Value:
        """An element."""
        place = self._place(array, indices)
        if array.kind == "int":
            loaded = self.add(f"memref.load {array.memory}[{array.entry}, {place}] : {array.memory_type}")
            return Value("int", (self.add(f"arith.index_cast {loaded} : {array.element} to index"),))
        parts = []
        for position in self._positions(array, place):
            loaded = self.add(f"memref.load {array.memory}[{array.entry}, {position}] : {array.memory_type}")
            wide = array.element != self.real
            parts.append(
                self.add(f"arith.extf {loaded} : {array.element} to {self.real}") if wide else loaded
            )
        return Value(array.kind, tuple(parts))

    def store(self, array: Array, indices: Sequence[Number], item: Number) -> None:
        """Writes an element, rounded to the type of the memory."""
        place = self._place(array, indices)
        value = self.value(item, array.kind)
        parts = list(value.parts)
        if array.kind == "int":
            parts = [self.add(f"arith.index_cast {parts[0]} : index to {array.element}")]
        elif array.element != self.real:
            parts = [self.add(f"arith.truncf {part} : {self.real} to {array.element}") for part in parts]
        for part, position in zip(parts, self._positions(array, place), strict=True):
            self.lines.append(
                f"memref.store {part}, {array.memory}[{array.entry}, {position}] : {array.memory_type}"
            )

    def _place(self, array: Array, indices: Sequence[Number]) -> str:
        """The number of an element in its entry."""
        if len(indices) != len(array.sizes):
            raise LoopError(f"{len(indices)} indices for {len(array.sizes)} dimensions")
        place: Number = 0
        for index, size in zip(indices, array.sizes, strict=True):
            place = index if place == 0 else self.arithmetic("+", self.arithmetic("*", place, size), index)
        return self.value(place, "int").parts[0]

    def _positions(self, array: Array, place: str) -> list[str]:
        if array.kind != "complex":
            return [place]
        first = self.arithmetic("*", Value("int", (place,)), 2)
        second = self.arithmetic("+", first, 1)
        return [self.value(item, "int").parts[0] for item in (first, second)]

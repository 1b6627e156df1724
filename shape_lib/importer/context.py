"""What the importer knows while it writes one function, and the conversions between types."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from .errors import ShapeLibraryError
from .ir_text import Builder, Location, quoted
from .source import Function, Scope, Sources
from .types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    has_value,
    leaves,
    subtype,
)
from .values import Value, Variables, constant, leaf, leaf_values, tuple_of


class Callees(Protocol):
    """The library as a function sees it: how to call another function."""

    def parameter_types(self, function: Function) -> dict[str, Type | None]: ...

    def prelude(self, name: str) -> Function: ...

    def call(
        self,
        context: Context,
        function: Function,
        arguments: list[Value],
        variables: Variables,
        node: ast.AST,
    ) -> Value: ...


Emit = Callable[[Variables], None]


class Context:
    """The state of importing one function."""

    def __init__(self, scope: Scope, sources: Sources, library: Callees, node: ast.AST) -> None:
        self.scope = scope
        self.sources = sources
        self.library = library
        self.builder = Builder(self._location(node))
        self.return_type: Type | None = None
        # Roots of lists that lie in another list since, and of lists that were changed.
        self.contained: set[int] = set()
        self.changed: set[int] = set()
        # The names of values that are lengths, and so not negative.
        self.sizes: set[str] = set()
        self._conditional = 0
        # The expression that may change lists in place: all of a statement, evaluated before anything else is.
        self._whole: ast.expr | None = None

    # ---- places and errors

    def _location(self, node: ast.AST) -> Location:
        return Location(self.scope.file.display, getattr(node, "lineno", 1), getattr(node, "col_offset", 0))

    def at(self, node: ast.AST) -> None:
        """Operations from now on come from `node`."""
        if hasattr(node, "lineno"):
            self.builder.location = self._location(node)

    def error(self, node: ast.AST, message: str) -> ShapeLibraryError:
        return self.scope.error(node, message)

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Look names up in another file (default values, module constants)."""
        outer, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = outer

    @contextmanager
    def conditional(self) -> Iterator[None]:
        """Inside an expression that may not be evaluated, or more than once: no list may change."""
        self._conditional += 1
        try:
            yield
        finally:
            self._conditional -= 1

    @contextmanager
    def whole(self, node: ast.expr | None) -> Iterator[None]:
        """`node` is all that is evaluated inside: it may change lists, as nothing remembers them as they were."""
        outer, self._whole = self._whole, node
        try:
            yield
        finally:
            self._whole = outer

    # ---- operations

    def op(self, name: str, result: Type, *operands: Value) -> Value:
        """Append an operation with one result."""
        (ssa,) = self.builder.op(name, [self.ssa(operand) for operand in operands], [result])
        return leaf(result, ssa)

    def ssa(self, value: Value) -> str:
        """The IR name of a value that is no tuple; constants are written where they are used."""
        if value.ssa is not None:
            return value.ssa
        if value.known:
            return self._constant(value)
        if isinstance(value.type, ListType):
            return self.builder.op("prim.ListConstruct", [], [value.type])[0]
        if isinstance(value.type, TupleType):
            return self.builder.op(
                "prim.TupleConstruct", [self.ssa(e) for e in value.elements], [value.type]
            )[0]
        raise AssertionError(f"no value of type {value.type}")

    def _constant(self, value: Value) -> str:
        write = _CONSTANTS.get(value.type)
        attributes = f" {{value = {write(value.constant)}}}" if write else ""
        return self.builder.op(f"constant.{value.type.text}", [], [value.type], attributes)[0]

    def unpacked(self, value: Value) -> Value:
        """A value that came out of the IR: a tuple becomes its elements."""
        if not isinstance(value.type, TupleType) or value.ssa is None:
            return value
        names = self.builder.op("prim.TupleUnpack", [value.ssa], list(value.type.elements))
        parts = [leaf(type_, name) for type_, name in zip(value.type.elements, names, strict=True)]
        return tuple_of(tuple(self.unpacked(part) for part in parts))

    def list_of(self, elements: Sequence[Value], element_type: Type, node: ast.AST) -> Value:
        """A new list."""
        converted = [self.as_element(element, element_type, node) for element in elements]
        names = [self.ssa(element) for element in converted]
        (ssa,) = self.builder.op("prim.ListConstruct", names, [ListType(element_type)])
        for element in converted:
            for part in leaf_values(element):
                self.contained |= part.roots
        return leaf(ListType(element_type), ssa)

    def as_element(self, value: Value, element_type: Type, node: ast.AST) -> Value:
        """torch-mlir wants list elements as they are where it can, to see constants through the list."""
        narrow = has_value(value.type) or value.type == NONE
        if narrow and not isinstance(value.type, TupleType) and subtype(value.type, element_type):
            return value
        return self.convert(value, element_type, node)

    def prelude(self, name: str, arguments: list[Value], variables: Variables, node: ast.AST) -> Value:
        """A call of one of our own functions that stand for a part of Python."""
        return self.library.call(self, self.library.prelude(name), arguments, variables, node)

    # ---- conversions

    def convert(self, value: Value, wanted: Type, node: ast.AST) -> Value:
        """`value` as a `wanted`, where Python would take it for one.

        Raises:
            ShapeLibraryError: if it is something else.
        """
        if value.type == wanted:
            return value
        converted = self._convert(value, wanted, node)
        if converted is None:
            hint = ": check `is not None` first" if isinstance(value.type, OptionalType) else ""
            raise self.error(node, f"this is {value.type.python}, where {wanted.python} is needed{hint}")
        return converted

    def _convert(self, value: Value, wanted: Type, node: ast.AST) -> Value | None:
        if isinstance(wanted, OptionalType):
            return self._to_optional(value, wanted, node)
        if isinstance(wanted, TupleType) and isinstance(value.type, TupleType):
            return self._to_tuple(value, wanted, node)
        if isinstance(wanted, ListType):
            return self._to_list(value, wanted, node)
        if wanted == ANY or (wanted == NUMBER and value.type in (INT, FLOAT)):
            return self._derefined(value, wanted)
        number = _NUMBERS.get((value.type, wanted))
        if number and value.known:
            return constant(number(value.constant))
        if (value.type, wanted) in ((INT, FLOAT), (NUMBER, FLOAT)):
            return self.op("aten.Float.Scalar", FLOAT, value)
        if (value.type, wanted) == (BOOL, INT):
            return self.op("aten.Int.bool", INT, value)
        return None

    def _derefined(self, value: Value, wanted: Type) -> Value:
        (ssa,) = self.builder.op("derefine", [self.ssa(value)], [wanted])
        return replace(leaf(wanted, ssa), cell=value.cell, roots=value.roots)

    def _to_optional(self, value: Value, wanted: OptionalType, node: ast.AST) -> Value:
        if value.type == NONE:
            return self._derefined(value, wanted)
        if isinstance(value.type, OptionalType):
            raise self.error(node, f"this is {value.type.python}, where {wanted.python} is needed")
        return self._derefined(self.convert(value, wanted.inner, node), wanted)

    def _to_tuple(self, value: Value, wanted: TupleType, node: ast.AST) -> Value | None:
        if len(value.elements) != len(wanted.elements):
            return None
        pairs = zip(value.elements, wanted.elements, strict=True)
        return tuple_of(tuple(self.convert(element, type_, node) for element, type_ in pairs))

    def _to_list(self, value: Value, wanted: ListType, node: ast.AST) -> Value | None:
        if wanted.element is None:
            return None
        if isinstance(value.type, ListType) and value.type.element is None:
            (ssa,) = self.builder.op("prim.ListConstruct", [], [wanted])
            return replace(value, type=wanted, ssa=ssa)
        if isinstance(value.type, TupleType):
            return self.list_of(value.elements, wanted.element, node)
        return None

    def narrowed(self, value: Value, type_: Type) -> Value:
        """`value`, known to be of the narrower `type_`."""
        (ssa,) = self.builder.op("prim.unchecked_cast", [self.ssa(value)], [type_])
        cast = replace(leaf(type_, ssa), cell=value.cell, roots=value.roots)
        return replace(self.unpacked(cast), origin=value)

    # ---- lists that change

    def change_list(self, variables: Variables, old: Value, new: Value, node: ast.AST) -> None:
        """The list `old` was changed in place into `new`.

        Raises:
            ShapeLibraryError: if it cannot be told which other variables change with it.
        """
        if self._conditional:
            raise self.error(
                node,
                "a list is changed inside an expression that may not run: change it in a statement of its own",
            )
        if isinstance(node, ast.expr) and node is not self._whole:
            raise self.error(
                node, "a list is changed inside a larger expression: change it in a statement of its own"
            )
        if old.roots & self.contained:
            raise self.error(
                node,
                "this list lies in another list, which changes with it: build it first, then put it there",
            )
        self.changed |= old.roots
        doubtful = variables.replace_list(old, new)
        if doubtful:
            names = ", ".join(name.lstrip("%") for name in doubtful)
            raise self.error(
                node,
                f"this list may be the same as {names}: write list(...) where the two are to be different",
            )

    def note_contained(
        self, before: set[int], outside: frozenset[int], changed: set[int], node: ast.AST
    ) -> None:
        """After a loop's body: what one round put into a list must not be changed by the next.

        Raises:
            ShapeLibraryError: if it is.
        """
        if (self.contained - before) & outside & (self.changed - changed):
            raise self.error(
                node,
                "a list is put into another list and then changed in the next round: make a new list in each round",
            )


def named_leaves(type_: Type) -> list[Type]:
    """The leaves of a type that have values in the IR."""
    return [part for part in leaves(type_) if has_value(part)]


def _float_text(number: float) -> str:
    if not math.isfinite(number):
        return {"inf": "0x7FF0000000000000", "-inf": "0xFFF0000000000000"}.get(
            str(number), "0x7FF8000000000000"
        )
    mantissa, _, exponent = repr(number).partition("e")
    return (mantissa if "." in mantissa else f"{mantissa}.0") + (f"e{exponent}" if exponent else "")


_CONSTANTS: dict[Type, Callable[[Any], str]] = {
    INT: lambda value: f"{value} : i64",
    BOOL: lambda value: "true" if value else "false",
    FLOAT: lambda value: f"{_float_text(value)} : f64",
    STR: quoted,
}
_NUMBERS: dict[tuple[Type, Type], Callable[[Any], float]] = {
    (INT, FLOAT): float,
    (BOOL, INT): int,
    (BOOL, FLOAT): float,
}

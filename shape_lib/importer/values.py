"""Values as the importer handles them, and the variables of one point of a function.

Lists are values in the IR (`append` makes a new list), so that no torch-mlir pass can mistake one list for another.
What Python says about two names for one list is kept here: every list has a *cell* (two names with one cell are
the same list) and *roots* (two lists without a common root are never the same list).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from .types import BOOL, FLOAT, INT, NONE, STR, ListType, OptionalType, TupleType, Type

_numbers = itertools.count(1)


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a shape function.

    `ssa` is its name in the IR; constants have none until they are used, tuples are kept as their `elements`.
    `origin` is the value that this one is a narrower view of (`x` after `x is not None`).
    """

    type: Type
    ssa: str | None = None
    elements: tuple[Value, ...] = ()
    constant: Any = UNKNOWN
    cell: int = 0
    roots: frozenset[int] = frozenset()
    origin: Value | None = None
    problem: str = ""

    @property
    def known(self) -> bool:
        return self.constant is not UNKNOWN

    @property
    def base(self) -> Value:
        """The value before all narrowing."""
        return self.origin.base if self.origin else self


def holds_list(type_: Type) -> bool:
    """Whether values of this type may be a list, which can be changed in place."""
    return isinstance(type_, ListType) or (isinstance(type_, OptionalType) and holds_list(type_.inner))


def leaf(type_: Type, ssa: str | None = None, roots: frozenset[int] | None = None, cell: int = 0) -> Value:
    """A value that is no tuple; a list gets a cell, and a root of its own unless `roots` are given."""
    if not holds_list(type_):
        return Value(type_, ssa)
    number = cell or next(_numbers)
    return Value(type_, ssa, cell=number, roots=frozenset({number}) if roots is None else roots)


def constant(value: object) -> Value:
    """A Python constant."""
    kinds = {bool: BOOL, int: INT, float: FLOAT, str: STR, type(None): NONE}
    return Value(kinds[type(value)], constant=value)


def tuple_of(elements: tuple[Value, ...]) -> Value:
    return Value(TupleType(tuple(element.type for element in elements)), elements=elements)


def undefined(problem: str) -> Value:
    """What a variable holds that has no value here; using it raises `problem`."""
    return Value(NONE, problem=problem)


def leaf_values(value: Value) -> Iterator[Value]:
    if isinstance(value.type, TupleType):
        for element in value.elements:
            yield from leaf_values(element)
    else:
        yield value


RETURNED, RESULT, BROKE, CONTINUED = "%returned", "%result", "%broke", "%continued"
FLAGS = (RETURNED, BROKE, CONTINUED)


@dataclass
class Variables:
    """The variables at one point of a function; `dead` where an exception was raised for certain.

    Names that start with % are the importer's own: whether and what the function has returned, whether the loop
    was left, and the parameters as they are now.
    """

    names: dict[str, Value] = field(default_factory=dict)
    dead: bool = False

    def copy(self) -> Variables:
        return Variables(dict(self.names), self.dead)

    def replace_list(self, old: Value, new: Value) -> list[str]:
        """Every name for the list `old` now means `new`; returns names that may but need not be the same list."""
        doubtful = [name for name, value in self.names.items() if _may_be(value, old)]
        if not doubtful:
            self.names = {name: _with_list(value, old.cell, new) for name, value in self.names.items()}
        return doubtful


def _may_be(value: Value, other: Value) -> bool:
    return any(v.roots & other.roots and v.cell != other.cell for v in leaf_values(value))


def _with_list(value: Value, cell: int, new: Value) -> Value:
    if isinstance(value.type, TupleType):
        elements = tuple(_with_list(element, cell, new) for element in value.elements)
        return value if elements == value.elements else tuple_of(elements)
    if not cell or value.cell != cell:
        return value
    return replace(new, cell=cell, roots=value.roots)

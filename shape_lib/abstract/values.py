"""What the interpreter knows of a value, and the heap of lists.

Known ints, floats, bools, strings, None and tuples are themselves. A list is a `Ref` into the heap, since two
names may mean one list: appending through one must be seen through the other. (torch-mlir's own
simplification follows names, not lists, and gives wrong shapes where they differ.)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

Value = Any
"""int | float | bool | str | None | tuple | Ref | Unknown"""


class Unknown(enum.Enum):
    """What is known of a value that is not known.

    NATURAL: an int that is not negative, such as a size. INT, FLOAT, BOOL: one of that type, which is what a dtype
    depends on. PRESENT: anything but None. ANYTHING: None too.
    UNSET: never read (the other branch gives the value); joined with a value it is that value.
    """

    NATURAL = enum.auto()
    INT = enum.auto()
    FLOAT = enum.auto()
    BOOL = enum.auto()
    PRESENT = enum.auto()
    ANYTHING = enum.auto()
    UNSET = enum.auto()


@dataclass(frozen=True)
class Ref:
    """A reference to one of the lists `ids` of the heap; several where branches disagreed."""

    ids: frozenset[int]


class Partial(str):
    """A message with gaps where values were unknown."""

    __slots__ = ()


Contents = tuple[Value, ...] | None
"""A list's elements; None when not even their number is known."""


def is_natural(value: Value) -> bool:
    """Whether `value` is known not to be negative."""
    return value is Unknown.NATURAL or (type(value) is int and value >= 0)


_KINDS = {int: Unknown.INT, float: Unknown.FLOAT, bool: Unknown.BOOL}


def kind_of(value: Value) -> Unknown | None:
    """INT, FLOAT or BOOL for numbers, known or not; None for all else."""
    if isinstance(value, Unknown):
        value = Unknown.INT if value is Unknown.NATURAL else value
        return value if value in _KINDS.values() else None
    return _KINDS.get(type(value))


def join(a: Value, b: Value) -> Value:
    """What is known of a value that is `a` or `b`."""
    if a is Unknown.UNSET or b is Unknown.UNSET:
        return b if a is Unknown.UNSET else a
    if type(a) is type(b) and a == b:
        return a
    if isinstance(a, Ref) and isinstance(b, Ref):
        return Ref(a.ids | b.ids)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(join(x, y) for x, y in zip(a, b, strict=True))
    if is_natural(a) and is_natural(b):
        return Unknown.NATURAL
    kind = kind_of(a)
    if kind is not None and kind is kind_of(b):
        return kind
    maybe_none = any(value is None or value is Unknown.ANYTHING for value in (a, b))
    return Unknown.ANYTHING if maybe_none else Unknown.PRESENT


def widen(a: Value, b: Value) -> Value:
    """`join`, but for loops of unknown length: references that differ are given up, so that it ends."""
    if isinstance(a, Ref) and isinstance(b, Ref) and a != b:
        return Unknown.PRESENT
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(widen(x, y) for x, y in zip(a, b, strict=True))
    return join(a, b)


class Heap:
    """The contents of every list. A list that nothing refers to is never looked at again."""

    def __init__(self) -> None:
        self._lists: dict[int, Contents] = {}
        self._next = 0

    def new(self, contents: Contents) -> Ref:
        """A list of its own."""
        self._next += 1
        self._lists[self._next] = contents
        return Ref(frozenset((self._next,)))

    def read(self, value: Value) -> Contents:
        """The elements of a list; None when their number is unknown."""
        if not isinstance(value, Ref):
            return None
        found = [self._lists[i] for i in value.ids]
        contents = found[0]
        for other in found[1:]:
            contents = _join_contents(contents, other)
        return contents

    def write(self, value: Value, contents: Contents) -> None:
        """Replaces the elements of a list; where it may be one of several, each of them may have changed."""
        if not isinstance(value, Ref):
            self.forget()
        elif len(value.ids) == 1:
            (only,) = value.ids
            self._lists[only] = contents
        else:
            for i in value.ids:
                self._lists[i] = _join_contents(self._lists[i], contents)

    def forget(self) -> None:
        """Something unknown was changed: nothing is known of any list."""
        self._lists = dict.fromkeys(self._lists)

    def save(self) -> dict[int, Contents]:
        """The state, for `restore`."""
        return dict(self._lists)

    def restore(self, state: dict[int, Contents]) -> None:
        """Back to a state of `save`; lists that were made since then are gone."""
        self._lists = dict(state)

    def join_with(self, state: dict[int, Contents], *, widening: bool = False) -> bool:
        """Now it is this state or `state`; whether that changed what `state` says."""
        changed = False
        merge = widen if widening else join
        for i, contents in state.items():
            merged = _join_contents(contents, self._lists[i], merge) if i in self._lists else contents
            changed |= merged != contents
            self._lists[i] = merged
        return changed


def _join_contents(a: Contents, b: Contents, merge: Any = join) -> Contents:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(merge(x, y) for x, y in zip(a, b, strict=True))

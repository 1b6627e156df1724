"""Branches and loops: both sides are written, then joined variable by variable.

Every loop runs to the end of its range and carries what has happened (`returned`, `broke`) along, since torch-mlir
unrolls a loop by its number of rounds alone and forgets its condition. When sizes are known, all of it folds away.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .context import Context, Emit, named_leaves
from .ir_text import Block
from .types import BOOL, INT, NONE, ListType, TupleType, Type, has_value, join, leaves
from .values import (
    BROKE,
    CONTINUED,
    FLAGS,
    RESULT,
    Value,
    Variables,
    constant,
    leaf,
    leaf_values,
    tuple_of,
    undefined,
)

FALSE = constant(False)
_UNSET = undefined("")


def nothing(variables: Variables) -> None:
    """The side of a branch that does nothing."""


@dataclass
class _Side:
    block: Block
    variables: Variables


def branch(
    context: Context, node: ast.AST, condition: Value, then: Emit, orelse: Emit, variables: Variables
) -> None:
    """Run `then` or `orelse` on `variables`, according to `condition` (a bool)."""
    if condition.known:
        (then if condition.constant else orelse)(variables)
        return
    sides = []
    for emit in (then, orelse):
        side = _Side(Block(), variables.copy())
        with context.builder.into(side.block):
            emit(side.variables)
        sides.append(side)
    context.at(node)
    _Merge(context, node, variables, sides).run(condition)


def exit_flag(context: Context, variables: Variables) -> Value:
    """Whether the rest of the current statements is to be left out."""
    found = FALSE
    for flag in FLAGS:
        value = variables.names.get(flag, FALSE)
        if value.known and value.constant:
            return value
        if not value.known:
            found = value if found is FALSE else context.op("aten.__or__.bool", BOOL, found, value)
    return found


def unless_left(context: Context, node: ast.AST, variables: Variables, rest: Emit) -> None:
    """Run `rest` unless a return, break or continue has left the current statements."""
    left = exit_flag(context, variables)
    open_ = [flag for flag in FLAGS if not variables.names.get(flag, FALSE).known]

    def gone(inner: Variables) -> None:
        if len(open_) == 1:
            inner.names[open_[0]] = constant(True)

    def go_on(inner: Variables) -> None:
        inner.names.update({flag: FALSE for flag in FLAGS if flag in inner.names})
        # Nothing is returned yet: what another path returns may change here.
        inner.names.pop(RESULT, None)
        rest(inner)

    branch(context, node, left, nothing if left.known else gone, go_on, variables)


class _Merge:
    """Joins the variables of two sides and writes the `prim.If`."""

    def __init__(self, context: Context, node: ast.AST, outer: Variables, sides: list[_Side]) -> None:
        self.context = context
        self.node = node
        self.outer = outer
        self.sides = sides
        self.live = [side for side in sides if not side.variables.dead]
        self.yields: tuple[list[str], list[str]] = ([], [])
        self.types: list[Type] = []

    def run(self, condition: Value) -> None:
        merged: dict[str, Value | Type] = {}
        for name in dict.fromkeys(name for side in self.live for name in side.variables.names):
            merged[name] = self._variable(name)
        plans = [(name, plan) for name, plan in merged.items() if isinstance(plan, Type)]
        for name, plan in plans:
            self._yield(name, plan)
        for side, names in zip(self.sides, self.yields, strict=True):
            with self.context.builder.into(side.block):
                self.context.builder.op("prim.If.yield", names)
        blocks = [side.block for side in self.sides]
        results = self.context.builder.op("prim.If", [self.context.ssa(condition)], self.types, "", blocks)
        remaining = iter(results)
        for name, plan in plans:
            merged[name] = self._joined(name, plan, remaining)
        self.outer.names = {name: value for name, value in merged.items() if isinstance(value, Value)}
        self.outer.dead = not self.live

    def _variable(self, name: str) -> Value | Type:
        """A variable after the branch: a value that needs no result, or the type of its result."""
        before = self.outer.names.get(name)
        found = [side.variables.names.get(name) for side in self.live]
        if before is not None and all(value is not None and value.base is before.base for value in found):
            # What the only side that goes on has found to be there is there afterwards.
            narrowed = found[0] if len(self.sides) > len(found) == 1 else None
            return before if narrowed is None or narrowed.type == before.type else narrowed.type
        if name in FLAGS:
            found = [value or FALSE for value in found]
        present = [value for value in found if value is not None]
        problem = next((value.problem for value in present if value.problem), "")
        if problem or (len(present) < len(found) and name != RESULT):
            return undefined(problem or f"`{name}` has a value on one path only: give it one before the `if`")
        return self._common(name, present)

    def _common(self, name: str, present: list[Value]) -> Value | Type:
        first, last = present[0], present[-1]
        if first.known and last.known and first.type == last.type and first.constant == last.constant:
            return first
        type_ = join(first.type, last.type)
        if type_ is None:
            return undefined(
                f"`{name.lstrip('%')}` is {first.type.python} on one path and {last.type.python} on the other"
            )
        return type_

    def _yield(self, name: str, type_: Type) -> None:
        for side, handed_on in zip(self.sides, self.yields, strict=True):
            value = None if side.variables.dead else side.variables.names.get(name)
            if value is None and name in FLAGS and not side.variables.dead:
                value = FALSE
            with self.context.builder.into(side.block):
                handed_on.extend(yielded(self.context, value, type_, self.node))
        self.types += named_leaves(type_)

    def _joined(self, name: str, type_: Type, names: Iterator[str]) -> Value:
        values = [side.variables.names[name] for side in self.live if name in side.variables.names]
        joined = rebuild(type_, names, [list(leaf_values(value)) for value in values])
        before = self.outer.names.get(name)
        only_narrowed = before is not None and all(value.base is before.base for value in values)
        return replace(joined, origin=before) if only_narrowed else joined


def yielded(context: Context, value: Value | None, type_: Type, node: ast.AST) -> list[str]:
    """The names of a value's leaves, as a branch or a round of a loop hands them on; unset ones if it is None."""
    if value is None:
        return [context.builder.op("prim.Uninitialized", [], [part])[0] for part in named_leaves(type_)]
    converted = context.convert(value, type_, node)
    return [context.ssa(part) for part in leaf_values(converted) if has_value(part.type)]


def rebuild(type_: Type, names: Iterator[str], sources: list[list[Value]]) -> Value:
    """The value of `type_` whose leaves are the next of `names`; its lists are those of `sources` (leaf by leaf)."""
    if isinstance(type_, TupleType):
        parts, position = [], 0
        for element in type_.elements:
            width = len(leaves(element))
            parts.append(rebuild(element, names, [source[position : position + width] for source in sources]))
            position += width
        return tuple_of(tuple(parts))
    if not has_value(type_):
        return constant(None) if type_ == NONE else leaf(type_)
    found = leaf(type_, next(names))
    origins = [source[0] for source in sources if source and source[0].cell]
    if not origins or not found.cell:
        return found
    roots = frozenset().union(*(origin.roots for origin in origins))
    cells = {origin.cell for origin in origins}
    return replace(found, roots=roots, cell=cells.pop() if len(cells) == 1 else found.cell)


# ---- loops

Round = Callable[[Value, Variables], None]


def loop(context: Context, node: ast.AST, trips: Value, run_round: Round, variables: Variables) -> Value:
    """Run `run_round(index, variables)` `trips` times, or until a round returns or breaks.

    Returns whether one broke.
    """
    _Loop(context, node, variables).run(trips, run_round)
    return variables.names.pop(BROKE, FALSE)


class _Loop:
    """Finds what the rounds of a loop hand on: begins with nothing and tries again while something is missing."""

    def __init__(self, context: Context, node: ast.AST, outer: Variables) -> None:
        self.context = context
        self.node = node
        self.outer = outer
        self.outer.names.pop(BROKE, None)
        self.carried: dict[str, Value] = {}
        parts = [part for value in outer.names.values() for part in leaf_values(value)]
        self.outside = frozenset(root for part in parts for root in part.roots)

    def run(self, trips: Value, run_round: Round) -> None:
        while True:
            block = Block()
            index = leaf(INT, self.context.builder.argument(block, INT))
            inner = self._header(block)
            with self.context.builder.into(block):
                ended = self._round(index, inner, run_round)
                if self._grew(ended):
                    continue
                self._hand_on(ended)
            break
        self._finish(trips, block)

    def _header(self, block: Block) -> Variables:
        inner = self.outer.copy()
        inner.names.pop(CONTINUED, None)
        for name, value in self.carried.items():
            names = iter([self.context.builder.argument(block, part) for part in named_leaves(value.type)])
            self.carried[name] = inner.names[name] = rebuild(value.type, names, [list(leaf_values(value))])
        return inner

    def _round(self, index: Value, inner: Variables, run_round: Round) -> Variables:
        contained, changed = set(self.context.contained), set(self.context.changed)
        unless_left(self.context, self.node, inner, lambda rest: run_round(index, rest))
        inner.names.pop(CONTINUED, None)
        self.context.note_contained(contained, self.outside, changed, self.node)
        return inner

    def _grew(self, ended: Variables) -> bool:
        """Whether a round changes more than is handed on so far; then the next attempt hands on more."""
        if ended.dead:
            return False
        grown = False
        # A list that a round makes is another one at each attempt: only lists from before can be new to a header.
        known = self.outside.union(*(part.roots for v in self.carried.values() for part in leaf_values(v)))
        for name, value in ended.names.items():
            header = self.carried.get(name)
            start = header or self._start(name)
            if start is None or value.base is start.base:
                continue
            wider = self._wider(name, start, value)
            if header is None or not _same(header, wider, known):
                self.carried[name] = wider
                grown = True
        return grown

    def _start(self, name: str) -> Value | None:
        """What a name means before the first round; None for names that belong to the loop's body."""
        if name in FLAGS:
            return self.outer.names.get(name, FALSE)
        if name == RESULT:
            return self.outer.names.get(name, _UNSET)
        found = self.outer.names.get(name)
        return None if found is None or found.problem else found

    def _wider(self, name: str, start: Value, end: Value) -> Value:
        """A stand-in for what `name` may be when a round begins."""
        if end.problem:
            raise self.context.error(self.node, end.problem)
        type_ = end.type if start is _UNSET else join(start.type, end.type)
        if type_ is None:
            raise self.context.error(
                self.node,
                f"`{name}` is {start.type.python} before the loop and {end.type.python} after a round of it",
            )
        sources = (
            [list(leaf_values(end))] if start is _UNSET else [list(leaf_values(v)) for v in (start, end)]
        )
        aligned = len({len(source) for source in sources}) == 1
        return rebuild(type_, iter(["%?"] * len(leaves(type_))), sources if aligned else [])

    def _hand_on(self, ended: Variables) -> None:
        names = [self.context.ssa(constant(True))]
        for name, value in self.carried.items():
            names += yielded(
                self.context, None if ended.dead else ended.names.get(name), value.type, self.node
            )
        self.context.builder.op("prim.Loop.condition", names)

    def _initial(self, start: Value | None, type_: Type) -> list[str]:
        """What the first round begins with. Lists are copied: torch-mlir takes a loop's operand for changed, and
        then does not know its length, which may be the number of rounds."""
        names = yielded(self.context, start, type_, self.node)
        if start is None or not named_leaves(start.type):
            return names
        return [
            self._copied(name, part) if isinstance(part, ListType) else name
            for name, part in zip(names, named_leaves(type_), strict=True)
        ]

    def _copied(self, name: str, type_: ListType) -> str:
        (empty,) = self.context.builder.op("prim.ListConstruct", [], [type_])
        return self.context.builder.op("aten.add.t", [name, empty], [type_])[0]

    def _finish(self, trips: Value, block: Block) -> None:
        operands = [self.context.ssa(trips), self.context.ssa(constant(True))]
        for name, value in self.carried.items():
            start = FALSE if name in FLAGS and name not in self.outer.names else self.outer.names.get(name)
            operands += self._initial(start, value.type)
        types = [part for value in self.carried.values() for part in named_leaves(value.type)]
        results = iter(self.context.builder.op("prim.Loop", operands, types, "", [block]))
        for name, value in self.carried.items():
            self.outer.names[name] = rebuild(value.type, results, [list(leaf_values(value))])


def _same(old: Value, new: Value, known: frozenset[int]) -> bool:
    """Whether `new` is of `old`'s type and may be none of the `known` lists that `old` cannot be."""
    if old.type != new.type:
        return False
    pairs = zip(leaf_values(old), leaf_values(new), strict=True)
    return all((b.roots & known) <= a.roots for a, b in pairs)

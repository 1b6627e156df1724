"""Runs library functions on values of which something may be unknown.

Known values run as Python runs them. Where a condition is unknown both branches run, each on a heap of its own,
and the results are joined; a branch that raises cannot be the one that a program takes. So whatever is said of
a result holds for every value that the unknown ones may have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from . import lists, scalars
from .program import Block, Function, Instruction
from .values import Heap, Unknown, Value, join, widen

_MOST_STEPS = 500_000
_MOST_CALLS = 40
# A loop that may end after any round is followed round by round while it is short.
_MOST_ROUNDS = 64


class Raised(Exception):
    """The function raises for all values that the unknown ones may have. location: ``file:line``, where known."""

    def __init__(self, message: str, location: str | None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location


class EndlessError(Exception):
    """The function runs for longer than any shape function can need."""


class Machine:
    """One run over its own heap. functions: finds a function of the library by its symbol."""

    def __init__(self, functions: Callable[[str], Function]) -> None:
        self._functions = functions
        self.heap = Heap()
        self._steps = 0
        self._calls = 0

    def call(self, function: Function, arguments: Sequence[Value]) -> Value:
        """The result of `function`. Raises Raised when it must raise, EndlessError when it does not end."""
        frame: list[Value] = [None] * function.places
        return next(iter(self._block(function.block, frame, arguments)), None)

    def _block(self, block: Block, frame: list[Value], arguments: Sequence[Value]) -> list[Value]:
        for place, value in zip(block.arguments, arguments, strict=True):
            frame[place] = value
        for instruction in block.body:
            self._step(instruction, frame)
        return [frame[place] for place in block.exits]

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise EndlessError

    def _step(self, instruction: Instruction, frame: list[Value]) -> None:
        self._count()
        operands = [frame[place] for place in instruction.operands]
        results = self._results(instruction, operands, frame)
        for place, value in zip(instruction.results, results, strict=True):
            frame[place] = value

    def _results(
        self, instruction: Instruction, operands: list[Value], frame: list[Value]
    ) -> Sequence[Value]:
        name = instruction.name
        if name.startswith("constant."):
            return (instruction.attribute,)
        control = _CONTROL.get(name)
        if control is not None:
            return control(self, instruction, operands, frame)
        try:
            return self._compute(instruction, operands)
        except (ArithmeticError, LookupError, ValueError, TypeError) as error:
            raise Raised(f"{type(error).__name__}: {error}", instruction.location) from error

    def _compute(self, instruction: Instruction, operands: list[Value]) -> Sequence[Value]:
        unknown = instruction.unknowns[0] if instruction.unknowns else None
        if instruction.name in ("prim.TupleUnpack", "prim.ListUnpack"):
            return lists.unpack(self.heap, operands, instruction.unknowns)
        operation = lists.find(instruction.name)
        if operation is not None:
            result = operation(self.heap, operands, unknown)
            return (result,) if instruction.results else ()
        if scalars.base_name(instruction.name) in scalars.KNOWN:
            return (scalars.compute(instruction.name, operands, unknown),)
        # What we do not know may change any list that it can reach.
        self.heap.forget()
        return instruction.unknowns

    def _raise(self, instruction: Instruction, operands: list[Value], frame: list[Value]) -> Sequence[Value]:
        message = operands[0] if isinstance(operands[0], str) else "a check failed"
        raise Raised(message.strip(), instruction.location)

    def _call(self, instruction: Instruction, operands: list[Value], frame: list[Value]) -> Sequence[Value]:
        self._calls += 1
        try:
            if self._calls > _MOST_CALLS:
                raise EndlessError
            return (self.call(self._functions(instruction.attribute), operands),)
        finally:
            self._calls -= 1

    def _if(self, instruction: Instruction, operands: list[Value], frame: list[Value]) -> Sequence[Value]:
        condition = operands[0]
        if isinstance(condition, bool):
            return self._block(instruction.regions[not condition], frame, ())
        before = self.heap.save()
        then = self._attempt(instruction.regions[0], frame, ())
        state = self.heap.save()
        self.heap.restore(before)
        other = self._attempt(instruction.regions[1], frame, ())
        if isinstance(then, Raised):
            if isinstance(other, Raised):
                raise then
            return other
        if isinstance(other, Raised):
            self.heap.restore(state)
            return then
        self.heap.join_with(state)
        return [join(a, b) for a, b in zip(then, other, strict=True)]

    def _attempt(self, block: Block, frame: list[Value], arguments: Sequence[Value]) -> list[Value] | Raised:
        try:
            return self._block(block, frame, arguments)
        except Raised as raised:
            return raised

    def _loop(self, instruction: Instruction, operands: list[Value], frame: list[Value]) -> Sequence[Value]:
        """Runs round by round while it is known, or soon is, whether there is a next one."""
        rounds, condition, *carried = operands
        exits = _Exits(self.heap)
        count = 0
        while True:
            if condition is False or (type(rounds) is int and count >= rounds):
                return exits.join_with(carried)
            certain = condition is True and type(rounds) is int
            if not certain and not (type(rounds) is int and rounds <= _MOST_ROUNDS):
                return exits.join_with(self._any_rounds(instruction, frame, carried))
            if not certain:
                exits.add(carried)
            self._count()
            found = self._attempt(instruction.regions[0], frame, [count, *carried])
            if isinstance(found, Raised):
                return exits.only(found)
            condition, *carried = found
            count += 1

    def _any_rounds(self, instruction: Instruction, frame: list[Value], carried: list[Value]) -> list[Value]:
        """What holds after any number of rounds: the first fact that one more round does not change."""
        while True:
            state = self.heap.save()
            found = self._attempt(instruction.regions[0], frame, [Unknown.NATURAL, *carried])
            if isinstance(found, Raised):
                self.heap.restore(state)
                return carried
            merged = [widen(a, b) for a, b in zip(carried, found[1:], strict=True)]
            changed = self.heap.join_with(state, widening=True)
            if not changed and merged == carried:
                return carried
            carried = merged


class _Exits:
    """The states in which a loop may have ended, where its condition was unknown."""

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._found: list[tuple[Mapping[int, Value], list[Value]]] = []

    def add(self, carried: list[Value]) -> None:
        self._found.append((self._heap.save(), carried))

    def join_with(self, carried: list[Value]) -> list[Value]:
        """The loop's results when it may also end now, with `carried`."""
        for state, values in self._found:
            self._heap.join_with(dict(state))
            carried = [join(a, b) for a, b in zip(values, carried, strict=True)]
        return carried

    def only(self, raised: Raised) -> list[Value]:
        """The loop's results when to go on is to raise."""
        if not self._found:
            raise raised
        state, carried = self._found.pop()
        self._heap.restore(dict(state))
        return self.join_with(carried)


_CONTROL: dict[str, Callable[[Machine, Instruction, list[Value], list[Value]], Sequence[Value]]] = {
    "prim.If": Machine._if,
    "prim.Loop": Machine._loop,
    "prim.RaiseException": Machine._raise,
    "func.call": Machine._call,
}

"""Pictures of several operations that belong together, for patterns (`dialect_passes.patterns`).

    op("aten.mul.Tensor", op("aten.sigmoid", value("x")), value("x"), commutes=True)

matches x * sigmoid(x) either way round, and binds ``x``: a name that occurs twice must be the same value twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from .torch_ops import constant, constants, producer, used_once

Found = dict[str, Any]


class Node:
    """What an operand is compared with."""

    def extend(self, value: ir.Value, found: Found) -> Found | None:
        """`found` and what this binds besides; None where `value` does not match."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Value(Node):
    name: str | None

    def extend(self, value: ir.Value, found: Found) -> Found | None:
        return _bind(self.name, value, found)


@dataclass(frozen=True)
class _Number(Node):
    name: str | None
    equal: Any

    def extend(self, value: ir.Value, found: Found) -> Found | None:
        number = constant(value)
        if number is None or (self.equal is not None and number != self.equal):
            return None
        return _bind(self.name, number, found)


@dataclass(frozen=True)
class _Numbers(Node):
    name: str | None
    equal: Sequence[int] | None

    def extend(self, value: ir.Value, found: Found) -> Found | None:
        numbers = constants(value)
        if numbers is None or (self.equal is not None and numbers != list(self.equal)):
            return None
        return _bind(self.name, numbers, found)


@dataclass(frozen=True)
class _Nothing(Node):
    def extend(self, value: ir.Value, found: Found) -> Found | None:
        return found if str(value.type) == "!torch.none" else None


@dataclass(frozen=True)
class Op(Node):
    """An operation and its operands; `op` makes it."""

    names: tuple[str, ...]
    operands: tuple[Node, ...]
    bind: str | None
    once: bool
    commutes: bool

    def match(self, root: ir.Operation) -> Found | None:
        """What the picture binds when its root is `root`; None where something differs."""
        return self._operation(root, {})

    def extend(self, value: ir.Value, found: Found) -> Found | None:
        owner = producer(value)
        if owner is None or (self.once and not used_once(value)):
            return None
        return self._operation(owner, found)

    def _operation(self, op: ir.Operation, found: Found) -> Found | None:
        if op.name not in self.names or len(op.operands) != len(self.operands):
            return None
        given = list(op.operands)
        orders = [given, [given[1], given[0], *given[2:]]] if self.commutes else [given]
        for order in orders:
            bound = self._all(order, found)
            if bound is not None:
                return _bind(self.bind, op, bound)
        return None

    def _all(self, given: Sequence[ir.Value], found: Found) -> Found | None:
        bound: Found | None = found
        for node, value_ in zip(self.operands, given, strict=True):
            bound = node.extend(value_, bound)
            if bound is None:
                return None
        return bound


def op(
    names: str | Sequence[str],
    *operands: Node,
    bind: str | None = None,
    once: bool = False,
    commutes: bool = False,
) -> Op:
    """An operator (``aten.mm``, or one of several) on such operands.

    bind: the name for the operation. once: nothing else uses its result. commutes: its first two operands may be in
    either order (a scaled ``aten.add.Tensor`` must have its third compared with ``number(equal=1)``).
    """
    several = (names,) if isinstance(names, str) else tuple(names)
    return Op(tuple(f"torch.{name}" for name in several), operands, bind, once, commutes)


def value(name: str | None = None) -> Node:
    """Any value."""
    return _Value(name)


def number(name: str | None = None, *, equal: float | None = None) -> Node:
    """A constant number or bool, bound as Python's."""
    return _Number(name, equal)


def numbers(name: str | None = None, *, equal: Sequence[int] | None = None) -> Node:
    """A list of constant numbers, bound as Python's."""
    return _Numbers(name, equal)


def nothing() -> Node:
    """An operand that is None."""
    return _Nothing()


def _bind(name: str | None, what: Any, found: Found) -> Found | None:
    if name is None:
        return found
    if name in found:
        return found if found[name] == what else None
    return {**found, name: what}

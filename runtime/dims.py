"""Dynamic dimensions: what a call's shapes say about the symbols, checked against their bounds.

A dimension in the manifest is an int, or an expression over symbols such as ``batch`` or ``2*height``.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Dim = int | str

_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class DimensionError(ValueError):
    """A size that no value of the symbols explains; the message lacks only the argument's name."""


@dataclass(frozen=True)
class Bounds:
    """Inclusive limits of a symbol; max None means unbounded."""

    min: int
    max: int | None

    def describe(self, name: str) -> str:
        """For screens: ``1 <= batch <= 64`` or ``batch >= 1``."""
        return f"{self.min} <= {name} <= {self.max}" if self.max is not None else f"{name} >= {self.min}"


@dataclass
class Binder:
    """Collects symbol values over the arguments of one call."""

    bounds: dict[str, Bounds]
    values: dict[str, int] = field(default_factory=dict)
    _postponed: list[tuple[str, int]] = field(default_factory=list)

    def bind(self, shape: Sequence[Dim], sizes: Sequence[int]) -> None:
        """Learns from one tensor. Raises DimensionError where a size cannot be."""
        if len(shape) != len(sizes):
            raise DimensionError(f"expected {len(shape)} dimensions, got {len(sizes)}")
        for axis, (dim, size) in enumerate(zip(shape, sizes, strict=True)):
            if dim != size and not (isinstance(dim, str) and self._learn(dim, size)):
                raise DimensionError(f"dimension {axis} must be {self._expected(dim)}, got {size}")

    def finish(self) -> None:
        """Learns from the expressions whose symbols were still unknown when they were met.

        Raises DimensionError for one that does not hold. What no call can settle (``h//2`` alone) is not checked.
        """
        while self._postponed:
            pending, self._postponed = self._postponed, []
            for dim, size in pending:
                if not self._learn(dim, size):
                    raise DimensionError(f"a dimension must be {self._expected(dim)}, got {size}")
            if len(self._postponed) == len(pending):
                return

    def _learn(self, dim: str, size: int) -> bool:
        unknown = [name for name in symbols(dim) if name not in self.values]
        if not unknown:
            return _value_is(dim, self.values, size)
        if len(unknown) > 1 or not _is_affine(dim, unknown[0], self.values):
            self._postponed.append((dim, size))
            return True
        value = _solve(dim, unknown[0], self.values, size)
        if value is None or not _within(value, self.bounds.get(unknown[0])):
            return False
        self.values[unknown[0]] = value
        return True

    def _expected(self, dim: Dim) -> str:
        if isinstance(dim, int):
            return str(dim)
        known = {name: self.values[name] for name in symbols(dim) if name in self.values}
        notes = [f"{name} = {value}" for name, value in known.items()]
        notes += [
            self.bounds[name].describe(name)
            for name in symbols(dim)
            if name not in known and name in self.bounds
        ]
        return f"{dim} ({', '.join(notes)})" if notes else dim


@cache
def _tree(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


@cache
def symbols(expression: str) -> tuple[str, ...]:
    """The symbols of a dimension expression, sorted."""
    names = {n.id for n in ast.walk(_tree(expression)) if isinstance(n, ast.Name)}
    return tuple(sorted(names - {"Max", "Min"}))


def evaluate(expression: Dim, values: dict[str, int]) -> int:
    """The size an expression has for these symbol values."""
    if isinstance(expression, int):
        return expression
    return _evaluate(_tree(expression), values)


def _evaluate(node: Any, values: dict[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Max", "Min"):
        pick = max if node.func.id == "Max" else min
        return pick(_evaluate(argument, values) for argument in node.args)
    return _OPERATORS[type(node.op)](_evaluate(node.left, values), _evaluate(node.right, values))


def _value_is(expression: str, values: dict[str, int], size: int) -> bool:
    try:
        return evaluate(expression, values) == size
    except ZeroDivisionError:
        return False


def _is_affine(expression: str, unknown: str, values: dict[str, int]) -> bool:
    """Whether the expression is a straight line in `unknown` over all integers, so that it can be solved."""
    if any(_bends(node, unknown) for node in ast.walk(_tree(expression))):
        return False
    at0, at1, at2 = (evaluate(expression, {**values, unknown: point}) for point in (0, 1, 2))
    return at2 - at1 == at1 - at0


def _bends(node: ast.AST, unknown: str) -> bool:
    bending = isinstance(node, ast.Call) or (
        isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod, ast.Pow))
    )
    return bending and any(isinstance(n, ast.Name) and n.id == unknown for n in ast.walk(node))


def _solve(expression: str, unknown: str, values: dict[str, int], size: int) -> int | None:
    """The value of `unknown` that gives `size` in an expression affine in it, None when there is none."""
    at_zero, at_one = (evaluate(expression, {**values, unknown: point}) for point in (0, 1))
    slope = at_one - at_zero
    if slope == 0 or (size - at_zero) % slope:
        return None
    return (size - at_zero) // slope


def _within(value: int, bounds: Bounds | None) -> bool:
    return bounds is None or (value >= bounds.min and (bounds.max is None or value <= bounds.max))

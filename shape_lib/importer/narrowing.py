"""What a condition says about optional variables on the side where it holds, and where it does not."""

from __future__ import annotations

import ast

from .context import Context
from .types import OptionalType
from .values import Variables


def narrow(context: Context, test: ast.expr, variables: Variables, positive: bool) -> None:
    """Make optional variables that `test` proves to be there their inner type. positive: whether `test` holds."""
    for name in sorted(_present(test, positive)):
        value = variables.names.get(name)
        if value is not None and isinstance(value.type, OptionalType):
            variables.names[name] = context.narrowed(value, value.type.inner)


def _present(test: ast.expr, positive: bool) -> set[str]:
    """The names that are not None when `test` is `positive`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _present(test.operand, not positive)
    if isinstance(test, ast.BoolOp):
        parts = [_present(value, positive) for value in test.values]
        # `a and b` holds: both do. It does not: one of them does not, and nobody says which.
        every = isinstance(test.op, ast.And) == positive
        return set.union(*parts) if every else set.intersection(*parts)
    if isinstance(test, ast.Name):
        return {test.id} if positive else set()
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test, positive)
    return set()


def _compared(test: ast.Compare, positive: bool) -> set[str]:
    sides = (test.left, test.comparators[0])
    names = {side.id for side in sides if isinstance(side, ast.Name)}
    if not any(isinstance(side, ast.Constant) and side.value is None for side in sides):
        return set()
    shows = isinstance(test.ops[0], (ast.IsNot, ast.NotEq)) == positive
    return names if shows and isinstance(test.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) else set()

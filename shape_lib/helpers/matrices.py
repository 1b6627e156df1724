"""Stacks of matrices: [..., rows, columns]."""

from __future__ import annotations

from .broadcasting import matrix_batches
from .dims import assert_same


def assert_matrices(a: list[int]) -> None:
    """Refuses what is no stack of matrices."""
    assert len(a) >= 2, "a matrix has at least two dimensions"


def assert_square(a: list[int]) -> None:
    """Refuses what is no stack of square matrices."""
    assert_matrices(a)
    assert a[-1] == a[-2], "the matrices must be square"


def batch(a: list[int]) -> list[int]:
    """The dimensions before the matrices."""
    return a[:-2]


def smaller_side(a: list[int]) -> int:
    """min(rows, columns)."""
    return min(a[-2], a[-1])


def is_vector_for(a: list[int], b: list[int]) -> bool:
    """Whether `b` holds vectors as right sides for the matrices `a`: 1-d, or `a` less its last dimension."""
    if len(b) == 1:
        return True
    return len(a) - 1 == len(b) and _starts_with(a, b)


def _starts_with(a: list[int], b: list[int]) -> bool:
    same = True
    for i in range(len(b)):
        if a[i] != b[i]:
            same = False
    return same


def assert_same_batch(a: list[int], b: list[int]) -> None:
    """Refuses stacks with different batch dimensions."""
    assert_same(batch(a), batch(b))


def solved(a: list[int], b: list[int], left: bool) -> list[int]:
    """The shape of X in A X = B (or X A = B), batches broadcast."""
    assert_square(a)
    assert_matrices(b)
    if left:
        assert b[-2] == a[-2], "the right side has another number of rows than the matrix"
    else:
        assert b[-1] == a[-1], "the right side has another number of columns than the matrix"
    return matrix_batches(a, b) + [b[-2], b[-1]]

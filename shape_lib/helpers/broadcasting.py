"""NumPy's broadcasting."""

from __future__ import annotations


def broadcast(a: list[int], b: list[int]) -> list[int]:
    """The shape of an elementwise result: aligned at the last dimension, a size of 1 stretches."""
    rank = max(len(a), len(b))
    result: list[int] = []
    for i in range(rank):
        result.append(_stretched(_size(a, i - rank), _size(b, i - rank)))
    return result


def _size(shape: list[int], from_end: int) -> int:
    if -from_end > len(shape):
        return 1
    return shape[from_end]


def _stretched(a: int, b: int) -> int:
    if a == 1:
        return b
    if b == 1:
        return a
    assert a == b, "the sizes of the tensors neither match nor are 1"
    return a


def broadcast_all(shapes: list[list[int]]) -> list[int]:
    """Several shapes, broadcast together."""
    result: list[int] = []
    for shape in shapes:
        result = broadcast(result, shape)
    return result


def assert_expandable(shape: list[int], target: list[int]) -> None:
    """Refuses a shape that does not expand to `target` as it is."""
    assert len(shape) <= len(target), "the tensor has more dimensions than it is expanded to"
    for i in range(len(shape)):
        size, wanted = shape[len(shape) - 1 - i], target[len(target) - 1 - i]
        assert size == wanted or size == 1, "the tensor does not expand to that shape"


def matrix_batches(a: list[int], b: list[int]) -> list[int]:
    """The batch dimensions of two stacks of matrices, broadcast."""
    assert len(a) >= 2 and len(b) >= 2, "stacks of matrices have at least two dimensions"
    return broadcast(a[:-2], b[:-2])

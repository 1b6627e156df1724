"""Picking and writing parts of tensors."""

from __future__ import annotations

from .dims import wrap_dim


def clamped(position: int, size: int) -> int:
    """A slice's end as Python reads it: negative from the end, and never outside."""
    if position < 0:
        position = position + size
    return max(min(position, size), 0)


def sliced_size(size: int, start: int | None, end: int | None, step: int) -> int:
    """The length of [start:end:step]."""
    assert step > 0, "a slice's step is positive"
    first = 0
    if start is not None:
        first = clamped(start, size)
    last = size
    if end is not None:
        last = clamped(end, size)
    return max((last - first + step - 1) // step, 0)


def assert_scatter(x: list[int], dim: int, index: list[int], source: list[int] | None) -> None:
    """Refuses an index that is larger than the source, or than `x` beside `dim`. An empty one does nothing."""
    wrapped = wrap_dim(dim, len(x))
    if _is_empty(index):
        return
    assert max(len(x), 1) == max(len(index), 1), "index and tensor have different ranks"
    for i in range(len(index)):
        if i != wrapped and len(x) > 0:
            assert index[i] <= x[i], "the index is larger than the tensor"
    if source is not None:
        assert max(len(source), 1) == max(len(index), 1), "index and source have different ranks"
        for i in range(len(index)):
            available = 1
            if len(source) > 0:
                available = source[i]
            assert index[i] <= available, "the index is larger than the source"


def _is_empty(shape: list[int]) -> bool:
    empty = False
    for size in shape:
        if size == 0:
            empty = True
    return empty


def diagonal_size(rows: int, columns: int, offset: int) -> int:
    """How many elements lie on a diagonal."""
    if offset >= 0:
        return max(min(rows, columns - offset), 0)
    return max(min(rows + offset, columns), 0)

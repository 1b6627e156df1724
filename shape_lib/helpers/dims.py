"""Dimension numbers and sizes."""

from __future__ import annotations


def wrap_dim(dim: int, rank: int) -> int:
    """`dim` counted from the front. A 0-d tensor takes 0 and -1, as PyTorch has it."""
    count = max(rank, 1)
    assert dim >= -count and dim < count, "dimension out of range"
    return wrapped(dim, count)


def wrapped(dim: int, count: int) -> int:
    """`dim`, or counted from the end where it is negative."""
    if dim < 0:
        return dim + count
    return dim


def wrap_dims(dims: list[int], rank: int) -> list[int]:
    """Several dimensions counted from the front, each once."""
    result: list[int] = []
    for dim in dims:
        result.append(wrap_dim(dim, rank))
    for i in range(len(result)):
        for j in range(i):
            assert result[i] != result[j], "a dimension appears twice"
    return result


def all_dims(rank: int) -> list[int]:
    """0, 1, ... rank - 1."""
    result: list[int] = []
    for i in range(rank):
        result.append(i)
    return result


def contains(dims: list[int], dim: int) -> bool:
    """Whether `dim` is one of `dims`."""
    found = False
    for other in dims:
        if other == dim:
            found = True
    return found


def product(sizes: list[int]) -> int:
    """How many elements a tensor of these sizes has."""
    count = 1
    for size in sizes:
        count = count * size
    return count


def ones(rank: int) -> list[int]:
    """[1, 1, ...]."""
    result: list[int] = []
    for _ in range(rank):
        result.append(1)
    return result


def with_size(shape: list[int], dim: int, size: int) -> list[int]:
    """`shape` with `size` along `dim`."""
    result: list[int] = []
    for i in range(len(shape)):
        if i == dim:
            result.append(size)
        else:
            result.append(shape[i])
    return result


def without_dim(shape: list[int], dim: int) -> list[int]:
    """`shape` less the dimension `dim`."""
    result: list[int] = []
    for i in range(len(shape)):
        if i != dim:
            result.append(shape[i])
    return result


def assert_sizes(shape: list[int]) -> None:
    """Refuses negative sizes."""
    for size in shape:
        assert size >= 0, "a size is negative"


def assert_same(a: list[int], b: list[int]) -> None:
    """Refuses two shapes that differ."""
    assert len(a) == len(b), "the tensors have different ranks"
    for i in range(len(a)):
        assert a[i] == b[i], "the tensors have different sizes"


def assert_not_empty_beyond(shape: list[int], first: int) -> None:
    """Refuses a size of zero from dimension `first` on: what has a window needs elements; the batch may be empty."""
    for i in range(first, len(shape)):
        assert shape[i] != 0, "a dimension other than the batch is empty"


def expanded(values: list[int], count: int) -> list[int]:
    """`count` values from as many, or from one that holds for all (stride=2 for [2, 2])."""
    assert len(values) == count or len(values) == 1, "one value, or one per spatial dimension, is needed"
    if len(values) == count:
        return values
    result: list[int] = []
    for _ in range(count):
        result.append(values[0])
    return result


def inferred_sizes(shape: list[int], sizes: list[int]) -> list[int]:
    """The sizes of a view of `shape`, in which one -1 stands for whatever is left."""
    known = 1
    unknown = -1
    for i in range(len(sizes)):
        if sizes[i] == -1:
            assert unknown == -1, "only one size can be -1"
            unknown = i
        else:
            assert sizes[i] >= 0, "a size is negative"
            known = known * sizes[i]
    if unknown == -1:
        assert known == product(shape), "the view has another number of elements"
        return sizes
    assert known != 0, "what -1 stands for cannot be told beside a size of 0"
    assert product(shape) % known == 0, "the number of elements is no multiple of the sizes given"
    return with_size(sizes, unknown, product(shape) // known)

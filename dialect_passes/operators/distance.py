"""Distances between vectors."""

from __future__ import annotations

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.broadcasting import broadcast, matrix_batches
from pipeline.shape_lib.helpers.dims import product
from pipeline.shape_lib.helpers.promotion import floating, floating_or_complex, promoted, same
from pipeline.shape_lib.registry import dtype_function, shape_function


def _pairs(a: list[int], b: list[int], p: float) -> list[int]:
    """The distance of each row of `a` to each row of `b`."""
    assert p >= 0, "p must not be negative"
    batches = matrix_batches(a, b)
    assert a[-1] == b[-1], "the vectors have different lengths"
    return batches + [a[-2], b[-2]]


@shape_function("aten._cdist_forward.default")
def cdist_shape(a: list[int], b: list[int], p: float, compute_mode: int | None) -> list[int]:
    """Rows by rows, batches broadcast."""
    if compute_mode is not None:
        assert compute_mode >= 0 and compute_mode <= 2, "the mode is 0, 1, 2 or None"
    return _pairs(a, b, p)


@dtype_function("aten._cdist_forward.default")
def cdist_dtype(a: tuple[int, int], b: tuple[int, int], p: float, compute_mode: int | None) -> int:
    """Of both alike."""
    _, dtype = a
    _, b_dtype = b
    return same(floating(dtype), b_dtype)


@shape_function("aten._cdist_backward.default")
def cdist_backward_shape(
    grad: list[int], a: list[int], b: list[int], p: float, distances: list[int]
) -> list[int]:
    """That of the first argument, batches broadcast unless there is nothing to differentiate."""
    shape = matrix_batches(a, b) + [a[-2], a[-1]]
    if product(shape) == 0 or b[-2] == 0:
        return a
    return shape


@dtype_function("aten._cdist_backward.default")
def cdist_backward_dtype(
    grad: tuple[int, int], a: tuple[int, int], b: tuple[int, int], p: float, distances: tuple[int, int]
) -> int:
    """That of the first argument."""
    _, dtype = a
    return dtype


@shape_function("aten._pdist_forward.default")
def pdist_shape(x: list[int], p: float) -> list[int]:
    """Each row with each later one."""
    assert len(x) == 2, "the rows of one matrix are compared"
    assert p >= 0, "p must not be negative"
    return [max(x[0] * (x[0] - 1) // 2, 0)]


@dtype_function("aten._pdist_forward.default")
def pdist_dtype(x: tuple[int, int], p: float) -> int:
    """That of the matrix."""
    _, dtype = x
    return floating(dtype)


@shape_function("aten._pdist_backward.default")
def pdist_backward_shape(grad: list[int], x: list[int], p: float, distances: list[int]) -> list[int]:
    """That of the matrix."""
    return x


@dtype_function("aten._pdist_backward.default")
def pdist_backward_dtype(
    grad: tuple[int, int], x: tuple[int, int], p: float, distances: tuple[int, int]
) -> int:
    """That of the matrix."""
    _, dtype = x
    return dtype


@shape_function("aten.dist.default")
def dist_shape(a: list[int], b: list[int], p: float) -> list[int]:
    """One number."""
    broadcast(a, b)
    return []


@dtype_function("aten.dist.default")
def dist_dtype(a: tuple[int, int], b: tuple[int, int], p: int | float) -> int:
    """Real."""
    return dtypes.real_dtype(floating_or_complex(promoted(a, b)))

"""Gradients of padding."""

from __future__ import annotations

from pipeline.shape_lib.helpers.dims import assert_same
from pipeline.shape_lib.helpers.promotion import same
from pipeline.shape_lib.registry import dtype_function, shape_function

_BACKWARD = (
    "aten.replication_pad1d_backward.default",
    "aten.replication_pad2d_backward.default",
    "aten.replication_pad3d_backward.default",
)


@shape_function(*_BACKWARD)
def replication_pad_backward_shape(grad: list[int], x: list[int], padding: list[int]) -> list[int]:
    """That of the input. The padding goes from the last dimension back, two numbers each."""
    expected: list[int] = []
    for i in range(len(x)):
        behind = len(x) - 1 - i
        size = x[i]
        if 2 * behind + 1 < len(padding):
            size = size + padding[2 * behind] + padding[2 * behind + 1]
        expected.append(size)
    assert_same(grad, expected)
    return x


@dtype_function(*_BACKWARD)
def replication_pad_backward_dtype(grad: tuple[int, int], x: tuple[int, int], padding: list[int]) -> int:
    """Of gradient and input alike."""
    _, dtype = grad
    _, x_dtype = x
    return same(dtype, x_dtype)

"""Gradients of padding."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.shape_lib.helpers.dims import assert_same
from pipeline.shape_lib.helpers.promotion import same
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import Sample, call_samples

_BACKWARD = (
    "aten.replication_pad1d_backward.default",
    "aten.replication_pad2d_backward.default",
    "aten.replication_pad3d_backward.default",
)


@shape_function(*_BACKWARD)
def replication_pad_backward_shape(grad: list[int], x: list[int], padding: list[int]) -> list[int]:
    """That of the input. The padding goes from the last dimension back, two numbers each."""
    spatial = len(padding) // 2
    assert len(padding) == 2 * spatial, "the padding has two numbers per dimension"
    assert len(x) == spatial + 1 or len(x) == spatial + 2, (
        "the input has a channel and maybe a batch dimension"
    )
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


@call_samples("aten.replication_pad3d_backward.default")
def replication_pad3d_backward_samples() -> Iterable[Sample]:
    """Torch's samples do not reach this one."""
    import torch

    for shape, padding, grad in (
        ((2, 3, 4, 5, 6), [1, 2, 0, 1, 2, 0], (2, 3, 6, 6, 9)),
        ((3, 2, 2, 2), [0, 0, 1, 1, 3, 0], (3, 5, 4, 2)),
        ((3, 2, 2, 2), [0, 0, 1, 1, 3, 0], (3, 5, 4, 3)),
    ):
        yield [torch.ones(grad), torch.ones(shape), padding], {}

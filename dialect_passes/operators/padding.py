"""Padding by less than nothing, and gradients of padding."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipeline.shape_lib.helpers.dims import assert_same
from pipeline.shape_lib.helpers.promotion import same
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import Sample, call_samples, decomposes
from .windows import padded

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.constant_pad_nd.default")
def constant_pad(x: Tensor, pad: list[int], value: float = 0) -> Tensor:
    """Negative padding takes elements away, which IREE's own padding cannot."""
    import torch

    if not any(isinstance(size, int) and size < 0 for size in pad):
        return NotImplemented
    for i in range(0, len(pad), 2):
        dim = x.dim() - 1 - i // 2
        before, after = (max(-size, 0) if isinstance(size, int) else 0 for size in pad[i : i + 2])
        if before or after:
            x = x.narrow(dim, before, x.shape[dim] - before - after)
    rest = [max(size, 0) if isinstance(size, int) else size for size in pad]
    return torch.ops.aten.constant_pad_nd.default(x, rest, value) if any(rest) else x.clone()


def _replication_pad_backward(spatial: int, grad: Tensor, x: Tensor, padding: list[int]) -> Tensor:
    """What was repeated at the ends is added to the first and last elements."""
    for axis in range(spatial):
        dim = x.dim() - 1 - axis
        before, after = padding[2 * axis : 2 * axis + 2]
        grad = _fold_ends(grad, dim, x.shape[dim], before, after)
    return grad


def _fold_ends(grad: Tensor, dim: int, size: int, before: int, after: int) -> Tensor:
    folded = padded(grad, dim, -before, -after, 0)
    if before > 0:
        head = grad.narrow(dim, 0, before).sum(dim, keepdim=True)
        folded = folded + padded(head, dim, 0, size - 1, 0)
    if after > 0:
        tail = grad.narrow(dim, grad.shape[dim] - after, after).sum(dim, keepdim=True)
        folded = folded + padded(tail, dim, size - 1, 0, 0)
    return folded


for _spatial in (1, 2, 3):
    decomposes(f"aten.replication_pad{_spatial}d_backward.default")(
        functools.partial(_replication_pad_backward, _spatial)
    )

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

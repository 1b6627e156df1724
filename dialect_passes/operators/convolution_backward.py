"""The gradients of convolutions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .registry import decomposes
from .windows import padded, strided

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.convolution_backward.default")
def convolution_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Those of input, weight and bias, as far as `output_mask` asks for them."""
    rank = weight.dim() - 2
    stride, padding, dilation = (_each(sizes, rank) for sizes in (stride, padding, dilation))
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        of_input = _input_gradient(grad, x, weight, stride, padding, dilation, transposed, groups)
    if output_mask[1]:
        # What is spread out by the stride is the input of a transposed convolution, else the output.
        dense, spread = (grad, x) if transposed else (x, grad)
        of_weight = _weight_gradient(dense, spread, weight.shape[2:], stride, padding, dilation, groups)
    if output_mask[2]:
        of_bias = grad.sum([0, *range(2, rank + 2)])
    return of_input, of_weight, of_bias


def _each(sizes: list[int], rank: int) -> list[int]:
    return list(sizes) * rank if len(sizes) == 1 else list(sizes)


def _input_gradient(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    groups: int,
) -> Tensor:
    """The convolution the other way round, with the same weight."""
    import torch

    sizes, rank = x.shape[2:], len(stride)
    more = [0] * rank
    if not transposed:
        more = [
            sizes[i]
            - (
                (grad.shape[2 + i] - 1) * stride[i]
                - 2 * padding[i]
                + dilation[i] * (weight.shape[2 + i] - 1)
                + 1
            )
            for i in range(rank)
        ]
    result = torch.ops.aten.convolution.default(
        grad, weight, None, stride, padding, dilation, not transposed, more, groups
    )
    # An output padding of a stride or more (dilation allows it) makes windows that lie behind the input.
    return _cropped(result, sizes) if transposed else result


def _weight_gradient(
    dense: Tensor,
    spread: Tensor,
    kernel: Sequence[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """For each element of the kernel a matmul of `spread` with the elements of `dense` that it met.

    As a convolution of `dense` with `spread` it would take two to fifty times as long.
    """
    import torch

    dtype = spread.dtype
    if dtype in (torch.float16, torch.bfloat16):
        dense, spread = dense.float(), spread.float()
    for axis, pad in enumerate(padding):
        dense = padded(dense, 2 + axis, pad, pad, 0) if pad else dense
    count, counts = dense.shape[0], spread.shape[2:]
    columns = _pieces if math.prod(kernel) <= _PIECES else _gathered
    rows = spread.reshape(count, groups, spread.shape[1] // groups, -1)
    products = [
        _summed_product(rows, column.reshape(count, groups, -1, rows.shape[-1]))
        for column in columns(dense, kernel, stride, dilation, counts)
    ]
    shape = [spread.shape[1], dense.shape[1] // groups, *kernel]
    return torch.stack(products, -1).reshape(shape).to(dtype)


def _summed_product(rows: Tensor, columns: Tensor) -> Tensor:
    """[group, row, column]: the matmuls over [sample, group, row or column, place], summed over samples.

    Samples of an unknown number are contracted together with the places: IREE fails ("'tensor.dim' op unexpected during
    shape cleanup") with a batched matmul whose two operands state that number by different tensors.
    """
    import torch

    if isinstance(rows.shape[0], int):
        return torch.matmul(rows, columns.transpose(-2, -1)).sum(0)
    first, second = (x.movedim(0, 2).flatten(2) for x in (rows, columns))
    return torch.bmm(first, second.transpose(1, 2))


# From this number of kernel elements on, one gather and one matmul take less time to compile.
_PIECES = 32


def _pieces(
    dense: Tensor, kernel: Sequence[int], stride: list[int], dilation: list[int], counts: Sequence[int]
) -> Iterator[Tensor]:
    """What each element of the kernel meets."""
    for offsets in itertools.product(*map(range, kernel)):
        piece = dense
        for axis, offset in enumerate(offsets):
            piece = strided(piece, 2 + axis, offset * dilation[axis], counts[axis], stride[axis])
        yield piece


def _gathered(
    dense: Tensor, kernel: Sequence[int], stride: list[int], dilation: list[int], counts: Sequence[int]
) -> Iterator[Tensor]:
    """The same in one tensor: [batch, channels, kernel..., counts...]."""
    import torch

    rank = len(kernel)
    for axis in range(rank):
        dim = 2 + 2 * axis
        offsets = torch.arange(kernel[axis], device=dense.device) * dilation[axis]
        places = offsets.unsqueeze(1) + torch.arange(counts[axis], device=dense.device) * stride[axis]
        shape = [*dense.shape[:dim], kernel[axis], counts[axis], *dense.shape[dim + 1 :]]
        dense = dense.index_select(dim, places.reshape(-1)).reshape(shape)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    yield dense.permute(order)


def _cropped(x: Tensor, sizes: Sequence[int]) -> Tensor:
    for axis, size in enumerate(sizes):
        x = x.narrow(2 + axis, 0, size)
    return x

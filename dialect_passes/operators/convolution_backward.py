"""The gradients of convolutions, as convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes

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
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """`dense` convolved with `spread`: what was a stride is a dilation, what was a batch is summed over."""
    import torch

    count, channels, sizes = dense.shape[0], dense.shape[1] // groups, dense.shape[2:]
    # [batch, groups * channels, ...] -> [channels, groups * batch, ...]
    dense = dense.reshape(count, groups, channels, *sizes).transpose(0, 2)
    dense = dense.reshape(channels, groups * count, *sizes)
    zeros = [0] * len(stride)
    result = torch.ops.aten.convolution.default(
        dense, spread.transpose(0, 1), None, dilation, padding, stride, False, zeros, groups
    )
    return _cropped(result, kernel).transpose(0, 1)


def _cropped(x: Tensor, sizes: list[int]) -> Tensor:
    for axis, size in enumerate(sizes):
        x = x.narrow(2 + axis, 0, size)
    return x

"""Transposed convolutions, of which torch-mlir does not lower all, and those over one dimension, which are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.shape_lib.helpers import convolution as sizes
from pipeline.shape_lib.helpers.promotion import same
from pipeline.shape_lib.registry import dtype_function, shape_function

from .registry import decomposes
from .windows import spread

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.convolution.default")
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Tensor:
    """A transposed convolution is a plain one with flipped weights over the input spread out by zeros.

    One over [N, C, L] is one over [N, C, 1, L], the only kind that IREE computes channels-last.
    """
    import torch

    if x.dim() == 3 and not transposed:
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
        strides, pads, dilation = [1, *stride], [0, *padding], [1, *dilation]
        zeros = [0, 0]
        result = torch.ops.aten.convolution.default(
            x, weight, bias, strides, pads, dilation, False, zeros, groups
        )
        return result.squeeze(2)
    if not transposed:
        exact = _without_rest(x, weight, stride, padding, dilation)
        if exact is None:
            return NotImplemented
        x, zeros = torch.ops.aten.constant_pad_nd.default(x, exact, 0), [0] * (x.dim() - 2)
        return torch.ops.aten.convolution.default(
            x, weight, bias, stride, zeros, dilation, False, zeros, groups
        )
    rank = len(stride)
    kernel = weight.shape[2:]
    for axis in range(rank):
        x = spread(x, 2 + axis, stride[axis])
    pads: list[int] = []
    for axis in reversed(range(rank)):
        reach = dilation[axis] * (kernel[axis] - 1) - padding[axis]
        pads += [reach, reach + output_padding[axis]]
    x = torch.ops.aten.constant_pad_nd.default(x, pads, 0)
    # [in, out / groups, k...] -> [out, in / groups, k...]
    inputs, outputs = weight.shape[0] // groups, weight.shape[1]
    weight = weight.reshape(groups, inputs, outputs, *kernel).transpose(1, 2)
    weight = weight.reshape(groups * outputs, inputs, *kernel).flip(list(range(2, 2 + rank)))
    ones, zeros = [1] * rank, [0] * rank
    return torch.ops.aten.convolution.default(x, weight, bias, ones, zeros, dilation, False, zeros, groups)


def _without_rest(
    x: Tensor, weight: Tensor, stride: list[int], padding: list[int], dilation: list[int]
) -> list[int] | None:
    """Padding that leaves out what strides never reach, where IREE would fail: along results of one element.

    None where there is no such. In the order of `constant_pad_nd`, last dimension first; negative where it cuts.
    """
    rank, pads, found = x.dim() - 2, [], False
    strides, paddings, dilations = (
        list(values) * (rank if len(values) == 1 else 1) for values in (stride, padding, dilation)
    )
    for axis in reversed(range(rank)):
        size, kernel, pad = x.shape[2 + axis], weight.shape[2 + axis], paddings[axis]
        rest = 0
        if isinstance(size, int) and isinstance(kernel, int):
            rest = size + 2 * pad - (dilations[axis] * (kernel - 1) + 1)
        is_one = 0 < rest < strides[axis]
        found = found or is_one
        pads += [pad, pad - rest if is_one else pad]
    return pads if found else None


# torch-mlir's own shape function does not know that one stride or padding may stand for all dimensions.
@shape_function("aten.convolution.default")
def convolution_shape(
    x: list[int],
    weight: list[int],
    bias: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> list[int]:
    """Batch, output channels, and as often as the kernel fits."""
    return sizes.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@dtype_function("aten.convolution.default")
def convolution_dtype(
    x: tuple[int, int],
    weight: tuple[int, int],
    bias: tuple[int, int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> int:
    """Of input, weight and bias alike."""
    _, dtype = x
    _, weight_dtype = weight
    if bias is not None:
        _, bias_dtype = bias
        assert bias_dtype == dtype, "the bias has another dtype than the input"
    return same(dtype, weight_dtype)

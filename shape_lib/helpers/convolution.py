"""Sizes of convolutions and of what slides a window."""

from __future__ import annotations

from .dims import assert_sizes, expanded


def convolved_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How often a dilated kernel fits."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def transposed_size(size: int, kernel: int, stride: int, padding: int, dilation: int, extra: int) -> int:
    """The size that a convolution brings back to `size`; `extra` (output_padding) picks among several."""
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1


def convolution(
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
    """The shape of ``aten.convolution`` over [batch, channels, ...]."""
    spatial = len(weight) - 2
    assert spatial >= 1, "the weight has at least three dimensions"
    assert groups > 0, "groups must be positive"
    assert len(x) == len(weight), "input and weight have different ranks"
    stride, dilation = expanded(stride, spatial), expanded(dilation, spatial)
    padding, extra = expanded(padding, spatial), expanded(output_padding, spatial)
    for i in range(spatial):
        assert stride[i] > 0, "the stride must be positive"
        assert padding[i] >= 0, "the padding must not be negative"
        assert dilation[i] > 0, "the dilation must be positive"
    result = [x[0], _channels(x[1], weight, bias, transposed, groups)]
    for i in range(spatial):
        size, kernel = x[i + 2], weight[i + 2]
        assert size > 0 or x[0] == 0 or x[1] == 0, "only batch and channels may be empty"
        if transposed:
            assert extra[i] < stride[i] or extra[i] < dilation[i], "the output padding is too large"
            size = transposed_size(size, kernel, stride[i], padding[i], dilation[i], extra[i])
        else:
            reach = dilation[i] * (kernel - 1) + 1
            assert size + 2 * padding[i] >= reach, "the kernel is larger than the padded input"
            size = convolved_size(size, kernel, stride[i], padding[i], dilation[i])
        result.append(size)
    assert_sizes(result)
    return result


def _channels(inputs: int, weight: list[int], bias: list[int] | None, transposed: bool, groups: int) -> int:
    """The number of channels that come out."""
    if transposed:
        assert inputs == weight[0], "the input's channels do not fit the weight"
        assert weight[0] >= groups and weight[0] % groups == 0, "the groups do not divide the channels"
        channels = weight[1] * groups
    else:
        assert inputs == weight[1] * groups, "the input's channels do not fit the weight"
        assert weight[0] >= groups and weight[0] % groups == 0, "the groups do not divide the channels"
        channels = weight[0]
    if bias is not None:
        assert len(bias) == 1 and bias[0] == channels, "the bias has one element per output channel"
    return channels

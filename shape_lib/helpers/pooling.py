"""Sizes of pooling windows."""

from __future__ import annotations

from .dims import assert_not_empty_beyond, expanded


def pooled_size(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows fit. With `ceil_mode` a last partial one counts, if it starts inside input or left padding."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    if ceil_mode:
        count = (free + stride - 1) // stride + 1
        if (count - 1) * stride >= size + padding:
            count = count - 1
        return count
    return free // stride + 1


def pooled(
    x: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    spatial: int,
) -> list[int]:
    """The shape of a max or average pool over the last `spatial` dimensions; no stride means the kernel's size."""
    assert_pool_input(x, spatial)
    kernel = expanded(kernel, spatial)
    steps = kernel
    if len(stride) > 0:
        steps = expanded(stride, spatial)
    padding, dilation = expanded(padding, spatial), expanded(dilation, spatial)
    first = len(x) - spatial
    result = x[:first]
    for i in range(spatial):
        assert kernel[i] > 0 and steps[i] > 0 and dilation[i] > 0, "kernel, stride and dilation are positive"
        assert padding[i] >= 0 and 2 * padding[i] <= kernel[i], "the padding is at most half of the kernel"
        size = pooled_size(x[first + i], kernel[i], steps[i], padding[i], dilation[i], ceil_mode)
        assert size >= 1, "the window is larger than the padded input"
        result.append(size)
    return result


def assert_pool_input(x: list[int], spatial: int) -> None:
    """Refuses what is neither [channels, ...] nor [batch, channels, ...], or is empty beyond the batch."""
    assert len(x) == spatial + 1 or len(x) == spatial + 2, (
        "the input has a channel and maybe a batch dimension"
    )
    assert_not_empty_beyond(x, len(x) - spatial - 1)


def adaptive(x: list[int], output: list[int], spatial: int) -> list[int]:
    """`x` with the last dimensions of the sizes asked for."""
    assert len(output) == spatial or len(output) == 1, "one output size per spatial dimension"
    assert len(x) == spatial + 1 or len(x) == spatial + 2, (
        "the input has a channel and maybe a batch dimension"
    )
    assert_not_empty_beyond(x, 1)
    result = x[: len(x) - spatial]
    for size in expanded(output, spatial):
        assert size >= 0, "an output size is negative"
        result.append(size)
    return result


def assert_resized(x: list[int], output: list[int], spatial: int) -> None:
    """Refuses what cannot be resized: [batch, channels, ...] without empty spatial dimensions."""
    assert len(output) == spatial, "one output size per spatial dimension"
    assert len(x) == spatial + 2, "the input has a batch and a channel dimension"
    for size in x[2:]:
        assert size > 0, "a spatial dimension of the input is empty"
    for size in output:
        assert size > 0, "an output size is not positive"

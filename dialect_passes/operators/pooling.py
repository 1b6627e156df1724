"""Pooling, and the gradients of pooling."""

from __future__ import annotations

from pipeline.shape_lib import dtypes
from pipeline.shape_lib.helpers.dims import assert_not_empty_beyond, assert_same
from pipeline.shape_lib.helpers.pooling import adaptive, assert_pool_input, pooled
from pipeline.shape_lib.helpers.promotion import floating, same
from pipeline.shape_lib.registry import dtype_function, shape_function


@shape_function("aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool3d_shape(x: list[int], output_size: list[int]) -> list[int]:
    """The sizes asked for."""
    return adaptive(x, output_size, 3)


@dtype_function("aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool3d_dtype(x: tuple[int, int], output_size: list[int]) -> int:
    """That of the input."""
    _, dtype = x
    return dtype


@shape_function("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool_backward_shape(grad: list[int], x: list[int]) -> list[int]:
    """That of the input."""
    assert len(grad) == len(x), "gradient and input have different ranks"
    assert_not_empty_beyond(grad, 1)
    return x


@dtype_function("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool_backward_dtype(grad: tuple[int, int], x: tuple[int, int]) -> int:
    """Of gradient and input alike."""
    _, dtype = grad
    _, x_dtype = x
    return same(dtype, x_dtype)


@shape_function("aten.adaptive_max_pool2d_backward.default", "aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool_backward_shape(grad: list[int], x: list[int], indices: list[int]) -> list[int]:
    """That of the input."""
    assert_same(grad, indices)
    assert len(grad) == len(x), "gradient and input have different ranks"
    return x


@dtype_function("aten.adaptive_max_pool2d_backward.default", "aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool_backward_dtype(
    grad: tuple[int, int], x: tuple[int, int], indices: tuple[int, int]
) -> int:
    """Of gradient and input alike."""
    _, dtype = grad
    _, x_dtype = x
    return same(dtype, x_dtype)


def _avg_pool_backward(
    grad: list[int],
    x: list[int],
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    divisor: int | None,
    spatial: int,
) -> list[int]:
    if divisor is not None:
        assert divisor != 0, "the divisor must not be zero"
    assert_same(grad, pooled(x, kernel, stride, padding, [1], ceil_mode, spatial))
    return x


@shape_function("aten.avg_pool2d_backward.default")
def avg_pool2d_backward_shape(
    grad: list[int],
    x: list[int],
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> list[int]:
    """That of the input."""
    return _avg_pool_backward(grad, x, kernel_size, stride, padding, ceil_mode, divisor_override, 2)


@shape_function("aten.avg_pool3d_backward.default")
def avg_pool3d_backward_shape(
    grad: list[int],
    x: list[int],
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> list[int]:
    """That of the input."""
    return _avg_pool_backward(grad, x, kernel_size, stride, padding, ceil_mode, divisor_override, 3)


@dtype_function("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def avg_pool_backward_dtype(
    grad: tuple[int, int],
    x: tuple[int, int],
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> int:
    """Of gradient and input alike."""
    _, dtype = grad
    _, x_dtype = x
    return same(dtype, x_dtype)


@shape_function("aten.max_pool3d_with_indices_backward.default")
def max_pool3d_backward_shape(
    grad: list[int],
    x: list[int],
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: list[int],
) -> list[int]:
    """That of the input."""
    assert_same(grad, pooled(x, kernel_size, stride, padding, dilation, ceil_mode, 3))
    assert_same(grad, indices)
    return x


@dtype_function("aten.max_pool3d_with_indices_backward.default")
def max_pool3d_backward_dtype(
    grad: tuple[int, int],
    x: tuple[int, int],
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: tuple[int, int],
) -> int:
    """Of gradient and input alike."""
    _, dtype = grad
    _, x_dtype = x
    return same(dtype, x_dtype)


def _fractional(
    x: list[int], kernel: list[int], output: list[int], samples: list[int], spatial: int
) -> list[int]:
    """The sizes asked for; the random samples say where windows start: [batch, channels, spatial]."""
    assert_pool_input(x, spatial)
    assert len(kernel) == spatial and len(output) == spatial, "one size per spatial dimension is needed"
    first = len(x) - spatial
    result = x[:first]
    for i in range(spatial):
        assert output[i] >= 0, "an output size is negative"
        assert output[i] + kernel[i] - 1 <= x[first + i], "the window is too large for the input"
        result.append(output[i])
    assert len(samples) == 3, "the random samples have three dimensions"
    if first == 2:
        assert samples[0] >= x[0], "there are fewer random samples than inputs in the batch"
    assert samples[1] == x[first - 1], "there are not as many random samples as channels"
    assert samples[2] == spatial, "there is one random sample per spatial dimension"
    return result


@shape_function("aten.fractional_max_pool2d.default")
def fractional_max_pool2d_shape(
    x: list[int], kernel_size: list[int], output_size: list[int], random_samples: list[int]
) -> tuple[list[int], list[int]]:
    """Maxima and where they were."""
    shape = _fractional(x, kernel_size, output_size, random_samples, 2)
    return shape, shape


@shape_function("aten.fractional_max_pool3d.default")
def fractional_max_pool3d_shape(
    x: list[int], kernel_size: list[int], output_size: list[int], random_samples: list[int]
) -> tuple[list[int], list[int]]:
    """Maxima and where they were."""
    shape = _fractional(x, kernel_size, output_size, random_samples, 3)
    return shape, shape


@dtype_function("aten.fractional_max_pool2d.default", "aten.fractional_max_pool3d.default")
def fractional_max_pool_dtype(
    x: tuple[int, int], kernel_size: list[int], output_size: list[int], random_samples: tuple[int, int]
) -> tuple[int, int]:
    """Places are int64."""
    _, dtype = x
    _, samples_dtype = random_samples
    return same(floating(dtype), samples_dtype), dtypes.int64


def _fractional_backward(grad: list[int], x: list[int], output: list[int], spatial: int) -> list[int]:
    assert_same(grad, x[: len(x) - spatial] + output)
    return x


@shape_function("aten.fractional_max_pool2d_backward.default")
def fractional_max_pool2d_backward_shape(
    grad: list[int], x: list[int], kernel_size: list[int], output_size: list[int], indices: list[int]
) -> list[int]:
    """That of the input."""
    return _fractional_backward(grad, x, output_size, 2)


@shape_function("aten.fractional_max_pool3d_backward.default")
def fractional_max_pool3d_backward_shape(
    grad: list[int], x: list[int], kernel_size: list[int], output_size: list[int], indices: list[int]
) -> list[int]:
    """That of the input."""
    return _fractional_backward(grad, x, output_size, 3)


@dtype_function("aten.fractional_max_pool2d_backward.default", "aten.fractional_max_pool3d_backward.default")
def fractional_max_pool_backward_dtype(
    grad: tuple[int, int],
    x: tuple[int, int],
    kernel_size: list[int],
    output_size: list[int],
    indices: tuple[int, int],
) -> int:
    """That of the input."""
    _, dtype = x
    return dtype

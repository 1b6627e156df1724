"""Interpolation and grid sampling, and their gradients."""

from __future__ import annotations

from pipeline.shape_lib.helpers.dims import assert_not_empty_beyond, assert_same
from pipeline.shape_lib.helpers.pooling import assert_resized
from pipeline.shape_lib.helpers.promotion import same
from pipeline.shape_lib.registry import dtype_function, shape_function

_PLANES = ("aten.upsample_bicubic2d.default", "aten._upsample_bilinear2d_aa.default")
_PLANES_BACKWARD = (
    "aten.upsample_bicubic2d_backward.default",
    "aten.upsample_bilinear2d_backward.default",
    "aten._upsample_bilinear2d_aa_backward.default",
)


def _resized(x: list[int], output: list[int], spatial: int) -> list[int]:
    assert_resized(x, output, spatial)
    assert_not_empty_beyond(x, 1)
    return x[:2] + output


def _resized_backward(grad: list[int], output: list[int], x: list[int], spatial: int) -> list[int]:
    assert_resized(x, output, spatial)
    assert_same(grad, x[:2] + output)
    return x


@shape_function(*_PLANES)
def resize_planes_shape(
    x: list[int], output_size: list[int], align_corners: bool, scales_h: float | None, scales_w: float | None
) -> list[int]:
    """The sizes asked for; the scales change values only."""
    return _resized(x, output_size, 2)


@dtype_function(*_PLANES)
def resize_planes_dtype(
    x: tuple[int, int],
    output_size: list[int],
    align_corners: bool,
    scales_h: float | None,
    scales_w: float | None,
) -> int:
    """That of the input."""
    _, dtype = x
    return dtype


@shape_function("aten.upsample_trilinear3d.default")
def resize_volumes_shape(
    x: list[int],
    output_size: list[int],
    align_corners: bool,
    scales_d: float | None,
    scales_h: float | None,
    scales_w: float | None,
) -> list[int]:
    """The sizes asked for."""
    return _resized(x, output_size, 3)


@dtype_function("aten.upsample_trilinear3d.default")
def resize_volumes_dtype(
    x: tuple[int, int],
    output_size: list[int],
    align_corners: bool,
    scales_d: float | None,
    scales_h: float | None,
    scales_w: float | None,
) -> int:
    """That of the input."""
    _, dtype = x
    return dtype


@shape_function("aten.upsample_linear1d_backward.default")
def resize_lines_backward_shape(
    grad: list[int], output_size: list[int], input_size: list[int], align_corners: bool, scales: float | None
) -> list[int]:
    """That of the input."""
    return _resized_backward(grad, output_size, input_size, 1)


@dtype_function("aten.upsample_linear1d_backward.default")
def resize_lines_backward_dtype(
    grad: tuple[int, int],
    output_size: list[int],
    input_size: list[int],
    align_corners: bool,
    scales: float | None,
) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


@shape_function(*_PLANES_BACKWARD)
def resize_planes_backward_shape(
    grad: list[int],
    output_size: list[int],
    input_size: list[int],
    align_corners: bool,
    scales_h: float | None,
    scales_w: float | None,
) -> list[int]:
    """That of the input."""
    return _resized_backward(grad, output_size, input_size, 2)


@dtype_function(*_PLANES_BACKWARD)
def resize_planes_backward_dtype(
    grad: tuple[int, int],
    output_size: list[int],
    input_size: list[int],
    align_corners: bool,
    scales_h: float | None,
    scales_w: float | None,
) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


@shape_function("aten.upsample_trilinear3d_backward.default")
def resize_volumes_backward_shape(
    grad: list[int],
    output_size: list[int],
    input_size: list[int],
    align_corners: bool,
    scales_d: float | None,
    scales_h: float | None,
    scales_w: float | None,
) -> list[int]:
    """That of the input."""
    return _resized_backward(grad, output_size, input_size, 3)


@dtype_function("aten.upsample_trilinear3d_backward.default")
def resize_volumes_backward_dtype(
    grad: tuple[int, int],
    output_size: list[int],
    input_size: list[int],
    align_corners: bool,
    scales_d: float | None,
    scales_h: float | None,
    scales_w: float | None,
) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


@shape_function("aten.upsample_nearest1d_backward.default", "aten._upsample_nearest_exact1d_backward.default")
def nearest_lines_backward_shape(
    grad: list[int], output_size: list[int], input_size: list[int], scales: float | None
) -> list[int]:
    """That of the input."""
    return _resized_backward(grad, output_size, input_size, 1)


@dtype_function("aten.upsample_nearest1d_backward.default", "aten._upsample_nearest_exact1d_backward.default")
def nearest_lines_backward_dtype(
    grad: tuple[int, int], output_size: list[int], input_size: list[int], scales: float | None
) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


@shape_function("aten._upsample_nearest_exact2d_backward.default")
def nearest_planes_backward_shape(
    grad: list[int],
    output_size: list[int],
    input_size: list[int],
    scales_h: float | None,
    scales_w: float | None,
) -> list[int]:
    """That of the input."""
    return _resized_backward(grad, output_size, input_size, 2)


@dtype_function("aten._upsample_nearest_exact2d_backward.default")
def nearest_planes_backward_dtype(
    grad: tuple[int, int],
    output_size: list[int],
    input_size: list[int],
    scales_h: float | None,
    scales_w: float | None,
) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


@shape_function("aten.upsample_nearest3d_backward.default", "aten._upsample_nearest_exact3d_backward.default")
def nearest_volumes_backward_shape(
    grad: list[int],
    output_size: list[int],
    input_size: list[int],
    scales_d: float | None,
    scales_h: float | None,
    scales_w: float | None,
) -> list[int]:
    """That of the input."""
    return _resized_backward(grad, output_size, input_size, 3)


@dtype_function("aten.upsample_nearest3d_backward.default", "aten._upsample_nearest_exact3d_backward.default")
def nearest_volumes_backward_dtype(
    grad: tuple[int, int],
    output_size: list[int],
    input_size: list[int],
    scales_d: float | None,
    scales_h: float | None,
    scales_w: float | None,
) -> int:
    """That of the gradient."""
    _, dtype = grad
    return dtype


def _assert_sampled(
    x: list[int], grid: list[int], interpolation_mode: int, padding_mode: int, spatial: int
) -> None:
    assert interpolation_mode >= 0 and interpolation_mode <= 2, "there is no such interpolation mode"
    assert padding_mode >= 0 and padding_mode <= 2, "there is no such padding mode"
    assert len(x) == spatial + 2 and len(grid) == spatial + 2, "input and grid have a batch dimension each"
    assert x[0] == grid[0], "input and grid have different batch sizes"
    assert grid[-1] == spatial, "the grid gives one coordinate per spatial dimension"
    for size in x[2:]:
        assert size > 0, "a spatial dimension of the input is empty"


@shape_function("aten.grid_sampler_3d.default")
def grid_sampler_3d_shape(
    x: list[int], grid: list[int], interpolation_mode: int, padding_mode: int, align_corners: bool
) -> list[int]:
    """One sample per point of the grid."""
    _assert_sampled(x, grid, interpolation_mode, padding_mode, 3)
    assert interpolation_mode != 2, "volumes are not interpolated bicubically"
    return x[:2] + grid[1:-1]


@dtype_function("aten.grid_sampler_3d.default")
def grid_sampler_3d_dtype(
    x: tuple[int, int],
    grid: tuple[int, int],
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> int:
    """Of input and grid alike."""
    _, dtype = x
    _, grid_dtype = grid
    return same(dtype, grid_dtype)


def _sampler_backward(
    x: list[int],
    grid: list[int],
    interpolation_mode: int,
    padding_mode: int,
    output_mask: list[bool],
    spatial: int,
) -> tuple[list[int], list[int]]:
    _assert_sampled(x, grid, interpolation_mode, padding_mode, spatial)
    assert len(output_mask) == 2, "there are two gradients"
    return x, grid


@shape_function("aten.grid_sampler_2d_backward.default")
def grid_sampler_2d_backward_shape(
    grad: list[int],
    x: list[int],
    grid: list[int],
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[list[int], list[int]]:
    """Those of input and grid. A gradient that is not asked for is no tensor; its type means nothing."""
    return _sampler_backward(x, grid, interpolation_mode, padding_mode, output_mask, 2)


@shape_function("aten.grid_sampler_3d_backward.default")
def grid_sampler_3d_backward_shape(
    grad: list[int],
    x: list[int],
    grid: list[int],
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[list[int], list[int]]:
    """Those of input and grid."""
    return _sampler_backward(x, grid, interpolation_mode, padding_mode, output_mask, 3)


@dtype_function("aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default")
def grid_sampler_backward_dtype(
    grad: tuple[int, int],
    x: tuple[int, int],
    grid: tuple[int, int],
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[int, int]:
    """Of input and grid alike."""
    _, dtype = x
    _, grid_dtype = grid
    return same(dtype, grid_dtype), grid_dtype

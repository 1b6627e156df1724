"""Models whose every size is open, by what used to fail: compiled with one set of sizes, run with others too."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import pipeline

Shapes = tuple[tuple[int, ...], ...]

IMAGES: tuple[Shapes, Shapes] = (((2, 3, 9, 8),), ((3, 2, 11, 14),))
ROWS: tuple[Shapes, Shapes] = (((4, 6),), ((7, 9),))


def _pool_gradient(x: torch.Tensor) -> torch.Tensor:
    values, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    return torch.ops.aten.max_pool2d_with_indices_backward(values, x, [3], [2], [1], [1], False, places)


def _set(x: torch.Tensor) -> torch.Tensor:
    """Written at as many pairs of places as there are rows."""
    rows = torch.arange(x.shape[0])
    return x.index_put((rows, (rows * 2) % x.shape[1]), x[:, 0] * 3)


def _short_time(x: torch.Tensor) -> torch.Tensor:
    window = torch.hann_window(8)
    spectrum = torch.stft(x, 8, 2, window=window, return_complex=True)
    return torch.istft(spectrum * 2, 8, 2, window=window)


CASES: dict[str, tuple[Callable[..., Any], tuple[Shapes, Shapes]]] = {
    # Numbers computed from sizes.
    # The function itself has a second tensor, for torch.export.
    "modulo: fftshift": (lambda x: torch.fft.fftshift(x), ROWS),  # noqa: PLW0108
    "modulo of a negative number": (lambda x: x.roll(-2, 1) + (1 - x.shape[0]) % x.shape[1], ROWS),
    "whole numbers of floats: resizing by a factor": (
        lambda x: F.interpolate(x, scale_factor=1.7),
        IMAGES,
    ),
    "a size and a tensor: reflection": (lambda x: F.pad(x, (2, 1, 0, 3), mode="reflect"), IMAGES),
    "a size minus a tensor": (lambda x: x.shape[1] - x, ROWS),
    "roots of sizes: orthonormal transforms": (lambda x: torch.fft.rfft(x, norm="ortho").abs(), ROWS),
    # Parts of open size.
    "chunk": (lambda x: torch.cat([part.sum(0) for part in x.chunk(2)]), ROWS),
    "the last place": (lambda x: x.select_scatter(x[:, 0] * 2, 1, -1), ROWS),
    "group norm": (lambda x: F.group_norm(x, 1, x[0], x[1]), ROWS),
    "parts by a size": (lambda x: x.split([x.shape[0] - 2, 2])[0] * 2, ROWS),
    # Pooling.
    "adaptive means": (lambda x: F.adaptive_avg_pool2d(x, (5, None)), IMAGES),
    "adaptive maxima": (lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True), IMAGES),
    "the gradient of maxima": (_pool_gradient, IMAGES),
    # Tensors behind barriers, whose sizes IREE did not know.
    "nonzero": (lambda x: torch.nonzero(x > 0), ROWS),
    "masked_select": (lambda x: x.masked_select(x > 0), ROWS),
    "unique": (lambda x: torch.unique((x * 2).round()), ROWS),
    "index_put of pairs": (_set, ROWS),
    "embedding bags": (lambda x: F.embedding_bag(torch.arange(4).reshape(2, 2), x, mode="sum"), ROWS),
    # Signals.
    "Fourier transform of open length": (lambda x: torch.view_as_real(torch.fft.fft(x)), ROWS),
    "Fourier transforms of columns": (lambda x: torch.fft.fft2(x, dim=(0, 1)).abs(), ROWS),
    "there and back": (_short_time, (((2, 24),), ((3, 32),))),
    "grid_sample": (
        lambda x, grid: F.grid_sample(x, grid, padding_mode="border", align_corners=False),
        (((2, 3, 5, 6), (2, 4, 7, 2)), ((3, 2, 8, 5), (3, 6, 9, 2))),
    ),
    "histogram": (lambda x: torch.histogram(x, 4, range=(-2.0, 2.0)).hist, ROWS),
    "geqrf": (lambda x: torch.geqrf(x)[0].triu().abs(), ROWS),
    # The inner size is known to be 0.
    "products over nothing": (lambda x: x[:, :0] @ x[:0], ROWS),
}


@pytest.mark.parametrize("name", CASES)
def test_every_size_open(name: str) -> None:
    function, shapes = CASES[name]
    generator = torch.Generator().manual_seed(0)
    first, second = (tuple(torch.randn(shape, generator=generator) for shape in sizes) for sizes in shapes)
    opened = tuple({dim: torch.export.Dim.AUTO for dim in range(x.dim())} for x in first)
    run = pipeline.compile(function, args=first, dynamic_shapes=opened)
    for arguments in (first, second):
        # Sums over tens of products, in other orders than eager's.
        torch.testing.assert_close(run(*arguments), function(*arguments), rtol=1e-5, atol=1e-5)


def test_maxima_of_windows_with_nan() -> None:
    """Eager names the last NaN of a window, and the first of equal maxima."""
    x = torch.tensor([[1.0, 3.0, 3.0, torch.nan, 2.0, torch.nan, 5.0, 5.0]])
    run = pipeline.compile(
        lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True),
        args=(x,),
        dynamic_shapes=({1: torch.export.Dim.AUTO},),
    )
    torch.testing.assert_close(run(x), F.adaptive_max_pool1d(x, 3, return_indices=True), equal_nan=True)

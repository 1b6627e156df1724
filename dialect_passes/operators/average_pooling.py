"""Average pooling and its gradients, one dimension after the other: sums over windows, divided at the end."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.shape_lib.helpers.pooling import pooled_size

from .registry import decomposes
from .windows import adaptive_bounds, adaptive_sum, along, padded, per_dimension, spread, strided

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def _avg_pool(
    spatial: int,
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] | None = None,
    padding: list[int] | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Sums over windows of the input, padded with zeros, over the number of elements of each."""
    pool = _Windows(spatial, x, kernel_size, stride, padding, ceil_mode)
    total = x.to(_wide(x))
    for axis in range(pool.spatial):
        total = pool.window_sum(total, axis)
    return (total / pool.divisor(total, count_include_pad, divisor_override)).to(x.dtype)


def _avg_pool_backward(
    spatial: int,
    grad: Tensor,
    x: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """Each element gets the shares of all windows that it lies in."""
    pool = _Windows(spatial, x, kernel_size, stride, padding, ceil_mode)
    wide = grad.to(_wide(x))
    shares = wide / pool.divisor(wide, count_include_pad, divisor_override)
    for axis in range(pool.spatial):
        shares = pool.window_sum_adjoint(shares, axis)
    return shares.to(x.dtype)


class _Windows:
    """The windows of one call: sizes per spatial dimension, `axis` counting from the first of them."""

    def __init__(
        self,
        spatial: int,
        x: Tensor,
        kernel: list[int],
        stride: list[int] | None,
        padding: list[int] | None,
        ceil_mode: bool,
    ) -> None:
        self.spatial = spatial
        self._first = x.dim() - self.spatial
        self._sizes = x.shape[self._first :]
        self._kernel = per_dimension(kernel, self.spatial)
        self._stride = per_dimension(stride, self.spatial) if stride else self._kernel
        self._padding = per_dimension(padding or [0], self.spatial)
        self._counts = [
            pooled_size(size, k, s, p, 1, ceil_mode)
            for size, k, s, p in zip(self._sizes, self._kernel, self._stride, self._padding, strict=True)
        ]

    def window_sum(self, x: Tensor, axis: int) -> Tensor:
        """The sums of windows along a spatial dimension."""
        dim, step, before = self._first + axis, self._stride[axis], self._padding[axis]
        # In ceil mode the last window may reach behind the padding.
        wide = padded(x, dim, before, before + step - 1, 0)
        pieces = [strided(wide, dim, k, self._counts[axis], step) for k in range(self._kernel[axis])]
        return _sum(pieces)

    def window_sum_adjoint(self, grad: Tensor, axis: int) -> Tensor:
        """Each window's value, added to all of its elements."""
        dim, step, kernel = self._first + axis, self._stride[axis], self._kernel[axis]
        wide = spread(grad, dim, step)
        size, before = self._sizes[axis], self._padding[axis]
        # Element i lies in the windows that start at i + padding - k.
        after = size + before - wide.shape[dim]
        wide = padded(wide, dim, kernel - 1, after, 0)
        return _sum([strided(wide, dim, before + kernel - 1 - k, size, 1) for k in range(kernel)])

    def divisor(self, x: Tensor, include_padding: bool, override: int | None) -> Tensor | int:
        """How many elements the windows have, those of the padding counted or not."""
        import torch

        if override is not None:
            return override
        result: Tensor | None = None
        for axis, count in enumerate(self._counts):
            size, pad = self._sizes[axis], self._padding[axis]
            start = torch.arange(count, device=x.device) * self._stride[axis] - pad
            end = (start + self._kernel[axis]).clamp(max=size + pad if include_padding else size)
            length = along(end - (start if include_padding else start.clamp(min=0)), axis, self.spatial)
            result = length if result is None else result * length
        assert result is not None
        return result.to(x.dtype)


@decomposes("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool(x: Tensor, output_size: list[int]) -> Tensor:
    """The means of windows that cover the input, as many as asked for."""
    spatial = len(output_size)
    total = x.to(_wide(x))
    for axis, count in enumerate(output_size):
        total = adaptive_sum(total, x.dim() - spatial + axis, count)
    return (total / _adaptive_divisor(x, x.shape[-spatial:], output_size)).to(x.dtype)


def _adaptive_avg_pool_backward(spatial: int, grad: Tensor, x: Tensor) -> Tensor:
    """Each element gets the shares of all windows that it lies in: the windows of a pool back to its size."""
    sizes = x.shape[-spatial:]
    shares = grad.to(_wide(x)) / _adaptive_divisor(x, sizes, grad.shape[-spatial:])
    for axis, size in enumerate(sizes):
        shares = adaptive_sum(shares, x.dim() - spatial + axis, size)
    return shares.to(x.dtype)


def _adaptive_divisor(x: Tensor, sizes: Sequence[int], counts: Sequence[int]) -> Tensor:
    result: Tensor | None = None
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        first, end = adaptive_bounds(size, count, x)
        length = along(end - first, axis, len(sizes))
        result = length if result is None else result * length
    assert result is not None
    return result.to(_wide(x))


for _spatial in (2, 3):
    decomposes(f"aten.avg_pool{_spatial}d.default")(functools.partial(_avg_pool, _spatial))
    decomposes(f"aten.avg_pool{_spatial}d_backward.default")(functools.partial(_avg_pool_backward, _spatial))
    decomposes(f"aten._adaptive_avg_pool{_spatial}d_backward.default")(
        functools.partial(_adaptive_avg_pool_backward, _spatial)
    )


def _wide(x: Tensor) -> torch.dtype:
    import torch

    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _sum(pieces: list[Tensor]) -> Tensor:
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    return total

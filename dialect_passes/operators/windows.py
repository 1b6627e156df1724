"""Windows over one dimension, and what slides over them: pooling and resampling work dimension by dimension.

No decompositions of their own: the families `max_pooling`, `average_pooling` and `interpolation` use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def per_dimension(values: list[int], spatial: int) -> list[int]:
    """One value per spatial dimension; a single one stands for all."""
    return list(values) * spatial if len(values) == 1 else list(values)


def padded(x: Tensor, dim: int, before: int, after: int, value: float | int | bool) -> Tensor:
    """`x` with `before` and `after` elements more along `dim`."""
    import torch

    pads = [0, 0] * (x.dim() - 1 - dim % x.dim()) + [before, after]
    return torch.ops.aten.constant_pad_nd.default(x, pads, value)


def strided(x: Tensor, dim: int, start: int, count: int, step: int) -> Tensor:
    """`count` elements along `dim`, every `step`-th from `start` on.

    Of an open size they are gathered: IREE fails with strided slices of it of what a convolution made.
    """
    import torch

    if step > 1 and not isinstance(x.shape[dim], int):
        return x.index_select(dim, torch.arange(count, device=x.device) * step + start)
    return torch.ops.aten.slice.Tensor(x, dim, start, start + (count - 1) * step + 1, step)


def along(vector: Tensor, dim: int, rank: int) -> Tensor:
    """A vector as a tensor of `rank` dimensions that varies along `dim`."""
    return vector.reshape([-1 if axis == dim % rank else 1 for axis in range(rank)])


def spread(x: Tensor, dim: int, step: int) -> Tensor:
    """`step` - 1 zeros between neighbours along `dim`."""
    if step == 1:
        return x
    wide = padded(x.unsqueeze(dim + 1), dim + 1, 0, step - 1, 0)
    return wide.flatten(dim, dim + 1).narrow(dim, 0, (x.shape[dim] - 1) * step + 1)


def adaptive_bounds(size: int, count: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """First element of each of `count` windows that cover `size` elements, and the first one behind it."""
    import torch

    numbers = torch.arange(count, device=x.device)
    first = torch.div(numbers * size, count, rounding_mode="floor")
    return first, torch.div((numbers + 1) * size + count - 1, count, rounding_mode="floor")


def adaptive_sum(x: Tensor, dim: int, count: int) -> Tensor:
    """The sums of `count` windows that cover `dim`. Its adjoint is the same, from `count` windows to the size."""
    size = x.shape[dim]
    if isinstance(size, int) and size == count:
        return x
    windows, inside = adaptive_windows(x, dim, count)
    return windows.masked_fill(~inside, 0).sum(dim + 1)


def adaptive_windows(x: Tensor, dim: int, count: int) -> tuple[Tensor, Tensor]:
    """`count` windows that cover `dim`, each as long as the longest, and where they are not over.

    Shorter ones hold their last element again.
    """
    import torch

    size = x.shape[dim]
    first, end = adaptive_bounds(size, count, x)
    longest = (size + count - 1) // count + 1
    places = first.unsqueeze(1) + torch.arange(longest, device=x.device)
    inside = places < end.unsqueeze(1)
    flat = torch.where(inside, places, end.unsqueeze(1) - 1).reshape(-1)
    shape = [*x.shape[:dim], count, longest, *x.shape[dim + 1 :]]
    mask = inside.reshape([1] * dim + [count, longest] + [1] * (x.dim() - dim - 1))
    return x.index_select(dim, flat).reshape(shape), mask


def scatter_rows(values: Tensor, dim: int, size: int, index: Tensor) -> Tensor:
    """Zeros of `size` elements along `dim`, with each slice of `values` added where `index` says.

    With the dimension in front, every slice is one row of a scatter, and only rows depend on each other.
    """
    rows = values.movedim(dim, 0)
    zeros = rows.new_zeros((size, *rows.shape[1:]))
    return zeros.index_put((index,), rows, accumulate=True).movedim(0, dim)

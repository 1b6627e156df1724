"""Interpolation of images of bytes, in whole numbers as eager's CPU kernels do it.

The weights of a dimension are rounded to 16 bits, with as many bits behind the point as the largest of them allows, and
each dimension's result is rounded to bytes (aten/src/ATen/native/cpu/UpSampleKernel.cpp, "multiplication trick").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from .windows import along

if TYPE_CHECKING:
    from torch import Tensor

_MOST_BITS = 22

Tap = tuple["Tensor", "Tensor"]
"""Places in the input, and weights, per result."""

_Weighted = tuple["Tensor", "Tensor | None"]


def resize_bytes(x: Tensor, counts: Sequence[int], taps: Callable[[int, int], Iterator[_Weighted]]) -> Tensor:
    """`x` with the last dimensions of the sizes `counts`, the last one first.

    taps: of the axis (0: the first that is resized) and its size in `x`, in float64.
    """
    for axis in reversed(range(len(counts))):
        dim = x.dim() - len(counts) + axis
        found = [(places, weights) for places, weights in taps(axis, x.shape[dim]) if weights is not None]
        x = _resize_dim(x, dim, found)
    return x


def _resize_dim(x: Tensor, dim: int, taps: list[Tap]) -> Tensor:
    import torch

    sums = _running_sums(taps)
    bits = _bits_behind_the_point(sums)
    # torch.ldexp is of floats.
    one = torch.bitwise_left_shift(torch.ones_like(bits), bits)
    total = (one // 2).expand(_with_size(x, dim, taps[0][0].shape[0]))
    for k, (places, _) in enumerate(taps):
        weights = _rounded(_whole(taps, sums, k) * one)
        total = total + x.index_select(dim, places).int() * along(weights, dim, x.dim())
    return torch.bitwise_right_shift(total, bits).clamp(0, 255).to(torch.uint8)


def _with_size(x: Tensor, dim: int, count: int) -> list[int]:
    return [count if axis == dim else size for axis, size in enumerate(x.shape)]


def _running_sums(taps: list[Tap]) -> list[Tensor]:
    """Taps that look at the same place, which lies at a border, are one: the sum of their weights up to each."""
    import torch

    sums: list[Tensor] = []
    for k, (places, weights) in enumerate(taps):
        same = [torch.where(taps[j][0] == places, taps[j][1], 0.0) for j in range(k)]
        sums.append(sum(same[1:], start=same[0]) + weights if same else weights)
    return sums


def _whole(taps: list[Tap], sums: list[Tensor], k: int) -> Tensor:
    """The sum up to the last tap that looks where the k-th does, if that is the k-th; else nothing."""
    import torch

    last = torch.ones_like(taps[k][0], dtype=torch.bool)
    for places, _ in taps[k + 1 :]:
        last = last & (places != taps[k][0])
    return torch.where(last, sums[k], 0.0)


def _bits_behind_the_point(sums: list[Tensor]) -> Tensor:
    """The most with which the largest weight fits into 16 bits, and at most 22."""
    import torch

    largest = torch.stack([weights.amax() for weights in sums]).amax().clamp(min=0)
    powers = 2.0 ** torch.arange(1, _MOST_BITS + 1, device=largest.device).double()
    return ((0.5 + largest * powers).floor() < 2**15).sum().int()


def _rounded(x: Tensor) -> Tensor:
    """To the nearest whole number, halves away from zero."""
    import torch

    return torch.where(x < 0, x - 0.5, x + 0.5).trunc().int()

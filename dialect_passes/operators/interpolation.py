"""Interpolation and its gradients, one dimension after the other: weighted sums of taps.

A tap is where each result looks, and with which weight. The gradient sends the same weighted values back. Places and
weights are computed as eager's CPU kernels do (aten/src/ATen/native/UpSample.h and cpu/UpSampleKernel.cpp).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .byte_interpolation import resize_bytes
from .registry import decomposes, traced_by_decomposition
from .windows import along, scatter_rows

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_Tap = tuple["Tensor", "Tensor | None"]
"""Places in the input, and weights (None: one), per result."""

_Taps = Callable[[int, int, bool, "float | None", "Tensor"], Iterator[_Tap]]
"""(size of the input, number of results, align_corners, scale, a tensor of the dtype to compute in)."""


def _resize(
    taps: _Taps, x: Tensor, output_size: list[int], align_corners: bool, *scales: float | None
) -> Tensor:
    """`x` with the last dimensions of the sizes asked for."""
    import torch

    scales = scales or (None,) * len(output_size)
    if not x.is_floating_point():
        like = torch.empty((), dtype=torch.float64, device=x.device)
        return resize_bytes(
            x,
            output_size,
            lambda axis, size: taps(size, output_size[axis], align_corners, scales[axis], like),
        )
    result = x.to(_wide(x))
    # The last dimension first, as eager's antialiasing does.
    for axis in reversed(range(len(output_size))):
        dim = x.dim() - len(output_size) + axis
        found = taps(x.shape[dim], output_size[axis], align_corners, scales[axis], result)
        result = _weighted(result, dim, found)
    return result.to(x.dtype)


def _resize_by_size_or_scale(
    name: str,
    taps: _Taps,
    x: Tensor,
    output_size: list[int] | None,
    align_corners: bool,
    scale_factors: list[float] | None,
) -> Tensor:
    """What `interpolate` calls. PyTorch decomposes it when it traces, images of bytes by formulas of floats."""
    import torch
    from torch._decomp import decomposition_table
    from torch._decomp.decompositions import upsample_compute_output_size

    if x.dtype is not torch.uint8:
        overload = getattr(torch.ops.aten, name).vec
        return decomposition_table[overload](x, output_size, align_corners, scale_factors)
    sizes: Any = upsample_compute_output_size(x.size(), output_size, scale_factors)
    return _resize(taps, x, sizes, align_corners, *(scale_factors or ()))


def _weighted(x: Tensor, dim: int, taps: Iterator[_Tap]) -> Tensor:
    total: Tensor | None = None
    for places, weights in taps:
        piece = x.index_select(dim, places)
        if weights is not None:
            piece = piece * along(weights, dim, x.dim())
        total = piece if total is None else total + piece
    assert total is not None
    return total


def _resize_backward(
    taps: _Taps,
    grad: Tensor,
    output_size: list[int],
    input_size: list[int],
    align_corners: bool,
    *scales: float | None,
) -> Tensor:
    """Every tap's share of the gradient, added where the tap looked."""
    result = grad.to(_wide(grad))
    scales = scales or (None,) * len(output_size)
    for axis, (size, scale) in enumerate(zip(input_size[2:], scales, strict=True)):
        found = taps(size, output_size[axis], align_corners, scale, result)
        result = _weighted_adjoint(result, 2 + axis, size, found)
    return result.to(grad.dtype)


def _weighted_adjoint(grad: Tensor, dim: int, size: int, taps: Iterator[_Tap]) -> Tensor:
    total: Tensor | None = None
    for places, weights in taps:
        share = grad if weights is None else grad * along(weights, dim, grad.dim())
        piece = scatter_rows(share, dim, size, places)
        total = piece if total is None else total + piece
    assert total is not None
    return total


def _wide(x: Tensor) -> torch.dtype:
    import torch

    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _step(size: int, count: int, align_corners: bool, scale: float | None) -> float:
    """How far apart in the input the places of neighbouring results are."""
    if align_corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1.0 / scale if scale is not None and scale > 0 else size / count


def _numbers(count: int, x: Tensor) -> Tensor:
    import torch

    return torch.arange(count, device=x.device).to(x.dtype)


def _sources(size: int, count: int, align_corners: bool, scale: float | None, x: Tensor) -> Tensor:
    """Where the results lie in the input, in fractions of an element."""
    step = _step(size, count, align_corners, scale)
    return _numbers(count, x) * step if align_corners else (_numbers(count, x) + 0.5) * step - 0.5


def _linear(size: int, count: int, align_corners: bool, scale: float | None, x: Tensor) -> Iterator[_Tap]:
    source = _sources(size, count, align_corners, scale, x).clamp(min=0)
    low = source.long().clamp(max=size - 1)
    fraction = (source - low).clamp(0, 1)
    yield low, 1 - fraction
    yield (low + 1).clamp(max=size - 1), fraction


def _cubic(size: int, count: int, align_corners: bool, scale: float | None, x: Tensor) -> Iterator[_Tap]:
    source = _sources(size, count, align_corners, scale, x)
    low = source.floor().clamp(max=size - 1)
    t = (source - low).clamp(0, 1)
    near, far = _keys_cubic(-0.75)
    for offset, weights in ((-1, far(t + 1)), (0, near(t)), (1, near(1 - t)), (2, far(2 - t))):
        yield (low.long() + offset).clamp(0, size - 1), weights


def _keys_cubic(a: float) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Keys' kernel for distances up to 1, and from 1 to 2."""
    return (
        lambda x: ((a + 2) * x - (a + 3)) * x * x + 1,
        lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a,
    )


def _antialiased(
    kernel: Callable[[Tensor], Tensor],
    radius: int,
    size: int,
    count: int,
    align_corners: bool,
    scale: float | None,
    x: Tensor,
) -> Iterator[_Tap]:
    """A kernel as wide as the results are apart, over the elements that it reaches, with weights that sum to one."""
    import torch

    step = _step(size, count, align_corners, scale)
    support, shrunk = (radius * step, 1 / step) if step >= 1 else (float(radius), 1.0)
    center = (_numbers(count, x) + 0.5) * step
    first = (center - support + 0.5).long().clamp(min=0)
    number = ((center + support + 0.5).long().clamp(max=size) - first).clamp(0, 2 * math.ceil(support) + 1)
    taps = []
    for k in range(2 * math.ceil(support) + 1):
        weights = kernel((first + k - center + 0.5) * shrunk)
        taps.append((torch.where(k < number, first + k, first), torch.where(k < number, weights, 0)))
    total = functools.reduce(torch.add, (weights for _, weights in taps))
    return ((places, weights / total) for places, weights in taps)


def _triangle(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def _sharp_cubic(x: Tensor) -> Tensor:
    import torch

    near, far = _keys_cubic(-0.5)
    x = x.abs()
    return torch.where(x < 1, near(x), torch.where(x < 2, far(x), 0))


def _nearest(exact: bool, size: int, count: int, scale: float | None, x: Tensor) -> Tensor:
    """Where each result looks; computed in float32 whatever the dtype, as eager does."""
    import torch

    numbers = torch.arange(count, device=x.device).float() + (0.5 if exact else 0.0)
    return (numbers * _step(size, count, False, scale)).floor().long().clamp(max=size - 1)


def _nearest_resize(exact: bool, x: Tensor, output_size: list[int], *scales: float | None) -> Tensor:
    scales = scales or (None,) * len(output_size)
    for axis, (count, scale) in enumerate(zip(output_size, scales, strict=True)):
        x = x.index_select(2 + axis, _nearest(exact, x.shape[2 + axis], count, scale, x))
    return x


def _nearest_backward(
    exact: bool, grad: Tensor, output_size: list[int], input_size: list[int], *scales: float | None
) -> Tensor:
    def taps(size: int, count: int, _: bool, scale: float | None, x: Tensor) -> Iterator[_Tap]:
        yield _nearest(exact, size, count, scale, x), None

    return _resize_backward(taps, grad, output_size, input_size, False, *scales)


_KINDS: Sequence[tuple[str, _Taps]] = (
    ("upsample_linear1d", _linear),
    ("upsample_bilinear2d", _linear),
    ("upsample_trilinear3d", _linear),
    ("upsample_bicubic2d", _cubic),
    ("_upsample_bilinear2d_aa", functools.partial(_antialiased, _triangle, 1)),
    ("_upsample_bicubic2d_aa", functools.partial(_antialiased, _sharp_cubic, 2)),
)

for _name, _taps in _KINDS:
    decomposes(f"aten.{_name}.default")(functools.partial(_resize, _taps))
    decomposes(f"aten.{_name}_backward.default")(functools.partial(_resize_backward, _taps))

for _name, _taps in (("upsample_bilinear2d", _linear), ("upsample_bicubic2d", _cubic)):
    traced_by_decomposition(f"aten.{_name}.vec")(functools.partial(_resize_by_size_or_scale, _name, _taps))

for _spatial in (1, 2, 3):
    for _name, _exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
        decomposes(f"aten.{_name}{_spatial}d.default")(functools.partial(_nearest_resize, _exact))
        decomposes(f"aten.{_name}{_spatial}d_backward.default")(functools.partial(_nearest_backward, _exact))

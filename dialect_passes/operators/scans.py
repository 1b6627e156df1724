"""Running sums, products and extremes along a dimension, and what is summed up by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

Combine = Callable[[list[Any], list[Any]], list[Any]]


@decomposes("aten.cumsum.default")
def cumsum(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The running sum, in int64 for whole numbers. Half precision is summed in f32, as eager does."""
    import torch

    return _accumulated(torch.ops.aten.cumsum.default, x, dim, dtype)


@decomposes("aten.cumprod.default")
def cumprod(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The running product, in int64 for whole numbers."""
    import torch

    return _accumulated(torch.ops.aten.cumprod.default, x, dim, dtype)


def _accumulated(scan: Callable[..., Tensor], x: Tensor, dim: int, dtype: Any) -> Tensor:
    """torch-mlir knows both without `dtype`, of tensors with dimensions, and of wide types."""
    import torch

    integral = not (x.is_floating_point() or x.is_complex())
    result = dtype or (torch.int64 if integral else x.dtype)
    wide = _wide(result)
    if x.dim() == 0:
        return x.to(result).clone()
    if x.dtype == wide == result and dtype is None:
        return NotImplemented
    return scan(x.to(result).to(wide), dim).to(result)


def _wide(dtype: Any) -> Any:
    import torch

    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.int64


@decomposes("aten.cummax.default")
def cummax(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest so far and its last place; from the first NaN on NaN."""
    return _running_extreme(x, dim, largest=True)


@decomposes("aten.cummin.default")
def cummin(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The smallest so far and its last place; from the first NaN on NaN."""
    return _running_extreme(x, dim, largest=False)


def _running_extreme(x: Tensor, dim: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    import torch

    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    places = torch.arange(x.shape[dim], device=x.device)
    places = places.reshape([-1 if d == dim % x.dim() else 1 for d in range(x.dim())]).expand(x.shape)
    narrow = x.to(torch.int32) if x.dtype == torch.bool else x

    def later(before: list[Tensor], now: list[Tensor]) -> list[Tensor]:
        (a, i), (b, j) = before, now
        wins = b >= a if largest else b <= a
        if x.is_floating_point():
            wins = (wins & ~torch.isnan(a)) | torch.isnan(b)
        return [torch.where(wins, b, a), torch.where(wins, j, i)]

    if isinstance(x.shape[dim], int):
        values, indices = scan([narrow, places], dim, later)
    else:
        values, indices = _extremes_of_prefixes(narrow, dim, largest)
    return values.to(x.dtype), indices


def _extremes_of_prefixes(x: Tensor, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Each place compared with all before it: for sizes that are not known."""
    import torch

    rows = x.movedim(dim, -1).unsqueeze(-2)
    before = _before(x.shape[dim], x.device)
    if x.is_floating_point():
        worst = float("-inf") if largest else float("inf")
    else:
        limits = torch.iinfo(x.dtype)
        worst = limits.min if largest else limits.max
    reached = torch.where(before, rows, torch.full((), worst, dtype=x.dtype, device=x.device))
    values = reached.amax(-1) if largest else reached.amin(-1)
    hit = before & ((rows == values.unsqueeze(-1)) | torch.isnan(rows))
    places = torch.arange(x.shape[dim], device=x.device)
    indices = torch.where(hit, places, torch.full((), -1, dtype=torch.int64, device=x.device)).amax(-1)
    return values.movedim(-1, dim), indices.movedim(-1, dim)


def _before(size: Any, device: Any) -> Tensor:
    """[i, j]: whether place j is no later than i."""
    import torch

    places = torch.arange(size, device=device)
    return places.unsqueeze(0) <= places.unsqueeze(1)


def scan(xs: list[Tensor], dim: int, combine: Combine) -> list[Tensor]:
    """Combines all up to each place, in log2(n) steps of which each doubles the reach (Hillis and Steele).

    `combine` must be associative, and the size of `dim` be known.
    """
    import torch

    size = xs[0].shape[dim]
    reach = 1
    slice_ = torch.ops.aten.slice.Tensor
    while reach < size:
        before = [slice_(x, dim, 0, size - reach) for x in xs]
        now = [slice_(x, dim, reach, size) for x in xs]
        both = combine(before, now)
        xs = [torch.cat([slice_(x, dim, 0, reach), y], dim) for x, y in zip(xs, both, strict=True)]
        reach *= 2
    return xs


@decomposes("aten.logcumsumexp.default")
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """log of the running sum of exp: of two sums the larger plus log1p(exp(-distance))."""
    import torch

    if x.is_complex():
        return NotImplemented
    if x.dim() == 0:
        return x.clone()
    wide = x.to(_wide(x.dtype))

    def add(before: list[Tensor], now: list[Tensor]) -> list[Tensor]:
        (a,), (b,) = before, now
        larger, smaller = torch.maximum(a, b), torch.minimum(a, b)
        apart = (larger != smaller) | (larger.abs() < float("inf"))
        return [torch.where(apart, larger + torch.log1p(torch.exp(smaller - larger)), larger)]

    if isinstance(x.shape[dim], int):
        return scan([wide], dim, add)[0].to(x.dtype)
    nothing = torch.full((), float("-inf"), dtype=wide.dtype, device=x.device)
    prefixes = torch.where(_before(x.shape[dim], x.device), wide.movedim(dim, -1).unsqueeze(-2), nothing)
    return torch.logsumexp(prefixes, -1).movedim(-1, dim).to(x.dtype)

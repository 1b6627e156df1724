"""Variance and standard deviation in two passes, in the precision that eager computes them in.

torch-mlir computes them in f64 whatever the input, which is slow and which many GPUs cannot do. LayerNorm,
BatchNorm, GroupNorm and InstanceNorm all come down to ``var_mean``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


@decomposes("aten.var_mean.correction")
def var_mean(
    x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim` (None or empty: all), of the input's dtype."""
    import torch

    if x.is_complex():
        return NotImplemented
    dims = list(dim) if dim else list(range(x.dim()))
    half = x.dtype in (torch.float16, torch.bfloat16)
    wide = x.float() if half else x
    mean = wide.mean(dims, keepdim=True) if dims else wide
    deviation = wide - mean
    variance = _averaged(deviation * deviation, dims, 1.0 if correction is None else correction)
    if not keepdim and dims:
        mean, variance = mean.squeeze(dims), variance.squeeze(dims)
    return (variance.to(x.dtype), mean.to(x.dtype)) if half else (variance, mean)


def _averaged(squares: Tensor, dims: list[int], correction: float) -> Tensor:
    """The sum over `dims` by the number of elements less `correction`; by zero where that is negative."""
    import torch

    if correction == 0 and dims:
        return squares.mean(dims, keepdim=True)
    count: Any = 1
    for dim in dims:
        count = count * squares.shape[dim]
    total = squares.sum(dims, keepdim=True) if dims else squares
    if isinstance(count, int):
        return total / max(count - correction, 0)
    # A symbolic count becomes a tensor: the importer has no arithmetic on symbolic floats.
    divisor = torch.scalar_tensor(count, dtype=squares.dtype, device=squares.device) - correction
    return total / divisor.clamp(min=0)


@decomposes("aten.var.correction")
def var(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """The variance alone."""
    import torch

    return torch.var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


@decomposes("aten.std.correction")
def std(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """The standard deviation; for f16 and bf16 the root is taken before rounding, as eager does."""
    import torch

    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    root = torch.var_mean(wide, dim, correction=correction, keepdim=keepdim)[0].sqrt()
    return root if wide is x else root.to(x.dtype)


@decomposes("aten.std_mean.correction")
def std_mean(
    x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean."""
    import torch

    mean = torch.var_mean(x, dim, correction=correction, keepdim=keepdim)[1]
    return torch.std(x, dim, correction=correction, keepdim=keepdim), mean

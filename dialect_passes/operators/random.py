"""Sampling, from the few draws that the runtime makes before a call: each draws what eager on the CPU draws.

The draws left here (``bernoulli.p``, ``rand``, ``exponential``, ...) depend on shapes and numbers only, so
they can be made outside of the graph; what depends on tensor values is computed from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import decomposes, keeps

if TYPE_CHECKING:
    from torch import Tensor

# torch's decompositions of these draw other numbers than eager does.
keeps(
    "aten.bernoulli.p",
    "aten.uniform.default",
    "aten.normal_functional.default",
    "aten.normal.float_float",
    "aten.rand_like.default",
    "aten.randn_like.default",
    "aten.randint.default",
    "aten.exponential.default",
    "aten.log_normal.default",
    "aten.cauchy.default",
    "aten.geometric.default",
)


@decomposes("aten.native_dropout.default")
def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Zeros with probability p, the rest scaled by 1 / (1 - p); and the mask of what was kept."""
    import torch

    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        # Eager's dropout draws nothing here; x * 0 keeps NaN, as eager does.
        return x * 0, torch.zeros_like(x, dtype=torch.bool)
    kept = torch.ops.aten.bernoulli.p(torch.empty_like(x), 1 - p)
    return x * (kept / (1 - p)), kept.to(torch.bool)


@decomposes("aten.bernoulli.default")
def bernoulli(p: Tensor) -> Tensor:
    """1 with the probability that each element gives; eager compares with f32 draws unless p is f64."""
    import torch

    wide = torch.float64 if p.dtype == torch.float64 else torch.float32
    return (torch.rand(p.shape, dtype=wide, device=p.device) < p).to(p.dtype)


@decomposes("aten.normal.Tensor_float")
def normal_of_means(mean: Tensor, std: float = 1.0) -> Tensor:
    """A normal draw per element of `mean`."""
    import torch

    return torch.randn_like(mean) * std + mean


@decomposes("aten.normal.float_Tensor")
def normal_of_deviations(mean: float, std: Tensor) -> Tensor:
    """A normal draw per element of `std`."""
    import torch

    return torch.randn_like(std) * std + mean


@decomposes("aten.normal.Tensor_Tensor")
def normal_of_both(mean: Tensor, std: Tensor) -> Tensor:
    """A normal draw per element of `mean` and `std`, broadcast."""
    import torch

    return torch.randn_like(mean + std) * std + mean


@decomposes("aten.multinomial.default")
def multinomial(weights: Tensor, count: int, replacement: bool = False) -> Tensor:
    """`count` indices per row, drawn by weight. Weights that are no distribution are not detected.

    With replacement: the first index whose cumulative share reaches a uniform draw. Without: the largest
    of weight / exponential draw.
    """
    import torch

    if not replacement or count == 1:
        ranked = weights / torch.ops.aten.exponential.default(torch.empty_like(weights))
        return ranked.argmax(-1, keepdim=True) if count == 1 else torch.topk(ranked, count, -1).indices
    wide = weights if weights.dtype == torch.float64 else weights.float()
    shares = wide.cumsum(-1)
    shares = (shares / shares[..., -1:]).unsqueeze(-2)
    draws = torch.rand((*weights.shape[:-1], count, 1), dtype=torch.float64, device=weights.device)
    return (shares < draws).sum(-1)

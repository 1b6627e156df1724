"""Sums, means and maxima of bags of embeddings, and their gradients; embeddings of bounded length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor

_SUM, _MEAN, _MAX = 0, 1, 2


@decomposes("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One row per bag; the bag of each index, the bags' sizes and which indices were the largest, for backward."""
    import torch

    count = offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]
    bags = _bags(indices, offsets[:count])
    kept = indices != padding_idx
    sizes = indices.new_zeros((count,)).index_put((bags,), kept.to(indices.dtype), accumulate=True)
    rows = weight.index_select(0, indices)
    if mode == _MAX:
        out, largest = _maxima(rows, indices, bags, kept, count)
        return out, bags, sizes, largest
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    rows = rows.masked_fill(~kept.unsqueeze(1), 0)
    out = rows.new_zeros((count, weight.shape[1])).index_put((bags,), rows, accumulate=True)
    if mode == _MEAN:
        out = out / sizes.clamp(min=1).unsqueeze(1).to(out.dtype)
    return out, bags, sizes, torch.zeros_like(sizes)


def _bags(indices: Tensor, offsets: Tensor) -> Tensor:
    """The bag of each index: as many as start before or at it, less one."""
    import torch

    numbers = torch.arange(indices.shape[0], device=indices.device).unsqueeze(1)
    return (numbers >= offsets).sum(1) - 1


def _maxima(rows: Tensor, indices: Tensor, bags: Tensor, kept: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Nothing is in an empty bag."""
    import torch

    members = (bags == torch.arange(count, device=bags.device).unsqueeze(1)) & kept
    empty = ~members.any(1, keepdim=True)
    wide = torch.where(members.unsqueeze(2), rows, -math.inf)
    largest = indices.index_select(0, wide.argmax(1).reshape(-1)).reshape(count, rows.shape[1])
    return wide.amax(1).masked_fill(empty, 0), largest.masked_fill(empty, 0)


@decomposes("aten._embedding_bag_backward.default")
def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """Dense only."""
    if sparse:
        return NotImplemented
    bags = _bags(indices, offsets)
    options = num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx
    return embedding_bag_dense_backward(grad, indices, bags, bag_size, maximum_indices, *options)


@decomposes("aten._embedding_bag_dense_backward.default")
def embedding_bag_dense_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    """Each index gets its share of its bag's gradient."""
    zeros = grad.new_zeros((num_weights, grad.shape[1]))
    if mode == _MAX:
        return zeros.scatter_add(0, maximum_indices, grad.masked_fill((bag_size == 0).unsqueeze(1), 0))
    rows = grad.index_select(0, offset2bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    if mode == _MEAN:
        rows = rows / bag_size.index_select(0, offset2bag).clamp(min=1).unsqueeze(1)
    if scale_grad_by_freq:
        rows = rows / _frequencies(indices, num_weights).index_select(0, indices).unsqueeze(1)
    rows = rows.masked_fill((indices == padding_idx).unsqueeze(1), 0)
    return zeros.index_put((indices,), rows, accumulate=True)


def _frequencies(indices: Tensor, count: int) -> Tensor:
    """What eager divides by for each embedding: for the n-th that occurs, how often the n-th smallest index does."""
    ones = indices.new_ones(indices.shape)
    counts = indices.new_zeros((count,)).index_put((indices,), ones, accumulate=True)
    order = (counts > 0).cumsum(0) - 1
    smallest = (counts.cumsum(0) <= order.unsqueeze(1)).sum(1)
    return counts.index_select(0, smallest.clamp(max=count - 1))


@decomposes("aten._embedding_bag_per_sample_weights_backward.default")
def per_sample_weights_backward(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    """The product of each index's embedding with the gradient of its bag."""
    rows = grad.index_select(0, _bags(indices, offsets))
    products = (rows * weight.index_select(0, indices)).sum(1)
    return products.masked_fill(indices == padding_idx, 0)


@decomposes("aten.embedding_renorm.default")
def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that are looked up, scaled down to `max_norm` where they are longer; eager adds 1e-7 to their length."""
    import torch

    length = torch.linalg.vector_norm(weight, norm_type, 1, keepdim=True)
    index = indices.reshape(-1)
    ones = index.new_ones(index.shape)
    counted = index.new_zeros((weight.shape[0],)).index_put((index,), ones, accumulate=True) > 0
    scaled = counted.unsqueeze(1) & (length > max_norm)
    return torch.where(scaled, weight * (max_norm / (length + 1e-7)), weight)


@decomposes("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """Each row of the gradient is added to the embedding that was looked up, be it by a single number."""
    width, index = grad.shape[-1], indices.reshape(-1)
    rows = grad.reshape(-1, width)
    if scale_grad_by_freq:
        ones = index.new_ones(index.shape)
        counts = index.new_zeros((num_weights,)).index_put((index,), ones, accumulate=True)
        rows = rows / counts.index_select(0, index).unsqueeze(1)
    rows = rows.masked_fill((index == padding_idx).unsqueeze(1), 0)
    return grad.new_zeros((num_weights, width)).index_put((index,), rows, accumulate=True)

"""Sorting long rows: merging in loops on the CPU. Elsewhere by rank, which takes n² comparisons, but all at once."""

from __future__ import annotations

import torch
from torch import Tensor

from ..custom_operators.declaration import op
from ..loops.functions import isnan
from ..loops.lowering import loops


@op("pipeline::stable_order", gradient="none")
def stable_order(keys: Tensor, descending: bool) -> tuple[Tensor, Tensor]:
    """For each place of the sorted rows of [batch, n], where its element was: int32; NaN is the largest.

    The second result is memory that the loop needs.
    """
    from .ordering import order_by_rank

    order = order_by_rank(keys, descending).to(torch.int32)
    return order, order.clone()


@loops(stable_order, targets=("cpu",))
def merge_sort(keys, descending, order, spare):
    """Runs of twice the length at each step, until one run is all."""
    n = keys.shape[0]
    for i in range(n):
        order[i] = i
    width = 1
    while width < n:
        first = 0
        while first < n:
            _merge(keys, descending, order, spare, first, min(first + width, n), min(first + 2 * width, n))
            first = first + 2 * width
        for i in range(n):
            order[i] = spare[i]
        width = 2 * width


def _merge(keys, descending, order, spare, first, middle, end):
    """The sorted runs [first, middle) and [middle, end); of equal elements the left one is first."""
    left = first
    right = middle
    for k in range(first, end):
        takes_right = left >= middle
        if left < middle and right < end:
            takes_right = _goes_before(keys[order[right]], keys[order[left]], descending)
        if takes_right:
            spare[k] = order[right]
            right = right + 1
        else:
            spare[k] = order[left]
            left = left + 1


def _goes_before(a, b, descending):
    """Whether `a` must stand before `b`."""
    result = False
    if descending:
        result = a > b or (isnan(a) and not isnan(b))
    else:
        result = a < b or (isnan(b) and not isnan(a))
    return result

"""Dimensions that a reduction takes away."""

from __future__ import annotations

from .dims import all_dims, contains, wrap_dim, wrap_dims


def reduced(shape: list[int], dims: list[int], keepdim: bool) -> list[int]:
    """`shape` less `dims` (counted from the front), which stay as 1 with `keepdim`."""
    result: list[int] = []
    for i in range(len(shape)):
        if contains(dims, i):
            if keepdim:
                result.append(1)
        else:
            result.append(shape[i])
    return result


def over(shape: list[int], dims: list[int] | None, keepdim: bool) -> list[int]:
    """A reduction over `dims`; None and an empty list mean all."""
    wrapped = all_dims(len(shape))
    if dims is not None:
        if len(dims) > 0:
            wrapped = wrap_dims(dims, len(shape))
    return reduced(shape, wrapped, keepdim)


def over_one(shape: list[int], dim: int, keepdim: bool) -> list[int]:
    """A reduction over one dimension."""
    return reduced(shape, [wrap_dim(dim, len(shape))], keepdim)


def picked(shape: list[int], dim: int, keepdim: bool) -> list[int]:
    """A reduction that picks an element, which an empty dimension does not have."""
    wrapped = wrap_dim(dim, len(shape))
    if len(shape) > 0:
        assert shape[wrapped] != 0, "there is no element along the dimension to pick"
    return reduced(shape, [wrapped], keepdim)

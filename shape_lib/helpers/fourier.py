"""Sizes of discrete Fourier transforms."""

from __future__ import annotations

from .dims import all_dims, with_size, wrap_dim, wrap_dims


def transform_dims(rank: int, sizes: list[int] | None, dims: list[int] | None) -> list[int]:
    """The transformed dimensions: those given, or else the last len(sizes), or else all."""
    if dims is not None:
        if sizes is not None:
            assert len(sizes) == len(dims), "one size per transformed dimension"
        assert rank > 0 or len(dims) == 0, "a 0-d tensor has nothing to transform"
        return wrap_dims(dims, rank)
    if sizes is None:
        return all_dims(rank)
    assert len(sizes) <= rank, "more sizes than dimensions"
    result: list[int] = []
    for i in range(len(sizes)):
        result.append(rank - len(sizes) + i)
    return result


def resized(shape: list[int], sizes: list[int] | None, dims: list[int]) -> list[int]:
    """`shape` cut or padded to `sizes` along `dims`; -1 keeps a size."""
    result = shape
    if sizes is not None:
        for i in range(len(dims)):
            if sizes[i] != -1:
                result = with_size(result, dims[i], sizes[i])
    for dim in dims:
        assert result[dim] >= 1, "a transform needs at least one point"
    return result


def last_size(sizes: list[int] | None, default: int) -> int:
    """The size given for the last transformed dimension, or else `default`."""
    if sizes is not None:
        if sizes[-1] != -1:
            return sizes[-1]
    return default


def transformed(shape: list[int], size: int | None, dim: int) -> list[int]:
    """One dimension, cut or padded to `size`."""
    assert len(shape) > 0, "a 0-d tensor has nothing to transform"
    wrapped = wrap_dim(dim, len(shape))
    result = shape
    if size is not None:
        result = with_size(shape, wrapped, size)
    assert result[wrapped] >= 1, "a transform needs at least one point"
    return result


def halved(shape: list[int], dim: int) -> list[int]:
    """The half of a real signal's spectrum that is stored: n // 2 + 1 points along `dim`."""
    return with_size(shape, dim, shape[dim] // 2 + 1)

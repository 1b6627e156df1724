"""A user's shape library, for the tests of refine-shapes."""

from pipeline.shape_lib.dtypes import int64
from pipeline.shape_lib.registry import dtype_function, shape_function


def padded(size: int, to: int) -> int:
    return (size + to - 1) // to * to


@shape_function("mylib::pad_and_count")
def pad_and_count_shape(x: list[int], to: list[int], mask: list[int] | None) -> tuple[list[int], list[int]]:
    assert len(to) == len(x), "one number for each dimension"
    out: list[int] = []
    for i, size in enumerate(x):
        out.append(padded(size, to[i]))
    return out, out[:-1] if mask is None else mask


@dtype_function("mylib::pad_and_count")
def pad_and_count_dtype(x: tuple[int, int], to: list[int], mask: tuple[int, int] | None) -> tuple[int, int]:
    _, dtype = x
    return dtype, int64

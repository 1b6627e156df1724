"""Products of matrices and vectors beyond matmul."""

from __future__ import annotations

from pipeline.shape_lib.helpers.broadcasting import broadcast
from pipeline.shape_lib.helpers.promotion import same
from pipeline.shape_lib.helpers.reduction import reduced
from pipeline.shape_lib.registry import dtype_function, shape_function


@shape_function("aten.addmv.default")
def addmv_shape(x: list[int], matrix: list[int], vector: list[int], beta: float, alpha: float) -> list[int]:
    """One element per row."""
    assert len(matrix) == 2 and len(vector) == 1, "a matrix and a vector are needed"
    assert matrix[1] == vector[0], "matrix and vector cannot be multiplied"
    assert len(x) <= 1, "what is added is a vector"
    assert len(x) == 0 or x[0] == matrix[0] or x[0] == 1, "what is added does not fit the product"
    return [matrix[0]]


@dtype_function("aten.addmv.default")
def addmv_dtype(
    x: tuple[int, int],
    matrix: tuple[int, int],
    vector: tuple[int, int],
    beta: int | float,
    alpha: int | float,
) -> int:
    """Of all three alike."""
    _, dtype = x
    _, matrix_dtype = matrix
    _, vector_dtype = vector
    return same(same(dtype, matrix_dtype), vector_dtype)


def _with_ones(shape: list[int], places: list[int]) -> list[int]:
    """`shape` with a size of 1 put in before each of `places`, in order."""
    result = shape
    for place in places:
        assert place <= len(result), "a place for a size of 1 is out of range"
        result = result[:place] + [1] + result[place:]
    return result


# torch-mlir's own shape function gives up on this one.
@shape_function("aten._trilinear.default")
def trilinear_shape(
    a: list[int],
    b: list[int],
    c: list[int],
    expand_a: list[int],
    expand_b: list[int],
    expand_c: list[int],
    sumdim: list[int],
    unroll_dim: int,
) -> list[int]:
    """The product of all three with ones put in where they say, summed over `sumdim`."""
    product = broadcast(_with_ones(a, expand_a), _with_ones(b, expand_b))
    product = broadcast(product, _with_ones(c, expand_c))
    assert unroll_dim >= 0 and unroll_dim < len(product), "unroll_dim is out of range"
    return reduced(product, sumdim, False)


@dtype_function("aten._trilinear.default")
def trilinear_dtype(
    a: tuple[int, int],
    b: tuple[int, int],
    c: tuple[int, int],
    expand_a: list[int],
    expand_b: list[int],
    expand_c: list[int],
    sumdim: list[int],
    unroll_dim: int,
) -> int:
    """Of all three alike."""
    _, a_dtype = a
    _, b_dtype = b
    _, c_dtype = c
    return same(same(a_dtype, b_dtype), c_dtype)

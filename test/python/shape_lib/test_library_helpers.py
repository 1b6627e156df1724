"""The shape helpers against PyTorch, over grids of arguments: the same shape, or an error where PyTorch raises."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pipeline.shape_lib.helpers import (
    broadcasting,
    convolution,
    dims,
    fourier,
    indexing,
    matrices,
    pooling,
    promotion,
    reduction,
)

REFUSED = "refused"


def of_helper(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except AssertionError as error:
        assert str(error), "a check without a message"
        return REFUSED


def of_torch(function: Callable[..., torch.Tensor], *args: Any) -> Any:
    try:
        return list(function(*args).shape)
    except (RuntimeError, IndexError, ValueError):
        return REFUSED


def meta(shape: Sequence[int]) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def agree(cases: Iterator[tuple[Any, Any, str]]) -> None:
    """Every (helper's, torch's, description) agrees, and both kinds occur: shapes and refusals."""
    found = list(cases)
    assert [case for case in found if case[0] != case[1]] == []
    assert {case[1] == REFUSED for case in found} == {True, False}


SHAPES = [(), (1,), (2,), (3,), (2, 3), (1, 3), (3, 1), (0,), (2, 0), (1, 2, 3), (4, 2, 1)]


def test_broadcast() -> None:
    agree(
        (
            of_helper(broadcasting.broadcast, list(a), list(b)),
            of_torch(lambda x, y: x + y, meta(a), meta(b)),
            f"{a} {b}",
        )
        for a, b in itertools.product(SHAPES, repeat=2)
    )


def test_broadcast_all() -> None:
    for shapes in itertools.product(SHAPES[:7], repeat=3):
        expected = of_torch(lambda *s: torch.empty(torch.broadcast_shapes(*s), device="meta"), *shapes)
        assert of_helper(broadcasting.broadcast_all, [list(s) for s in shapes]) == expected, shapes


def test_expand() -> None:
    def expanded(shape: list[int], target: list[int]) -> list[int]:
        broadcasting.assert_expandable(shape, target)
        return target

    agree(
        (
            of_helper(expanded, list(a), list(b)),
            of_torch(lambda x, s: x.expand(s), meta(a), b),
            f"{a} {b}",
        )
        for a, b in itertools.product(SHAPES, repeat=2)
    )


def convolution_cases(rank: int) -> Iterator[tuple[Any, ...]]:
    """Argument lists for aten.convolution over `rank` spatial dimensions, one in many of the whole grid."""
    grid = itertools.product(
        (0, 1, 5, 8),  # size
        (1, 3),  # kernel
        (1, 2, 0),  # stride
        (0, 2, -1),  # padding
        (1, 2),  # dilation
        (False, True),  # transposed
        (0, 1, 2),  # output padding
        (1, 2),  # groups
        (True, False),  # batched
    )
    for size, kernel, stride, padding, dilation, transposed, extra, groups, batched in grid:
        x = [*([2] if batched else []), 4, *[size] * rank]
        weight = [4, 3, *[kernel] * rank] if transposed else [6, 4 // groups, *[kernel] * rank]
        bias = [weight[1] * groups if transposed else 6]
        lists = [[value] * rank for value in (stride, padding, dilation, extra)]
        yield x, weight, bias, *lists[:3], transposed, lists[3], groups


@pytest.mark.parametrize("rank", [1, 2])
def test_convolution(rank: int) -> None:
    def real(x: Any, weight: Any, bias: Any, *rest: Any) -> torch.Tensor:
        return torch.ops.aten.convolution.default(torch.ones(x), torch.ones(weight), torch.ones(bias), *rest)

    cases = list(convolution_cases(rank))[:: 1 if rank == 1 else 7]
    agree((of_helper(convolution.convolution, *args), of_torch(real, *args), str(args)) for args in cases)


@pytest.mark.parametrize(
    "args",
    [
        ([2, 4, 8], [6, 3, 3], None, [1], [0], [1], False, [0], 1),
        ([2, 4, 8], [6, 4, 3], [5], [1], [0], [1], False, [0], 1),
        ([2, 4, 8], [6, 2, 3], None, [1], [0], [1], False, [0], 3),
        ([2, 4], [6, 4], None, [1], [0], [1], False, [0], 1),
        ([2, 4, 8, 8], [6, 4, 3, 3], None, [1], [0], [1], False, [0], 1),
        ([2, 4, 8, 8], [6, 4, 3, 3], None, [1, 1, 1], [0], [1], False, [0], 1),
        ([0, 4, 8], [6, 4, 3], None, [1], [0], [1], False, [0], 1),
        ([2, 4, 8], [6, 4, 3], None, [1], [0], [1], False, [0], 0),
        ([2, 4, 8], [4, 3, 3], None, [2], [1], [2], True, [1], 4),
    ],
)
def test_convolution_that_fits_badly(args: tuple[Any, ...]) -> None:
    x, weight, bias, *rest = args
    tensors = [torch.ones(x), torch.ones(weight), None if bias is None else torch.ones(bias)]
    expected = of_torch(torch.ops.aten.convolution.default, *tensors, *rest)
    assert of_helper(convolution.convolution, *args) == expected


def pool_cases() -> Iterator[tuple[Any, ...]]:
    """(input, kernel, stride, padding, dilation, ceil_mode) over one dimension."""
    yield from itertools.product(
        ([2, 3, 1], [2, 3, 7], [3, 8], [0, 3, 5], [2, 0, 5], [2, 3, 0]),
        ([1], [2], [3], [0]),
        ([], [1], [2], [3]),
        ([0], [1], [2]),
        ([1], [2]),
        (False, True),
    )


def test_max_pool() -> None:
    agree(
        (
            of_helper(pooling.pooled, *args, 1),
            of_torch(lambda x, *rest: F.max_pool1d(torch.ones(x), *rest), *args),
            str(args),
        )
        for args in pool_cases()
        # Windows of empty batches and zero strides are refused one kernel earlier or later in PyTorch.
        if 0 not in args[0]
    )


def test_average_pool() -> None:
    def real(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any) -> torch.Tensor:
        return torch.ops.aten.avg_pool2d.default(torch.ones([*x, 4]), [*kernel, 2], [*stride, 1] if stride else [],
                                                 [*padding, 0], ceil_mode)  # fmt: skip

    def ours(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any) -> Any:
        stride = [*stride, 1] if stride else []
        return pooling.pooled([*x, 4], [*kernel, 2], stride, [*padding, 0], [1], ceil_mode, 2)

    cases = [args for args in pool_cases() if args[4] == [1]]
    agree((of_helper(ours, *args), of_torch(real, *args), str(args)) for args in cases)


def test_adaptive_pool() -> None:
    shapes = ([2, 3, 5, 6, 7], [3, 5, 6, 7], [2, 3, 0, 6, 7], [0, 3, 5, 6, 7], [5, 6, 7], [2, 0, 5, 6, 7])
    outputs = ([2, 3, 4], [1, 1, 1], [0, 2, 2], [2, 2], [-1, 2, 2])
    agree(
        (
            of_helper(pooling.adaptive, x, output, 3),
            of_torch(torch.ops.aten._adaptive_avg_pool3d.default, torch.ones(x), output),
            f"{x} {output}",
        )
        for x, output in itertools.product(shapes, outputs)
        # PyTorch takes a negative size where the input is empty.
        if not (0 in x and -1 in output)
    )


@pytest.mark.parametrize("keepdim", [False, True])
def test_reduction(keepdim: bool) -> None:
    given = (None, [], [0], [-1], [0, 1], [1, 0], [0, 0], [0, -2], [2], [-3], [3])
    agree(
        (
            of_helper(reduction.over, list(shape), axes, keepdim),
            of_torch(lambda x, d: torch.sum(x, d, keepdim), meta(shape), axes),
            f"{shape} {axes}",
        )
        for shape, axes in itertools.product(SHAPES, given)
    )


@pytest.mark.parametrize("keepdim", [False, True])
def test_reduction_that_picks(keepdim: bool) -> None:
    agree(
        (
            of_helper(reduction.picked, list(shape), dim, keepdim),
            of_torch(lambda x, d: torch.mode(x, d, keepdim).values, torch.ones(shape), dim),
            f"{shape} {dim}",
        )
        for shape, dim in itertools.product(SHAPES, range(-4, 4))
    )


def test_slices() -> None:
    positions = (None, -9, -3, -1, 0, 1, 4, 9)
    agree(
        (
            of_helper(indexing.sliced_size, size, start, end, step),
            _only(of_torch(torch.ops.aten.slice.Tensor, meta([size]), 0, start, end, step)),
            f"{size} {start}:{end}:{step}",
        )
        for size, start, end, step in itertools.product((0, 1, 5), positions, positions, (1, 2, 7, 0, -1))
    )


def _only(shape: Any) -> Any:
    return shape if shape == REFUSED else shape[0]


def test_diagonals() -> None:
    for rows, columns, offset in itertools.product((0, 1, 3, 5), (0, 1, 4), range(-6, 7)):
        expected = torch.diagonal(meta([rows, columns]), offset).shape[0]
        assert indexing.diagonal_size(rows, columns, offset) == expected, (rows, columns, offset)


def test_views() -> None:
    sizes = ([], [-1], [6], [2, 3], [3, -1], [-1, -1], [0, -1], [-2, 3], [4, -1], [1, 0], [0])
    agree(
        (
            of_helper(dims.inferred_sizes, list(shape), size),
            of_torch(lambda x, s: x.view(s), torch.ones(shape), size),
            f"{shape} {size}",
        )
        for shape, size in itertools.product(SHAPES, sizes)
    )


def test_scatter() -> None:
    def scattered(x: list[int], dim: int, index: list[int], source: list[int]) -> list[int]:
        indexing.assert_scatter(x, dim, index, source)
        return x

    shapes = [(), (1,), (3,), (2, 3), (3, 2), (2, 0)]
    agree(
        (
            of_helper(scattered, list(x), dim, list(index), list(source)),
            of_torch(
                torch.scatter, torch.ones(x), dim, torch.zeros(index, dtype=torch.int64), torch.ones(source)
            ),
            f"{x} {dim} {index} {source}",
        )
        for x, dim, index, source in itertools.product(shapes, (-2, 0, 1), shapes, shapes)
        # An index into a dimension without elements is an error of its value.
        if 0 not in x or 0 in index
    )


def test_transforms() -> None:
    sizes = (None, [3], [2, 4], [-1], [0], [2, 2, 2, 2])
    axes = (None, [0], [-1], [0, 1], [1, 1], [5], [])
    agree(
        (
            of_helper(
                lambda x, s, d: fourier.resized(x, s, fourier.transform_dims(len(x), s, d)), list(x), s, d
            ),
            of_torch(torch.fft.fftn, torch.ones(x), s, d),
            f"{x} {s} {d}",
        )
        # MKL, which does these on the CPU, refuses empty batches; others take them.
        for x, s, d in itertools.product([(), (3,), (2, 3), (2, 3, 4)], sizes, axes)
    )


def test_solved() -> None:
    agree(
        (
            of_helper(matrices.solved, a, b, left),
            of_torch(
                lambda a, b, left: torch.linalg.solve_triangular(
                    torch.ones(a), torch.ones(b), upper=True, left=left
                ),
                a,
                b,
                left,
            ),
            f"{a} {b} {left}",
        )
        for a, b, left in itertools.product(
            ([3, 3], [2, 3, 3], [3], [2, 3], [5, 1, 3, 3]),
            ([3, 4], [4, 3], [2, 3, 4], [3], [7, 3, 4], [2, 4, 3]),
            (True, False),
        )
    )


@pytest.mark.parametrize(
    "dtype", [d for d in promotion.dtypes.CODES if hasattr(torch, d) and "float8" not in d]
)
def test_dtypes_of_results(dtype: str) -> None:
    codes = promotion.dtypes.CODES
    own = getattr(torch, dtype)
    assert (promotion.inexact(codes[dtype]) == codes[dtype]) == (own.is_floating_point or own.is_complex)
    if own.is_floating_point and own is not torch.bfloat16:
        expected = torch.complex(torch.empty(1, dtype=own), torch.empty(1, dtype=own)).dtype
        assert promotion.to_complex(codes[dtype]) == codes[str(expected).removeprefix("torch.")]

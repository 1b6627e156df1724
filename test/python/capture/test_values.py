"""Families of operators over dtypes against eager: NaN, infinities, unsigned bytes, rounding division.

One module returns the results of a whole family, so that each dtype costs one compilation.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pipeline

Family = dict[str, Callable[[Any, Any], Any]]

ORDER: Family = {
    "amax": lambda x, y: x.amax(1),
    "amin": lambda x, y: x.amin((0, 1), keepdim=True),
    "max": lambda x, y: x.max(),
    "min dim": lambda x, y: tuple(x.min(1, keepdim=True)),
    "max dim": lambda x, y: tuple(x.max(0)),
    "argmax": lambda x, y: (x.argmax(1), x.argmax()),
    "argmin": lambda x, y: (x.argmin(0, keepdim=True), x.argmin()),
    "aminmax": lambda x, y: tuple(torch.aminmax(x, dim=1)),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp": lambda x, y: (x.clamp(1, 3), x.clamp(min=2), x.clamp(max=1), x.clamp(2, 1)),
    "clamp by tensors": lambda x, y: (torch.clamp(x, y, y + 1), torch.clamp_min(x, y), torch.clamp_max(x, y)),
    "sort": lambda x, y: (*torch.sort(x, 1), *torch.sort(x, 0, descending=True)),
    "stable sort": lambda x, y: tuple(torch.sort(x, stable=True, dim=0)),
    "argsort": lambda x, y: torch.argsort(x, 1),
    "topk": lambda x, y: (torch.topk(x, 2, 1).values, torch.topk(x, 3, 0, largest=False).values),
    "kthvalue": lambda x, y: torch.kthvalue(x, 2, 1).values,
    "median": lambda x, y: (x.median(), x.median(1).values),
    "itself": lambda x, y: (x == x, x != x, x < x, x >= x),
    "compare": lambda x, y: (x == y, x != y, x < y, x >= y, x > 2, x == 200),
    "where": lambda x, y: torch.where(x > y, x, y),
    "relu": lambda x, y: torch.relu(x),
    "scatter_reduce": lambda x, y: torch.scatter_reduce(x, 1, (y > 0).long(), y, "amax"),
}

FLOAT: Family = {
    "nan_to_num": lambda x, y: (torch.nan_to_num(x), torch.nan_to_num(x, nan=0.0, posinf=9.0, neginf=-9.0)),
    "classes": lambda x, y: (x.isnan(), x.isinf(), x.isfinite(), torch.isposinf(x), torch.isneginf(x)),
    "isclose": lambda x, y: (torch.isclose(x, y), torch.isclose(x, y, equal_nan=True)),
    "fmax": lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)),
    "activations": lambda x, y: (
        F.relu6(x),
        F.hardtanh(x),
        F.hardsigmoid(x),
        F.hardswish(x),
        F.leaky_relu(x),
    ),
    "softmax": lambda x, y: (x.softmax(1), x.logsumexp(1)),
    "max_pool": lambda x, y: F.max_pool1d(x[None], 2),
    "nansum": lambda x, y: torch.nansum(x),
}

REMAINDER: Family = {
    "fmod": lambda x, y: (torch.fmod(x, y), torch.fmod(x, 0.1)),
    "remainder": lambda x, y: (x % y, x % 0.1, torch.remainder(7.5, y)),
    "floor": lambda x, y: (x // y, x // 0.1),
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
}

INTEGER: Family = {
    "sum": lambda x, y: (x.sum(), x.sum(1, dtype=torch.int32), x.sum(1, dtype=torch.float32)),
    "mean": lambda x, y: x.mean(dtype=torch.float32),
    "prod": lambda x, y: (x.prod(1), x.cumsum(1), x.cumprod(1)),
    "wrapping": lambda x, y: (x + y, x - y, x * y, -x, ~x, x.abs(), x + 3, 5 - x, torch.add(x, y, alpha=2)),
    "division": lambda x, y: (x / y, x // y, x % y, torch.fmod(x, y), x // 3, x % 3, x // 7),
    "rounding": lambda x, y: [torch.div(x, y, rounding_mode=mode) for mode in ("trunc", "floor")],
    "bits": lambda x, y: (x << 2, x >> 2, x & y, x | y, x ^ y),
    "floats": lambda x, y: (x * 1.5, x.sqrt(), x.sigmoid(), x.reciprocal(), x % 1.5, x // 1.5),
    "compare": lambda x, y: (x < 100, x > 200, x >= -1, x < 1.5),
    "to": lambda x, y: (x.float(), x.double(), x.half(), x.to(torch.int8), x.int(), x.long(), x.bool()),
    "from": lambda x, y: ((x.float() * 0.5).to(x.dtype), (x.long() * 3).to(x.dtype)),
    "promotion": lambda x, y: (
        x + torch.arange(4),
        x * torch.full((4,), -3, dtype=torch.int16),
        torch.cat([x, y.int()]),
    ),
    "moves": lambda x, y: (torch.cat([x, y]), x.flip(1), x.roll(1, 1), x.tril(), F.pad(x, (1, 1), value=3)),
    "index": lambda x, y: (torch.gather(x, 1, (y % 4).long()), x[(y % 4).long()[:, 0]]),
    "masked": lambda x, y: (
        x.masked_fill(y > 2, 9),
        torch.where(x > y, x, torch.arange(4)),
        torch.where(x > y, x, 7),
    ),
    "scatter": lambda x, y: (
        torch.scatter(x, 1, (y % 4).long(), y),
        torch.scatter_add(x, 1, (y % 4).long(), y),
    ),
    "logic": lambda x, y: (x.any(1), x.all(), torch.logical_not(x), torch.count_nonzero(x)),
}

BOOL: Family = {
    "sum": lambda x, y: (x.sum(), x.sum(1), x.cumsum(1), x.prod(1), x.float().mean()),
    "arithmetic": lambda x, y: (x + y, x * y, x + 1, x * 2.5, x / True, x.to(torch.uint8) + 1),
    "logic": lambda x, y: (x & y, x | y, x ^ y, ~x, x.any(1), x.all(), torch.count_nonzero(x)),
    "compare": lambda x, y: (x == y, x != y, x < y, x >= y, x == 1),
    "order": lambda x, y: (x.amax(1), x.amin(1), torch.maximum(x, y), *x.sort(1)),
    "moves": lambda x, y: (torch.cat([x, y]), torch.where(x, 1.0, 2.0), torch.arange(4.0)[x.long()[0]]),
}

SCATTER: Family = {
    "scatter": lambda x, i: (x.scatter(-1, i, x.flip(0)), x.scatter(-2, i, 2)),
    "scatter_add": lambda x, i: (x.scatter_add(-1, i, x), x.scatter_add(0, i, x)),
    "scatter_reduce": lambda x, i: x.scatter_reduce(-1, i, x.flip(1), "amax"),
}
RESIZE: Family = {
    "nearest": lambda x, y: (F.interpolate(x, size=(7, 9)), F.interpolate(x, scale_factor=1.5)),
    "nearest-exact": lambda x, y: [
        F.interpolate(x, size=size, mode="nearest-exact") for size in ((7, 9), (3, 4), (8, 12))
    ],
    "nearest-exact 1d": lambda x, y: F.interpolate(x[0], size=9, mode="nearest-exact"),
    "bilinear": lambda x, y: [
        F.interpolate(x, size=size, mode="bilinear", align_corners=corners)
        for size in ((7, 9), (3, 4))
        for corners in (False, True)
    ],
    "bicubic": lambda x, y: F.interpolate(x, size=(7, 9), mode="bicubic"),
    "area": lambda x, y: F.interpolate(x, size=(3, 4), mode="area"),
}


class Table(nn.Module):
    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        return {name: function(x, y) for name, function in self.family.items()}


def check(family: Family, x: torch.Tensor, y: torch.Tensor) -> None:
    model = Table(family)
    eager, compiled = model(x, y), pipeline.compile(model, args=(x, y))(x, y)
    wrong = []
    for name, expected in eager.items():
        try:
            torch.testing.assert_close(compiled[name], expected, equal_nan=True)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)


NAN, INF = float("nan"), float("inf")
HARD = torch.tensor(
    [[1.0, NAN, 3.0, 2.0], [INF, 2.0, -INF, INF], [NAN, NAN, NAN, NAN], [-1.5, -0.0, 0.5, 3.0]]
)
OTHER = torch.tensor(
    [[0.0, 1.0, NAN, 2.0], [1.0, INF, INF, -INF], [NAN, 1.0, 2.0, 3.0], [1.0, 2.0, 0.5, -3.0]]
)
WHOLE = torch.tensor([[1, 200, 3, 2], [128, 2, 255, 7], [0, 0, 5, 5], [9, 127, 130, 3]])
DIVISOR = torch.tensor([[1, 2, 250, 2], [1, 3, 5, 7], [200, 1, 1, 3], [4, 5, 6, 9]])

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_and_infinity(dtype: torch.dtype) -> None:
    check({**ORDER, **{f"float {name}": f for name, f in FLOAT.items()}}, HARD.to(dtype), OTHER.to(dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64], ids=str)
def test_order_of_integers(dtype: torch.dtype) -> None:
    check(ORDER, WHOLE.to(dtype), DIVISOR.to(dtype))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_arithmetic_of_integers(dtype: torch.dtype) -> None:
    check(INTEGER, WHOLE.to(dtype), DIVISOR.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_remainders_are_exact(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(64, generator=generator) * scale for scale in (300, 1))
    x[:4], y[:4] = torch.tensor([1.0, -1.0, 3.0, 2.5]), torch.tensor([0.1, 0.1, -0.1, INF])
    x, y = x.to(dtype), y.to(dtype)
    if dtype != torch.float16:
        # Quotients that the dtype cannot hold.
        x[4:6], y[4:6] = torch.tensor([1e9, 1e30]), torch.tensor([3.7e-5, 3.7])
        x[6] = torch.finfo(dtype).max / 1e4
    check(REMAINDER, x, y)


def test_bool() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(4, 4, generator=generator) > 0.5 for _ in range(2))
    check(BOOL, x, y)


def test_resizing() -> None:
    x = torch.arange(24.0).reshape(1, 1, 4, 6)
    check(RESIZE, x, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_scatter_over_dimensions_counted_from_the_end(dtype: torch.dtype) -> None:
    """A gather(-1) becomes one in backward. Each row of the index is a permutation: no place is written twice."""
    index = torch.tensor([[0, 1, 2], [2, 0, 1], [1, 2, 0]])
    check(SCATTER, torch.arange(9).reshape(3, 3).to(dtype), index)

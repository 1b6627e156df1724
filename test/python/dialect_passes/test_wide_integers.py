"""Integers beyond 2**53 stay exact: no operator goes through floats on the way."""

import pytest
import torch
from torch import nn

import pipeline


def most(a):
    """A number that no float of the same width holds."""
    return torch.iinfo(a.dtype).max - 2


OPERATIONS = {
    "neg": lambda a, b: -a,
    "floor_divide": lambda a, b: a // b,
    "floor_divide by a number": lambda a, b: (a // 7, a // -7),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": lambda a, b: (a % b, a % 7, torch.remainder(a, -7)),
    "fmod": torch.fmod,
    "abs": lambda a, b: a.abs(),
    "sign": lambda a, b: a.sign(),
    "arithmetic": lambda a, b: (a + b, a - b, a * b, 7 - a, torch.add(a, b, alpha=3)),
    "rounding does nothing": lambda a, b: (a.floor(), a.round(), a.trunc(), a.ceil()),
    "order": lambda a, b: (a.sort().values, a.amin(), a.max(), a.argmax(), torch.maximum(a, b), a > b),
    "clamp": lambda a, b: (a.clamp(-3, most(a)), a.clamp_min(5)),
    "sums": lambda a, b: (a.sum(), a.cumsum(0), a.prod(), torch.dot(a, b)),
    "matmul": lambda a, b: a[:4].reshape(2, 2) @ b[:4].reshape(2, 2),
    "shifts": lambda a, b: (a << 1, a >> 1),
    "constants": lambda a, b: (a.masked_fill(a > 0, most(a)), torch.where(a > 0, a, most(a))),
    "conversions": lambda a, b: (a.double(), a.to(torch.int32)),
}


class All(nn.Module):
    def forward(self, a, b):
        return {name: operation(a, b) for name, operation in OPERATIONS.items()}


VALUES = [2**31 + 5, -(2**31) - 7, 2**53 + 1, -(2**53) - 3, 2**62 + 1, -(2**63), 5, -5]
DIVISORS = [3, 5, 7, -2, 11, 3, -3, -3]


@pytest.fixture(scope="module", params=[torch.int64, torch.int32], ids=str)
def results(request):
    a, b = (torch.tensor(numbers).to(request.param) for numbers in (VALUES, DIVISORS))
    return All()(a, b), pipeline.compile(All(), args=(a, b))(a, b)


@pytest.mark.parametrize("name", OPERATIONS)
def test_exact(results, name):
    expected, found = results
    torch.testing.assert_close(found[name], expected[name], rtol=0, atol=0)

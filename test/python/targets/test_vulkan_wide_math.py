"""Exponential functions in float64 on Vulkan, whose shaders have none."""

import math

import pytest
import torch
from torch import nn

import pipeline

FUNCTIONS = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "atanh": torch.atanh,
    "pow": lambda x: x**2.5,
}

EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    1e300,
    709.7,
    710.0,
    -745.0,
    -760.0,
    1 - 1e-9,
]


class All(nn.Module):
    def forward(self, x):
        return {name: function(x) for name, function in FUNCTIONS.items()}, x[20:].softmax(0)


@pytest.fixture(scope="module")
def results():
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(60, generator=generator, dtype=torch.float64)
    x = torch.cat(
        [torch.tensor(EDGES, dtype=torch.float64), wide, wide * 20, 10 ** (wide * 5), -(10 ** (wide * 5))]
    )
    return pipeline.compile(All(), args=(x,), target="vulkan")(x), All()(x)


@pytest.mark.vulkan
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(results, name):
    """To a few units in the last place, but for powers, which are exponentials of rounded logarithms."""
    (found, _), (expected, _) = results
    torch.testing.assert_close(found[name], expected[name], equal_nan=True, rtol=1e-12, atol=1e-300)


@pytest.mark.vulkan
def test_softmax(results):
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-12, atol=0)

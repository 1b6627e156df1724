"""Variance and standard deviation against eager: corrections, dtypes, empty divisors, symbolic counts."""

import warnings

import pytest
import torch
from torch import nn
from torch.export import Dim

import pipeline

CASES = {
    "all": lambda x, h, one, scalar: x.var(),
    "uncorrected": lambda x, h, one, scalar: x.var(1, correction=0),
    "mean too": lambda x, h, one, scalar: torch.var_mean(x, (0, -1), keepdim=True),
    "fractional": lambda x, h, one, scalar: torch.var_mean(x, 0, correction=1.5),
    "no dimensions": lambda x, h, one, scalar: x.var([]),
    "f64": lambda x, h, one, scalar: x.double().var(0),
    "f16": lambda x, h, one, scalar: h.var(0),
    "f16 deviation": lambda x, h, one, scalar: h.std(-1),
    "f16 deviation and mean": lambda x, h, one, scalar: torch.std_mean(h, 0),
    "f16 layer norm": lambda x, h, one, scalar: nn.functional.layer_norm(h, (4,)),
    "zero by zero": lambda x, h, one, scalar: one.var(0),
    "over-corrected": lambda x, h, one, scalar: x.var(0, correction=7),
    "scalar": lambda x, h, one, scalar: scalar.var(),
}


class Cases(nn.Module):
    def forward(self, x, h, one, scalar):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {name: case(x, h, one, scalar) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def results():
    """Compiled and eager results at three sizes of a dynamic dimension."""
    torch.manual_seed(0)
    rest = torch.randn(6, 4).half(), torch.randn(1, 4), torch.tensor(3.0)
    shapes = ({0: Dim("rows", min=1, max=99)}, None, None, None)
    exe = pipeline.compile(Cases(), args=(torch.randn(3, 5), *rest), dynamic_shapes=shapes)
    inputs = [(torch.randn(rows, 5) * 3 + 10, *rest) for rows in (3, 8, 1)]
    return [(exe(*args), Cases()(*args)) for args in inputs]


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(results, name):
    for compiled, eager in results:
        torch.testing.assert_close(compiled[name], eager[name], equal_nan=True)


def test_statistics_stay_in_the_dtype_of_the_input():
    """Eager computes LayerNorm and BatchNorm in f32; the stock lowering does it in f64."""
    model = nn.Sequential(nn.BatchNorm1d(8), nn.LayerNorm(8)).train()
    from pipeline.api import capture_checked, compile_options, entry_specs
    from pipeline.compiler import emit

    options = compile_options()
    program = capture_checked(model, entry_specs((torch.randn(4, 8),), None, None, None), options)
    assert "f64" not in emit(program, options, "linalg")

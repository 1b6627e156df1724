"""Operators on constants are computed by PyTorch: torch-mlir reads floats as integers, and divides as C does."""

import pytest
import torch
from torch import nn

import pipeline
from pipeline.capture import capture
from pipeline.entry_points import EntrySpec


class Constants(nn.Module):
    """Signs, comparisons, quotients and remainders of tensors of one number, and of a few elements."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        few = torch.tensor([-2.0, -0.0, 0.0, 1.5, torch.nan])
        half = torch.full_like(x, 0.3) - 0.5
        seven, no = torch.full((3, 4), -7), torch.zeros(3, 4, dtype=torch.bool)
        return (
            x * torch.sign(half),
            torch.sgn(half.double()),
            torch.full((2,), 0.1, dtype=torch.float64) * 3,
            nn.functional.softplus(half, 1, 20),
            nn.functional.threshold(half, -1, 2),
            torch.remainder(seven, 2),
            torch.div(seven, 2, rounding_mode="floor"),
            torch.fmod(seven, 2),
            (~no) == 1,
            few.sign(),
            few > -1,
            few.reshape(5, 1).expand(5, 2) * 2,
            torch.bitwise_not(torch.full((2,), 200, dtype=torch.uint8)),
        )


def test_as_eager() -> None:
    x = torch.randn(3, 4)
    executable = pipeline.compile(Constants(), args=(x,))
    torch.testing.assert_close(executable(x), Constants()(x), equal_nan=True)


def test_nothing_is_left_to_fold() -> None:
    """A wrong folding depends on what lies in memory, so that a right result shows little."""
    program = capture(Constants(), {"main": EntrySpec((torch.randn(3, 4),))})
    graph = program.entries["main"].module.graph
    # Constants of bytes are converted (narrow_integers.py).
    made = {"aten.full.default", "prims.convert_element_type.default", "aten.view.dtype"}
    assert {str(node.target) for node in graph.nodes if node.op == "call_function"} - made == {
        "aten.mul.Tensor"
    }


def test_division_by_zero() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.remainder(torch.full((2,), 3), torch.zeros(2, dtype=torch.int64))

    with pytest.raises(pipeline.InputError, match=r"ZeroDivisionError \(at .*test_constant_values.py:\d+\)"):
        pipeline.compile(Model(), args=(torch.zeros(2),))

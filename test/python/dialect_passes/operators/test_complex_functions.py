"""Functions of complex numbers have rules of their own: the formulas for real ones compare, or overflow."""

import torch

import pipeline

FUNCTIONS = (torch.asinh, torch.acosh, torch.tan, torch.tanh, torch.log10, torch.exp2)


def test_functions() -> None:
    x = torch.complex(*torch.meshgrid(torch.linspace(-3, 3, 7), torch.linspace(-60, 60, 9), indexing="ij"))

    def functions(x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x) for function in FUNCTIONS]

    torch.testing.assert_close(pipeline.compile(functions, args=(x,))(x), functions(x))

"""Models that compute under torch.no_grad(): the same results, and errors that name their lines."""

import copy

import pytest
import torch
from torch import nn

import pipeline


class Modes(nn.Module):
    """Modes in modes, a buffer that is updated inside, a view of columns, and results that come right out of them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = nn.Linear(4, 4), nn.Buffer(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            y = self.linear(x).relu()
            with torch.enable_grad():
                z = y * 2
            self.calls += 1
            columns = torch.linalg.inv(x.T @ x + torch.eye(4)).T.view(2, 8)
            w = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return y + 1, z, y.sum(), columns, w, self.calls.clone()


def test_as_eager() -> None:
    model, x = Modes(), torch.rand(3, 4)
    expected = copy.deepcopy(model)
    executable = pipeline.compile(model, args=(x,))
    for _ in range(2):
        torch.testing.assert_close(executable(x), expected(x), rtol=1e-5, atol=1e-5)  # of an inverse


def test_errors_name_the_line() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return torch.ops.aten._standard_gamma.default(x)

    with pytest.raises(pipeline.UnsupportedError, match=r"_standard_gamma.*\(at \S*test_grad_modes.py:\d+\)"):
        pipeline.compile(Model(), args=(torch.rand(3),))

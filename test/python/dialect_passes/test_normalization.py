"""Batch norm in eval mode and RMSNorm: every float dtype, ranks, with and without weights, moved statistics."""

import pytest
import torch
from torch import nn

import pipeline

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


class Norms(nn.Module):
    """Batch norm over inputs of rank 2 to 5, statistics and weights away from where they start."""

    def __init__(self) -> None:
        super().__init__()
        self.flat, self.rows = nn.BatchNorm1d(3), nn.BatchNorm1d(3, affine=False)
        self.image, self.volume = nn.BatchNorm2d(3, eps=0.1), nn.BatchNorm3d(3)
        for name, tensor in [*self.named_parameters(), *self.named_buffers()]:
            if tensor.is_floating_point():
                nn.init.uniform_(tensor, 0.5 if "var" in name else -2.0, 2.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        image = x.reshape(2, 3, 4, 5)
        rows = self.rows(x.reshape(2, 3, 20))
        return self.flat(image[:, :, 0, 0]), rows, self.image(image), self.volume(x.reshape(2, 3, 2, 2, 5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_as_eager(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Norms().eval().to(dtype), torch.randn(2, 60, dtype=dtype)
    executable = pipeline.compile(model, args=(x,))
    # On rank 2, eager rounds each of its four operations to f16; the compiled one rounds once, and is nearer to
    # float64 (0.0005 against 0.0016 on these values).
    tolerance = {"rtol": 2e-3, "atol": 1e-5} if dtype is torch.float16 else {}
    with torch.no_grad():
        torch.testing.assert_close(executable(x), model(x), **tolerance)


class RmsNorms(nn.Module):
    """Over one and two dimensions, with and without weight and eps; a weight wider than its input."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.planes = nn.RMSNorm(6), nn.RMSNorm((5, 6), eps=0.1, elementwise_affine=False)
        nn.init.uniform_(self.rows.weight, -2.0, 2.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            self.rows(x),
            self.planes(x),
            nn.functional.rms_norm(x * 0.25, (6,), self.rows.weight.float(), 1e-6),
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rms_norm_as_eager(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = RmsNorms().eval().to(dtype), torch.randn(3, 5, 6, dtype=dtype)
    executable = pipeline.compile(model, args=(x,))
    with torch.no_grad():
        torch.testing.assert_close(executable(x), model(x))

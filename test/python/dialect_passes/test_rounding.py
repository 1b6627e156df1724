"""float16 and bfloat16 are rounded once per operator, where eager rounds: no digit is kept between two."""

import pytest
import torch
from torch.nn import functional as F

import pipeline


class Operators(torch.nn.Module):
    """What was wrong: chains in one loop, operators that the lowering takes apart, sums, numbers that eager rounds."""

    def forward(
        self, x: torch.Tensor, y: torch.Tensor, p: torch.Tensor, whole: torch.Tensor, w: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        chains = (
            x * y + x,
            (x - y) * p - 0.3,
            torch.add(x, y, alpha=0.3) * x,
            torch.sin(torch.exp(x * 0.37)),
        )
        composed = (F.gelu(x), F.selu(x), torch.log_softmax(x, -1))
        sums = (x.sum(0), x.mean(-1), F.layer_norm(x, (40,)))
        stepwise = (torch.logit(p), x**3, torch.xlogy(x, p), F.mse_loss(x, y, reduction="none"), p**0.45)
        products = (F.silu(F.linear(x, w)) * 0.3,)
        looked_at = ((x * y > p).to(x.dtype), (x * 100 * y).int(), torch.relu(x * y) * p, x + whole, x == 0.1)
        return chains + composed + sums + stepwise + products + looked_at


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounding(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, y, p = torch.randn(64, 40).to(dtype), torch.randn(64, 40).to(dtype), torch.rand(64, 40).to(dtype)
    p, w = p.clamp(0.01, 0.99), torch.randn(24, 40).to(dtype)
    x[0, :8] = 0.1
    args = (x, y, p, torch.randint(-39, 40, (64, 40)), w)
    results = pipeline.compile(Operators(), args=args)(*args)
    expected = Operators()(*args)
    for result, eager in zip(results, expected, strict=True):
        torch.testing.assert_close(result, eager)
    same = sum(int((result == eager).sum()) for result, eager in zip(results, expected, strict=True))
    assert same > 0.998 * sum(eager.numel() for eager in expected)


class Attention(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q[0], k[0], v[0])


def test_attention_is_computed_in_float32() -> None:
    torch.manual_seed(0)
    args = tuple(torch.randn(2, 2, 9, 16).bfloat16() for _ in range(3))
    for result, eager in zip(
        pipeline.compile(Attention(), args=args)(*args), Attention()(*args), strict=True
    ):
        assert (result == eager).float().mean() > 0.9
        torch.testing.assert_close(result, eager, rtol=1.6e-2, atol=1e-3)

"""Factors of products that are added: eager drops the fractions of those of integers."""

import pytest
import torch

import pipeline

PRODUCTS = {
    "addmm": lambda m, b, v: torch.addmm(m, m, m, beta=1.6, alpha=2.6),
    "addbmm": lambda m, b, v: torch.addbmm(m, b, b, beta=1.6, alpha=2.6),
    "baddbmm": lambda m, b, v: torch.baddbmm(b, b, b, beta=1.6, alpha=2.6),
    "addmv": lambda m, b, v: torch.addmv(v, m, v, beta=1.6, alpha=2.6),
    "addcmul": lambda m, b, v: torch.addcmul(v, v, v, value=2.6),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float64])
def test_factors(dtype: torch.dtype) -> None:
    args = tuple(
        torch.arange(1, 1 + size[0] ** len(size)).view(size).to(dtype) for size in ((3, 3), (3, 3, 3), (3,))
    )

    def products(*args: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: product(*args) for name, product in PRODUCTS.items()}

    torch.testing.assert_close(pipeline.compile(products, args=args)(*args), products(*args))

"""Batched products of factors that were broadcast: IREE's data tiling reads other rows for them than are there."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import pipeline

CASES: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "rows": (lambda x, y, r: (x - r) @ y, [(2, 6, 6), (2, 6, 8), (2, 6, 1)]),
    "more rows than a tile": (lambda x, y, r: (x * r) @ y, [(3, 20, 7), (3, 7, 33), (3, 20, 1)]),
    "columns": (lambda x, y, r: x @ (y - r), [(2, 6, 6), (2, 6, 9), (2, 1, 9)]),
    "depth": (lambda x, y, r: (x + r) @ y, [(2, 6, 7), (2, 7, 9), (2, 1, 7)]),
    "heads": (lambda x, y, r: (x + r) @ y, [(2, 3, 6, 7), (2, 3, 7, 9), (1, 3, 6, 1)]),
    "within a chain": (lambda x, y, r: torch.exp((x - r) * 2) @ y, [(2, 5, 7), (2, 7, 9), (2, 5, 1)]),
    "a sum of products": (
        lambda x, y, r: ((x - r)[..., None] * y[:, None]).sum(-2),
        [(2, 6, 6), (2, 6, 8), (2, 6, 1)],
    ),
    "einsum": (lambda x, y, r: torch.einsum("bmk,bkn->bnm", x * r, y), [(2, 6, 7), (2, 7, 9), (2, 6, 1)]),
    "layer norm": (lambda x, y: F.layer_norm(x, (7,)) @ y, [(2, 6, 7), (2, 7, 9)]),
    "similarity": (lambda x, y: F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).mT, [(2, 6, 7), (2, 9, 7)]),
    "log_softmax": (lambda x, y: torch.log_softmax(x, -1) @ y, [(2, 6, 7), (2, 7, 9)]),
    "reversed softmax": (
        lambda x, y: (torch.exp(x.amax(-1, keepdim=True) - x) / x.sum(-1, keepdim=True)) @ y,
        [(2, 6, 7), (2, 7, 9)],
    ),
}


def rand(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Positive, so that no sum cancels."""
    return (torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))) + 0.1).to(dtype)


@pytest.mark.parametrize("name", CASES)
def test_every_entry_of_the_batch(name: str) -> None:
    function, shapes = CASES[name]
    args = tuple(rand(shape) for shape in shapes)
    torch.testing.assert_close(pipeline.compile(function, args=args)(*args), function(*args))


def test_bfloat16() -> None:
    function, shapes = CASES["rows"]
    args = tuple(rand(shape, torch.bfloat16) for shape in shapes)
    torch.testing.assert_close(pipeline.compile(function, args=args)(*args), function(*args))


def test_open_sizes() -> None:
    function, shapes = CASES["rows"]
    batch, rows = torch.export.Dim("batch"), torch.export.Dim("rows")
    sizes = ({0: batch, 1: rows}, {0: batch}, {0: batch, 1: rows})
    run = pipeline.compile(function, args=tuple(map(rand, shapes)), dynamic_shapes=sizes)
    for b, m in ((2, 6), (3, 9), (1, 17)):
        args = rand((b, m, 6)), rand((b, 6, 8)), rand((b, m, 1))
        torch.testing.assert_close(run(*args), function(*args))


def test_gradients_of_attention() -> None:
    """A training step's: products of what row sums were subtracted from."""

    def gradients(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return (torch.softmax(q @ k.mT, -1) @ v).square().sum()

        return torch.func.grad(loss, argnums=(0, 1, 2))(q, k, v)

    args = rand((2, 3, 6, 8)), rand((2, 3, 7, 8)), rand((2, 3, 7, 8))
    torch.testing.assert_close(pipeline.compile(gradients, args=args)(*args), gradients(*args))

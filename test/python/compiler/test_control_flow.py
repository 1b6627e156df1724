"""Branches and loops whose conditions are values: cond, while_loop, scan, map and associative_scan."""

from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, map, scan, while_loop  # type: ignore[attr-defined]

import pipeline

_ROWS, _COLUMNS = torch.export.Dim("rows", min=2, max=50), torch.export.Dim("columns", min=2, max=50)
Tensor = torch.Tensor


class Everything(nn.Module):
    """One program, since every compilation costs a second."""

    def __init__(self) -> None:
        super().__init__()
        # torch differentiates no scan with a bool among its results.
        self.layer = nn.Linear(4, 4).requires_grad_(False)
        self.register_buffer("offset", torch.randn(4))

    def forward(self, x: Tensor, start: Tensor, sequence: Tensor) -> tuple[Any, ...]:
        def grow(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            grown = torch.cond(y.sum() > 0, lambda y: self.layer(y) + self.offset, lambda y: y * 2 + 1, (y,))
            return i + 1, grown

        looped = while_loop(lambda i, y: (i < 4) & (y.abs().max() < 50), grow, (start, x))
        swapped = while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b.clone(), a + b), (0, x, x + 1))
        written = while_loop(
            lambda i, rows, total: i < 3,
            lambda i, rows, total: (
                i + 1,
                rows.index_put((i[None],), (total * 2)[None]),
                total + rows.sum(0),
            ),
            (start, x, self.offset),
        )

        def step(carry: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
            state = torch.tanh(self.layer(carry) + y)
            return state, (state > 0, torch.softmax(state, -1), state.sum())

        scanned = scan(step, x, sequence)
        backwards = scan(lambda c, y: (c * 0.5 + y, c + y), x, sequence, reverse=True)
        mapped = map(lambda y, z: y.sin() + z, sequence, self.offset)
        products = associative_scan(lambda a, b: a * b + a, sequence, 0, combine_mode="generic")
        return looped, swapped[1:], written, scanned, backwards, mapped, products


@pytest.mark.parametrize("start", [0, 3, 9])
def test_values(start: int) -> None:
    torch.manual_seed(0)
    model = Everything()
    args = (torch.randn(3, 4), torch.tensor(start), torch.randn(5, 3, 4))
    compiled = _compiled(model)
    torch.testing.assert_close(compiled(*args), model(*args))


_CACHE: dict[str, Any] = {}


def _compiled(model: nn.Module) -> Any:
    """Once; seeded alike, the models are."""
    if "everything" not in _CACHE:
        args = (torch.randn(3, 4), torch.tensor(0), torch.randn(5, 3, 4))
        _CACHE["everything"] = pipeline.compile(model, args=args)
    return _CACHE["everything"]


class Sizes(nn.Module):
    """Several values of dynamic size are carried: IREE packs them at offsets computed from their sizes."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Any, ...]:
        chosen = torch.cond(
            x.sum() > 0,
            lambda x, y: (x + 1, torch.cat([x, y], 1), x.sum()),
            lambda x, y: (x.sin(), torch.cat([y, x], 1), y.sum()),
            (x, y),
        )
        mapped = map(lambda row, other: (row * 2, row.max(), torch.cat([row, other])), x, y[0])
        looped = while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x * 2 + i), (0, x))
        return chosen, mapped, looped[1]


def test_dynamic_sizes() -> None:
    shapes = ({0: _ROWS, 1: _COLUMNS}, {0: _ROWS})
    compiled = pipeline.compile(Sizes(), args=(torch.randn(3, 5), torch.randn(3, 4)), dynamic_shapes=shapes)
    for rows, columns, sign in ((3, 5, 1), (7, 4, -1)):
        args = (torch.rand(rows, columns) * sign, torch.randn(rows, 4))
        torch.testing.assert_close(compiled(*args), Sizes()(*args))


class Draws(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + torch.rand(3)), (0, x))[1]


def test_draws_in_a_loop_are_refused() -> None:
    with pytest.raises(pipeline.UnsupportedError, match="random numbers"):
        pipeline.compile(Draws(), args=(torch.randn(3),))

"""What is inserted into a tensor is read before later writes, in whatever order IREE computes it."""

from __future__ import annotations

import pytest
import torch

import pipeline


class Concatenation(torch.nn.Module):
    """`rows` is read from `a` before `a` is written, and stands in the result behind what was read after."""

    def forward(self, x, index):
        a = x @ x
        rows = a.sum(1)
        return torch.cat([a.slice_scatter(x[:2] * 3, 0, 1, 3).sum(1), rows])


class Insertion(torch.nn.Module):
    def forward(self, x, index):
        a = x @ x
        row = a.sum(1, keepdim=True).T.contiguous()
        return (a.slice_scatter(x[:2] * 3, 0, 1, 3) @ x).slice_scatter(row, 0, 0, 1)


class Scatter(torch.nn.Module):
    def forward(self, x, index):
        a = x @ x
        rows = a.sum(1)
        return torch.stack([a.index_add(0, index, x[:2]).sum(1), rows])


@pytest.mark.parametrize("model", [Concatenation(), Insertion(), Scatter()], ids=lambda m: type(m).__name__)
def test_reads_stay_before_writes(model):
    args = torch.randn(6, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([1, 3])
    torch.testing.assert_close(pipeline.compile(model, args=args)(*args), model(*args))


class MovesWithin(torch.nn.Module):
    """Parts of a tensor, and of what the model keeps, move to overlapping places of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("history", torch.arange(20.0).reshape(5, 4))

    def forward(self, x):
        down, up, kept = x.clone(), x.clone(), x.clone()
        down[1:] = down[:-1].clone()
        up[:-1] = up[1:].clone().reshape(-1).reshape(4, 4)
        part = kept[:-1].clone()
        kept[0] = 9
        kept[1:] = part
        self.history[1:] = self.history[:-1].clone()
        self.history[0] = x[0]
        return down, up, kept, part, self.history.sum(0)


def test_a_part_moves_within_its_tensor():
    model, x = MovesWithin(), torch.arange(20.0).reshape(5, 4)
    compiled = pipeline.compile(model, args=(x,))
    for _ in range(3):
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize(
    "operator",
    [
        lambda row: row.cumsum(0),
        lambda row: row.sort()[0],
        lambda row: row.flip(0) * row,
        lambda row: row.softmax(0),
        lambda row: row.exp() + row[0],
        lambda row: row.clone(),
    ],
)
def test_rows_computed_from_themselves(operator):
    def model(x):
        y = x.clone()
        for k in range(3):
            y[k] = operator(y[k])
        return y, y.sum(0)

    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(pipeline.compile(model, args=(x,))(x), model(x))


def test_a_large_block_that_is_turned_in_place():
    def model(x):
        y = x * 2
        y[:300, :300] = y[:300, :300].T.clone()
        y[1:] = y[1:] + y[:-1]
        return y

    x = torch.randn(301, 400, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(pipeline.compile(model, args=(x,))(x), model(x))

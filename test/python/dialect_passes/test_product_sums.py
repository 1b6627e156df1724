"""Sums over several dimensions of products with a factor that has only the last of them."""

from __future__ import annotations

import torch
from torch.export import Dim

import pipeline


class Sums(torch.nn.Module):
    def forward(self, x, row, matrix):
        return (
            (x * row).sum(),
            (x * row).sum((0, 2)),
            (x * row.exp()).mean((1, 2)),
            (x * matrix).sum((0, 1), keepdim=True),
            ((x - 1) ** 2 * matrix).mean(),
            (x.int() * row.int()).sum(),
        )


def test_sums_of_products():
    generator = torch.Generator().manual_seed(0)
    x, row, matrix = (torch.randn(*sizes, generator=generator) for sizes in ((4, 8, 16), (16,), (8, 16)))
    exe = pipeline.compile(Sums(), args=(x, row, matrix), dynamic_shapes=({0: Dim("n", max=64)}, None, None))
    for sample in (x, torch.randn(7, 8, 16, generator=generator)):
        torch.testing.assert_close(exe(sample, row, matrix), Sums()(sample, row, matrix))

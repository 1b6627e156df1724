"""Rows that are sorted by merging: long ones, and those of a size that is known when the program runs."""

from __future__ import annotations

import torch
from torch.export import Dim

import pipeline


class Sorts(torch.nn.Module):
    def forward(self, x):
        integers = (x.nan_to_num() * 4).to(torch.int32)
        halves = integers.to(torch.int64) * 2**31 - integers
        return (
            *torch.sort(x, stable=True),
            *torch.sort(x, dim=1, descending=True, stable=True),
            *torch.sort(halves, stable=True),
            *torch.sort(halves, descending=True, stable=True),
            *torch.sort(integers.to(torch.int8), dim=0, stable=True),
            *torch.sort(x.bfloat16(), stable=True),
            *torch.sort(halves.to(torch.uint32), stable=True),
            x.topk(5).values,
            x.median(1).values,
        )


def test_long_and_dynamic_rows():
    """A program for each size, and one for all of them."""
    arguments = [_rows(count) for count in (300, 7, 5)]
    of_any = pipeline.compile(
        Sorts(), args=arguments[:1], dynamic_shapes={"x": {1: Dim("n", min=5, max=1000)}}
    )
    for x in arguments:
        _compare(of_any(x), Sorts()(x))
    _compare(pipeline.compile(Sorts(), args=arguments[:1])(arguments[0]), Sorts()(arguments[0]))


def _rows(count: int) -> torch.Tensor:
    """With equal elements, zeros of both signs and NaN."""
    x = torch.randn(3, count, generator=torch.Generator().manual_seed(count)).round(decimals=1)
    x[0, 1:3], x[1, 0], x[1, -1] = torch.nan, 0.0, -0.0
    return x


def _compare(ours, eager):
    for result, expected in zip(ours, eager, strict=True):
        torch.testing.assert_close(result, expected, equal_nan=True)

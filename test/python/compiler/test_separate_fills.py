"""Operations that write into one fill of dynamic size: each result is its own."""

import torch
from torch import nn
from torch.export import Dim

import pipeline


class Writers(nn.Module):
    """Scatters, slices and rows written into zeros and ones, views of them, and the zeros themselves."""

    def forward(self, x):
        size = x.shape[0]
        zeros, ones, places = torch.zeros(size, 4), torch.ones(size, 4), torch.arange(size)
        return (
            zeros.index_add(0, places, x),
            torch.zeros(size, 4).index_add(0, places, x * 3),
            zeros.index_put((places,), x * 2),
            zeros.index_copy(0, places, x * 4),
            zeros.slice_scatter(x[:2], 0, 0, 2),
            zeros.slice_scatter(x[:2] * 3, 0, 0, 2),
            zeros.select_scatter(x[0], 0, 1),
            zeros.select_scatter(x[1], 0, 1),
            zeros.view(size, 2, 2).slice_scatter(x.view(-1, 2, 2)[:2], 0, 0, 2),
            zeros + 1,
            zeros,
            ones.index_add(0, places, x),
            ones,
        )


def test_each_writer_has_its_own_fill():
    shapes = ({0: Dim("size", min=3, max=50)},)
    exe = pipeline.compile(Writers(), args=(torch.randn(3, 4),), dynamic_shapes=shapes)
    for size in (3, 17):
        x = torch.randn(size, 4)
        torch.testing.assert_close(exe(x), Writers()(x))

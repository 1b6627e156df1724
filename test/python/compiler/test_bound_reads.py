"""Indices out of range, which eager refuses: a compiled program reads the nearest element, never other memory."""

import torch

import pipeline


class Reads(torch.nn.Module):
    def forward(self, x, rows, columns):
        return (
            torch.nn.functional.embedding(rows, x),
            x.index_select(0, rows),
            x.gather(1, columns),
            x[rows, :2],
            x[rows, columns[:, 0]],
        )


def test_reads_stay_inside():
    x = torch.randn(7, 5)
    inside = torch.tensor([0, 3, 6]), torch.tensor([[0, 4], [1, 1], [3, 2]])
    run = pipeline.compile(
        Reads(),
        args=(x, *inside),
        dynamic_shapes={"x": {0: torch.export.Dim("n", min=3, max=99)}, "rows": None, "columns": None},
    )
    torch.testing.assert_close(run(x, *inside), Reads()(x, *inside))
    rows, columns = torch.tensor([-(10**12), 3, 7]), torch.tensor([[-9, 5], [1, 10**15], [99, 2]])
    nearest = Reads()(x, rows.clamp(0, 6), columns.clamp(0, 4))
    torch.testing.assert_close(run(x, rows, columns), nearest)

"""Elements read out of a slice or written into one, which IREE does not compile with the slice in the same dispatch."""

from collections.abc import Callable

import pytest
import torch

import pipeline

READS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "diagonal": lambda x: torch.diagonal(x[..., 0], 1, 2, 0),
    "slices of slices": lambda x: x[..., 1][:, :, 1:].diagonal(0, 1, 2),
    "rows": lambda x: x[..., 0][torch.tensor([0, 2])],
    "gather": lambda x: x[..., 0].gather(2, torch.tensor([3, 0, 2]).expand(5, 4, 3)),
    "steps": lambda x: x[1::2, :, :, 1].flip(0),
    "reversed columns": lambda x: x[:, 2, 1:, 0].T.flip(0),
    "split": lambda x: x[..., 0].reshape(5, 2, 8)[:, torch.tensor([1, 0])].flip(2),
    "joined": lambda x: x[..., 0].reshape(20, 4)[torch.tensor([19, 3])],
    "beside one element": lambda x: x[..., 0].unsqueeze(1)[torch.tensor([4, 1])],
    "columns filled": lambda x: x[:, 1:3].index_fill(0, torch.tensor([0, 2]), 2.0),
    "columns copied": lambda x: x[..., 1].index_copy(1, torch.tensor([3, 0]), x[:, :2, :, 0]),
    "put into steps": lambda x: x[::2, ..., 1].index_put((torch.tensor([1]),), torch.tensor(3.0)),
    "complex": lambda x: torch.view_as_complex(x).index_fill(0, torch.tensor([0, 2]), 2.0),
    "scattered": lambda x: torch.zeros(5, 4, 4).index_put(((x[..., 0, 0] > 0).long()[:, 0],), x[..., 1]),
}


@pytest.mark.parametrize("name", READS)
def test_reads(name: str) -> None:
    x = torch.randn(5, 4, 4, 2, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(pipeline.compile(READS[name], args=(x,))(x), READS[name](x))


def test_sizes_and_places_that_are_open() -> None:
    def read(x: torch.Tensor) -> torch.Tensor:
        return x[1:, :, 1].flip(0)

    sizes = {"x": {0: torch.export.Dim("n", min=3, max=99)}}
    run = pipeline.compile(read, args=(torch.randn(6, 3, 2),), dynamic_shapes=sizes)
    for n in (6, 9):
        x = torch.randn(n, 3, 2)
        torch.testing.assert_close(run(x), read(x))

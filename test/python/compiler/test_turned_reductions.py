"""Results of rows that are read by columns, beside what they were computed from: IREE's fusion takes the row's own."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import pipeline


def exponentials(x: Tensor) -> Tensor:
    return torch.exp(x - x.amax(-1, keepdim=True))


def normalized_adjacency(x: Tensor) -> Tensor:
    """As graph convolutions have it."""
    edges = torch.relu(exponentials(x) - 0.3)
    degrees = edges.sum(-1) ** -0.5
    return edges * degrees[..., :, None] * degrees[..., None, :]


CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "sums": lambda x: exponentials(x) / exponentials(x).sum(-1)[..., None, :],
    "maxima": lambda x: exponentials(x) - exponentials(x).amax(-1)[..., None, :],
    "norms": lambda x: exponentials(x) / exponentials(x).norm(dim=-1)[..., None, :],
    "means of columns by rows": lambda x: exponentials(x) - exponentials(x).mean(-2)[..., None],
    "both ways": normalized_adjacency,
    "the usual way": lambda x: exponentials(x) / exponentials(x).sum(-1, keepdim=True),
}


@pytest.mark.parametrize("shape", [(9, 9), (2, 9, 9), (2, 3, 5, 5)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_rows_read_by_columns(name: str, shape: tuple[int, ...]) -> None:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(pipeline.compile(CASES[name], args=(x,))(x), CASES[name](x))


def test_open_sizes() -> None:
    sizes = dict.fromkeys(range(2), torch.export.Dim("size"))
    x = torch.rand(9, 9, generator=torch.Generator().manual_seed(0))
    run = pipeline.compile(CASES["both ways"], args=(x,), dynamic_shapes=(sizes,))
    for y in (x, x[:4, :4].contiguous()):
        torch.testing.assert_close(run(y), normalized_adjacency(y))

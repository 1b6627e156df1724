"""Sums over neighbouring dimensions of open size, beside what subtracts them: IREE's fusion takes wrong sizes there."""

import pytest
import torch

import pipeline

SUMMED = {"rows and columns": (4, 5, 3), "planes": (3, 2, 5, 4), "in the middle": (3, 2, 5, 4)}
DIMS = {"rows and columns": (0, 1), "planes": (0, 2, 3), "in the middle": (1, 2)}


@pytest.mark.parametrize("name", SUMMED)
def test_centred(name: str) -> None:
    def centred(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean = x.mean(DIMS[name], keepdim=True)
        return x - mean, mean

    sizes = dict.fromkeys(range(len(SUMMED[name])), torch.export.Dim.AUTO)
    x = torch.randn(SUMMED[name], generator=torch.Generator().manual_seed(0))
    run = pipeline.compile(centred, args=(x,), dynamic_shapes=(sizes,))
    for y in (x, x.repeat(2, *(1,) * (x.dim() - 1))):
        torch.testing.assert_close(run(y), centred(y))


def test_statistics_of_open_channels() -> None:
    def normalized(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, mean, variance, training=True)

    sizes = (dict.fromkeys(range(4), torch.export.Dim.AUTO), *({0: torch.export.Dim.AUTO},) * 2)
    args = torch.randn(3, 2, 3, 4), torch.zeros(2), torch.ones(2)
    ours, eager = ([tensor.clone() for tensor in args] for _ in range(2))
    run = pipeline.compile(normalized, args=args, dynamic_shapes=sizes)
    torch.testing.assert_close(run(*ours), normalized(*eager))
    torch.testing.assert_close(ours, eager)

"""Models that compute with open sizes: as floats, the smaller of two, and in ways that are refused by name."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.functional import interpolate

import pipeline

COMPUTED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bilinear": lambda x: interpolate(x, size=(7, 5), mode="bilinear"),
    "bicubic": lambda x: interpolate(x, size=(7, 5), mode="bicubic"),
    "nearest-exact": lambda x: interpolate(x, size=(7, 5), mode="nearest-exact"),
    "area": lambda x: interpolate(x, size=(7, 5), mode="area"),
    "the smaller of two": lambda x: torch.linalg.qr(x)[1].abs(),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_every_size_open(name: str) -> None:
    sizes = ({dim: torch.export.Dim.AUTO for dim in range(4)},)
    generator = torch.Generator().manual_seed(0)
    run = pipeline.compile(COMPUTED[name], args=(torch.randn(2, 3, 9, 8),), dynamic_shapes=sizes)
    for shape in ((2, 3, 9, 8), (3, 2, 11, 13)):
        x = torch.randn(shape, generator=generator)
        # Sizes as floats: weights differ by a unit in the last place of places of up to 13.
        torch.testing.assert_close(run(x), COMPUTED[name](x), rtol=1e-5, atol=1e-5)


def test_what_has_no_spelling_is_refused_by_name_and_line() -> None:
    class Share(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin() * torch.sym_float(x.shape[0]) ** 0.3

    with pytest.raises(pipeline.UnsupportedError, match="fixed sizes") as caught:
        pipeline.compile(Share(), args=(torch.ones(4),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    (found,) = caught.value.operators
    assert found.operator.endswith("pow")
    assert Path(__file__).name in found.lines[0]

"""Images of bytes are resized to eager's very bytes: a formula of floats is off by one in each fifth pixel."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import interpolate

import pipeline

WAYS: dict[str, dict[str, Any]] = {
    "smaller": {"size": (7, 9), "mode": "bilinear"},
    "larger": {"size": (40, 31), "mode": "bilinear", "align_corners": True},
    "by factors": {"scale_factor": (1.7, 0.6), "mode": "bilinear"},
    "cubic": {"size": (40, 9), "mode": "bicubic"},
    "cubic with corners": {"size": (3, 50), "mode": "bicubic", "align_corners": True},
    "antialiased": {"size": (7, 50), "mode": "bilinear", "antialias": True},
    "antialiased cubic": {"size": (40, 9), "mode": "bicubic", "antialias": True},
}


def resized(x: torch.Tensor) -> dict[str, torch.Tensor]:
    return {name: interpolate(x, **way) for name, way in WAYS.items()}


def image(height: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(height)
    return torch.randint(0, 256, (2, 3, height, width), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize(
    "compiled",
    [lambda x: pipeline.compile(resized, args=(x,)), lambda x: torch.compile(resized, backend="pipeline")],
    ids=["ahead of time", "just in time"],
)
def test_bytes(compiled: Callable[[torch.Tensor], Any]) -> None:
    x = image(20, 23)
    torch.testing.assert_close(compiled(x)(x), resized(x))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_any_size(dtype: torch.dtype) -> None:
    def resize(x: torch.Tensor) -> torch.Tensor:
        return interpolate(x, size=(11, 13), mode="bilinear")

    sizes = {"x": {2: torch.export.Dim("height", min=2, max=99)}}
    run = pipeline.compile(resize, args=(image(20, 23).to(dtype),), dynamic_shapes=sizes)
    for height in (20, 8, 31):
        x = image(height, 23).to(dtype)
        # Weights near 1 are rounded by the size of the image, in float32 at values of up to 255.
        torch.testing.assert_close(
            run(x), resize(x), rtol=1.3e-6, atol=1e-4 if dtype.is_floating_point else 0
        )

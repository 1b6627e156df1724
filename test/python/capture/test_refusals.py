"""What cannot be compiled right is refused: all of it in one message, with counts and the user's lines."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import pipeline


def line_of(function: Callable[..., object], text: str) -> str:
    """``test_refusals.py:12`` of the line of `function` that contains `text`."""
    lines, first = inspect.getsourcelines(function)
    (offset,) = [i for i, line in enumerate(lines) if text in line]
    return f"{Path(__file__).name}:{first + offset}"


@torch.library.custom_op("refused::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator that no compiler can know: torch's own are all meant to be supported one day."""
    return 2 * x


twice.register_fake(torch.empty_like)


class Unsupported(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = twice(x) + twice(x + 1)
        b = torch.poisson(x.abs())
        c = torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - torch.rand_like(y), (x,))
        return a, b, c


def test_all_unsupported_operators_are_listed_at_once() -> None:
    with pytest.raises(pipeline.UnsupportedError) as caught:
        pipeline.compile(Unsupported(), args=(torch.randn(3, 3),))
    found = {item.operator: item for item in caught.value.operators}
    assert found["refused.twice"].count == 2
    wanted = {"refused.twice": "twice(x)", "aten.poisson.default": "poisson", "aten.rand_like.default": None}
    assert set(found) == set(wanted)
    for operator, text in wanted.items():
        ends = f"{Path(__file__).name}:" if text is None else line_of(Unsupported.forward, text)
        assert any(ends in line for line in found[operator].lines)
        assert operator in str(caught.value)


class Strided(nn.Module):
    def __init__(self, offset: int | None) -> None:
        super().__init__()
        self.offset = offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x, (3,), (1,), self.offset) + 1


@pytest.mark.parametrize(
    ("offset", "x"), [(None, torch.randn(8)[::2]), (2, torch.randn(8)[2:])], ids=["between", "before"]
)
def test_memory_around_an_argument_is_refused_with_the_line(offset: int | None, x: torch.Tensor) -> None:
    with pytest.raises(pipeline.UnsupportedError, match=r"aten\.as_strided\.default x1: .* \(at ") as caught:
        pipeline.compile(Strided(offset), args=(x,))
    assert line_of(Strided.forward, "as_strided") in str(caught.value)


class WritesPlaces(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        columns = (x * 2).t()
        columns.as_strided((3,), (2,), 1).add_(1)
        return columns


def test_writing_through_places_of_a_view_is_refused() -> None:
    with pytest.raises(pipeline.UnsupportedError, match="writes through as_strided of a view"):
        pipeline.compile(WritesPlaces(), args=(torch.randn(3, 3),))


class Attribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = torch.zeros(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


def test_update_of_a_tensor_that_is_no_buffer_is_refused() -> None:
    with pytest.raises(pipeline.PipelineError, match=r"'count'.*register_buffer"):
        pipeline.compile(Attribute(), args=(torch.randn(3),))

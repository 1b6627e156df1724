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


class Unsupported(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.special.bessel_j0(x) + torch.special.bessel_j0(x + 1)
        b = torch.special.zeta(x, x)
        c = torch.linalg.svdvals(x)
        d = torch.linalg.cholesky(x @ x.T)
        e = torch.poisson(x.abs())
        f = torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))
        g = torch.fmod(x.double(), 2.0)
        return a, b, c, d, e, f, g


def test_all_unsupported_operators_are_listed_at_once() -> None:
    with pytest.raises(pipeline.UnsupportedError) as caught:
        pipeline.compile(Unsupported(), args=(torch.randn(3, 3),))
    found = {item.operator: item for item in caught.value.operators}
    assert found["aten.special_bessel_j0"].count == 2
    wanted = {
        "aten.special_bessel_j0": "bessel_j0",
        "aten.special_zeta": "zeta",
        "aten._linalg_svd": "svdvals",
        "aten.linalg_cholesky_ex": "cholesky",
        "aten.poisson.default": "poisson",
        "higher_order.cond": "cond(",
        "aten.fmod.Scalar": "fmod",
    }
    assert set(found) == set(wanted)
    for operator, text in wanted.items():
        assert [line for line in found[operator].lines if line.endswith(line_of(Unsupported.forward, text))]
        assert operator in str(caught.value)


class Loops(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ops = torch._higher_order_ops
        looped = ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))
        scanned = ops.scan(lambda carry, y: (carry + y, carry * y), torch.zeros(3), x)
        mapped = ops.map(lambda y: y + 1, x)
        return looped[1], scanned[0], mapped


def test_control_flow_is_refused_by_name() -> None:
    """torch-mlir would compile while_loop without its condition."""
    with pytest.raises(pipeline.UnsupportedError) as caught:
        pipeline.compile(Loops(), args=(torch.randn(4, 3),))
    assert {item.operator for item in caught.value.operators} == {
        "higher_order.while_loop",
        "higher_order.scan",
        "higher_order.map_impl",
    }
    assert "torch.where" in str(caught.value)


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


class Bytes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.full((2,), 3, dtype=torch.uint8)


def test_constant_of_bytes_is_refused() -> None:
    with pytest.raises(pipeline.UnsupportedError, match="uint8 constant"):
        pipeline.compile(Bytes(), args=(torch.randn(3),))

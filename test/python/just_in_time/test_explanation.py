"""What torch.compile would do is said before: the same counts as of the call itself, which changes nothing."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import pipeline
from pipeline.cli import cli
from pipeline.errors import InputError


class Noisy(nn.Module):
    """An operator in eager, one too small a part beside it, and statistics that a call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x).sin().sigmoid().exp()
        return torch.poisson(x.detach()).neg() + x


def test_it_counts_as_the_call_does_and_changes_nothing() -> None:
    model, x = Noisy(), torch.randn(3, 4)
    state, seed = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    explained = pipeline.explain(model, args=(x,), just_in_time=True)
    torch.testing.assert_close(model.state_dict(), state)
    assert torch.equal(torch.get_rng_state(), seed)
    assert model.norm.weight.grad is None
    assert pipeline.counters().graphs == 0
    torch.compile(model, backend="pipeline")(x).sum().backward()
    counted = pipeline.counters()
    assert explained.counters == counted
    assert list(counted.eager) == ["aten.poisson.default"]
    assert counted.graphs == 2


def test_the_command_shows_what_runs_in_eager_and_where_graphs_break(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        if x.sum() > 0:\n"
        "            x = x + 1\n"
        "        return torch.poisson(x)\n"
        "model, example_inputs = Model(), (torch.ones(2),)\n"
    )
    done = CliRunner().invoke(cli, ["explain", str(tmp_path / "model.py"), "--just-in-time"])
    assert done.exit_code == 0
    assert "main: graphs 2, programs 1, calls in eager 1, and beside them 1" in done.output
    assert "break: a branch on a tensor's values (at " in done.output
    assert "model.py:4)" in done.output


def test_one_call_has_no_dynamic_shapes() -> None:
    with pytest.raises(InputError, match="no dynamic_shapes and no entry_points"):
        pipeline.explain(nn.ReLU(), args=(torch.ones(2),), dynamic_shapes={}, just_in_time=True)

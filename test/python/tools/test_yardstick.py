"""The yardstick: a fixed slice of its programs is right both ways, and what is wrong is called wrong."""

import pytest
import torch
from click.testing import CliRunner

from pipeline.tools.yardstick.__main__ import main
from pipeline.tools.yardstick.cases import AHEAD, JUST_IN_TIME, WAYS, Case
from pipeline.tools.yardstick.running import CASES, IN_EAGER, OF_PYTORCH, REFUSED, RIGHT, WRONG, judge

SLICE = (
    "a step of Newton",
    "jvp of a net",
    "linearize under vmap",
    "per-sample norms of gradients",
    "gather and scatter",
    "images of any size",
)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_CACHE", "off")


def test_the_numbers_of_cases() -> None:
    assert len(CASES) >= 150
    assert all(case.ways and set(case.ways) <= set(WAYS) for case in CASES.values())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SLICE)
def test_slice(name: str, way: str) -> None:
    verdict = judge(CASES[name], way)
    assert verdict.status == RIGHT, verdict.message


def _changed(x: torch.Tensor) -> torch.Tensor:
    """Another result where it is compiled."""
    return x + 1 if torch.compiler.is_compiling() else x


@pytest.mark.parametrize(("way", "status"), [(AHEAD, WRONG), (JUST_IN_TIME, OF_PYTORCH)])
def test_what_differs(way: str, status: str) -> None:
    """Just in time PyTorch's own backend differs too, so it is not ours."""
    verdict = judge(Case(_changed, (torch.ones(3),)), way)
    assert verdict.status == status
    assert "results, number 0" in verdict.message


def test_what_is_refused() -> None:
    verdict = judge(CASES["a branch on a value"], AHEAD)
    assert (verdict.status, "control flow" in verdict.message) == (REFUSED, True)


def test_what_runs_in_eager() -> None:
    verdict = judge(CASES["functionalize"], JUST_IN_TIME)
    assert (verdict.status, "functional tensor" in verdict.message) == (IN_EAGER, True)


def test_what_raises() -> None:
    assert judge(Case(lambda x: x.no_such_method(), (torch.ones(3),)), JUST_IN_TIME).status == OF_PYTORCH


def test_command() -> None:
    result = CliRunner().invoke(main, ["jvp", "--way", AHEAD])
    assert (result.exit_code, result.output) == (0, "ahead of time: 1 tried: 1 right\n")
    assert CliRunner().invoke(main, ["no such"]).exit_code == 2

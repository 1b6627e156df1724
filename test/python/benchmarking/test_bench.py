"""`pipeline bench`: what it times is checked, who fails is a row, and the figures are what they say."""

import json
import math
import sys

import pytest
import torch
from torch import nn

from pipeline.bench_command import check_files, thread_count
from pipeline.benchmarking import competitors, tables
from pipeline.benchmarking.checking import InferenceCheck, TrainingCheck
from pipeline.benchmarking.competitors import COMPETITORS, OURS, Ready
from pipeline.benchmarking.contest import Rules, compete
from pipeline.benchmarking.results import Entrant, Ratio, Result, geometric_mean, read_json, write_json
from pipeline.benchmarking.roofline import Peaks, Roofline, roofline
from pipeline.benchmarking.training_steps import Loop
from pipeline.benchmarking.workload import Subject, Workload, load, name_of
from pipeline.cli import main
from pipeline.errors import InputError

MODEL = """
import os, torch
from torch import nn
torch.manual_seed(0)

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 32)
    def forward(self, x, *, scale):
        return {"y": self.layer(x) * scale, "n": 3, "z": x.sum()}

class Dies(nn.Module):
    calls = 0
    def __deepcopy__(self, memo):
        return Dies()
    def forward(self, x, *, scale):
        Dies.calls += 1
        if Dies.calls > 1:
            os._exit(7)
        return x

model, dies = Two(), Dies()
example_inputs = ((torch.randn(4, 16),), {"scale": 2.0})
benchmark_inputs = ((torch.randn(8, 16),), {"scale": 2.0})
"""
TRAINED = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(8, 4)
loss_fn = nn.MSELoss()
example_inputs = (torch.randn(16, 8), torch.randn(16, 4))
clip_norm = 0.5
def get_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)
"""
QUICK = Rules(rounds=3, seconds=0.001, patience=300.0)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(MODEL)
    return str(path)


@pytest.fixture
def trained(tmp_path):
    path = tmp_path / "trained.py"
    path.write_text(TRAINED)
    return str(path)


def entrant(name, *seconds, **values):
    """One whose rounds took these seconds, one call each, and half of them in CPU time."""
    given = {
        "failure": None,
        "absent": False,
        "problem": None,
        "error": 0.0,
        "note": "",
        "compile_seconds": 1.0,
    }
    given |= {
        "compile_bytes": 1,
        "run_bytes": 1,
        "wall": [[s] for s in seconds],
        "cpu": [[s / 2] for s in seconds],
    }
    return Entrant(name, **(given | values))


def result(*entrants, clock="wall", limit=None):
    return Result("m", False, 1, clock, list(entrants), limit)


def test_processes_of_their_own_checked_and_timed_in_turns(model):
    ours, eager = compete(Subject(model), [OURS, "eager"], QUICK, lambda text: None)
    for found in (ours, eager):
        assert found.failure is None
        assert found.problem is None
        assert len(found.wall) == len(found.cpu) == QUICK.rounds
        assert all(calls and min(calls) > 0 for calls in found.wall)
    assert ours.compile_seconds > eager.compile_seconds
    assert ours.note
    if sys.platform == "linux":
        assert ours.run_bytes > 1e7
        assert ours.compile_bytes > 1e7


def test_who_dies_is_a_row(model):
    (found,) = compete(Subject(f"{model}:dies"), ["eager"], QUICK, lambda text: None)
    assert found.failure is not None
    assert "status 7" in found.failure
    assert found.wall == []


def test_a_training_step_is_timed_and_its_losses_compared(trained):
    ours, eager = compete(Subject(trained, train=True), [OURS, "eager"], QUICK, lambda text: None)
    assert (ours.problem, eager.problem) == (None, None)
    assert (ours.failure, eager.failure) == (None, None)


def test_wrong_results_are_found(model):
    work = load(Subject(model))
    check = InferenceCheck(work)
    y = work.model.layer(work.args[0]) * 2.0
    right, wrong = {"y": y, "z": work.args[0].sum()}, {"y": y + 1e-3, "z": work.args[0].sum()}
    assert check.verdict(Ready(lambda: right)).problem is None
    found = check.verdict(Ready(lambda: wrong))
    assert found.problem is not None
    assert found.error == pytest.approx(1e-3, rel=1e-2)
    assert "1 tensors" in check.verdict(Ready(lambda: y)).problem


def test_a_step_that_does_not_train_is_found(trained):
    work = load(Subject(trained, train=True))
    check = TrainingCheck(work)
    first = Loop(work.loaded)()
    assert check.verdict(Ready(lambda: first)).problem.startswith("loss 2")


def test_benchmark_inputs_come_before_example_inputs(model):
    work = load(Subject(model))
    assert work.args[0].shape == (8, 16)
    flat, tensors = work.flat()
    assert [t.shape for t in flat(*tensors)] == [(8, 32), ()]


@pytest.mark.parametrize(("name", "package"), [("onnxruntime", "onnxruntime"), ("openvino", "openvino")])
def test_what_is_not_installed_says_so(model, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError):
        COMPETITORS[name](load(Subject(model)))
    row = entrant(name, failure="ModuleNotFoundError", absent=True)
    assert "not installed" in [
        str(cell) for column in tables.table(result(row)).columns for cell in column.cells
    ]


@pytest.mark.parametrize(("name", "package"), [("onnxruntime", "onnxscript"), ("openvino", "openvino")])
def test_others_compute_what_eager_does(model, name, package):
    pytest.importorskip(package)
    work = load(Subject(model))
    check = InferenceCheck(work)
    assert check.verdict(COMPETITORS[name](work)).problem is None


def test_ratios_are_of_the_fastest_calls_with_the_quartiles_of_the_rounds():
    ours, other = entrant(OURS, 1.0, 2.0, 2.0, 1.0), entrant("eager", 3.0, 4.0, 8.0, 2.0)
    found = result(ours, other, limit=Roofline(10, 10, 0.25))
    assert found.ratio(OURS, "eager") == Ratio(least=2.0, low=2.0, median=2.5, high=3.75)
    assert found.fraction(OURS) == 0.25
    assert result(ours, other, clock="cpu", limit=Roofline(1, 1, 0.25)).fraction(OURS) == 0.5
    assert found.ratio(OURS, "openvino") is None
    assert result(ours, entrant("eager", 3.0, failure="died")).ratio(OURS, "eager") is None
    assert other.median("wall") == 3.5
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert math.isnan(geometric_mean([]))


def test_the_table_compares_with_the_better_peer_and_marks_what_differs():
    rows = [entrant(OURS, 2.0), entrant("onnxruntime", 1.0, problem="output 0"), entrant("openvino", 3.0)]
    found = result(*rows)
    assert tables.better_peer(found) == 0.5
    assert "0.50*" in tables.markdown([found])
    assert "| geometric mean |  |  | 0.50 | 1.50 | 0.50 |" in tables.markdown([found])
    assert "of the fastest calls |  |  | 0.50 | 1.50 | 0.50 |" in tables.markdown([found])


def test_results_are_the_same_from_a_file_and_are_drawn(tmp_path):
    found = [result(entrant(OURS, 1.0, 1.5), entrant("eager", 2.0, 2.5), limit=Roofline(1, 2, 0.1))]
    write_json(tmp_path / "r.json", {"cpu": "x"}, found)
    assert read_json(tmp_path / "r.json") == ({"cpu": "x"}, found)
    assert json.loads((tmp_path / "r.json").read_text())["results"][0]["entrants"][1]["wall"] == [
        [2.0],
        [2.5],
    ]
    pytest.importorskip("matplotlib")
    tables.plot(found, tmp_path / "r.svg")
    assert "eager" in (tmp_path / "r.svg").read_text()


def test_the_roofline_counts_products_and_what_is_read_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(1000, 16)
            self.layer = nn.Linear(16, 32)
            self.unused = nn.Linear(100, 100)

        def forward(self, tokens):
            q = self.layer(self.table(tokens)).reshape(1, 2, 8, 16)
            return nn.functional.scaled_dot_product_attention(q, q, q)

    tokens = torch.arange(8)
    work = Workload(Model(), "forward", (tokens,), {}, 1, {})
    found = roofline(work, Peaks(flops=1e3, bandwidth=1e6, matmul="eager"))
    assert found.operations == 2 * 8 * 16 * 32 + 2 * (2 * 2 * 8 * 16 * 8)
    floats = 8 * 16 + (16 * 32 + 32) + 2 * 8 * 16
    assert found.bytes == 4 * floats + 8 * 8
    assert found.seconds == found.operations / 1e3


def test_a_training_step_reads_and_writes_weights_and_counts_backward(trained):
    work = load(Subject(trained, train=True))
    found = roofline(work, Peaks(1.0, 1.0, "eager"))
    assert found.operations == 2 * (2 * 16 * 8 * 4)  # forward, and the weight's gradient; the input has none
    assert found.bytes == 4 * (2 * (8 * 4 + 4) + 16 * 8 + 16 * 4)


def test_names_and_threads():
    assert name_of("a/b/resnet.py") == "resnet"
    assert name_of("a/t5.py:encoder") == "t5:encoder"
    assert name_of("m.pt2") == "m"
    assert thread_count("3") == 3
    assert thread_count("all") >= 1
    for text in ("0", "two", "-1"):
        with pytest.raises(InputError, match="--threads"):
            thread_count(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "none"], "--threads none"),
        (["--competitor", "onxruntime"], "--competitor onxruntime: choose from pipeline, eager"),
        (["--entry", "decode"], "choose an entry point with --entry: main"),
        (["--train"], "has no 'loss_fn'"),
        (["--json", "no/such/folder/x.json"], "does not exist"),
    ],
)
def test_bad_input_is_one_message(model, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "argv", ["pipeline", "bench", model, *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_ours_takes_the_options_of_compile(model):
    options = competitors.our_options({"target": "cpu", "cpu": "generic", "cache": True})
    assert options.cache is None
    assert options.targets[0].architecture == "generic"


def test_a_plot_is_refused_before_the_rounds(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"--plot needs matplotlib: pip install"):
        check_files(None, tmp_path / "ratios.svg")

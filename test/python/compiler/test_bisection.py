"""`pipeline verify --bisect` on a model that a wrong decomposition makes wrong, and reproducers of failing passes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import pipeline
from pipeline import bisection, compiler
from pipeline.api import compile_options
from pipeline.entry_points import EntrySpec


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        for _ in range(5):
            x = x.sin()
        x = nn.functional.gelu(self.linear(x))  # line: wrong
        return {"sum": (x * 2).sum(-1), "calls": self.calls + 1}


def test_the_first_wrong_operator_and_its_line_are_named(monkeypatch):
    # Few values a round, so that it takes more than one.
    monkeypatch.setattr(bisection, "_PROBES", 4)
    spec = EntrySpec((torch.rand(2, 4),), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=2, max=8)}})
    options = compile_options(decompositions={"aten.gelu.default": lambda x, approximate="none": x / 2})
    culprit = bisection.bisect(Counting(), {"main": spec}, options)
    assert culprit is not None
    assert culprit.operator == "aten.gelu.default"
    source = Path(__file__).read_text().splitlines()
    number = next(i for i, line in enumerate(source, 1) if "# line: wrong" in line)
    assert (culprit.line or "").endswith(f"test_bisection.py:{number}")
    assert culprit.comparison.error > 1e-3


def test_a_failing_pass_leaves_a_reproducer_that_pipeline_opt_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPELINE_REPRODUCERS", str(tmp_path))
    failing = "cse,func.func(torch-finalizing-backend-type-conversion)"
    monkeypatch.setattr(compiler, "passes_between", lambda *_: [("refined", failing)])
    with pytest.raises(
        pipeline.InternalError, match=r"the pass func.func.*failed in stage refined"
    ) as caught:
        pipeline.compile(nn.ReLU(), args=(torch.rand(3),))
    folder = caught.value.reproducer
    assert folder is not None and "pipeline-opt ." in Path(folder, "README.txt").read_text()
    again = subprocess.run(
        [Path(sys.executable).parent / "pipeline-opt", folder], capture_output=True, text=True, check=False
    )
    assert again.returncode == 4
    assert "error: func.func(torch-finalizing-backend-type-conversion): " in again.stderr

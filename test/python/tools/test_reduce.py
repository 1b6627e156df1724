"""tools/reduce: what the search leaves, and that the file it writes fails as the whole did."""

import runpy

import torch
from torch import nn

from pipeline.api import compile_options
from pipeline.entry_points import EntrySpec
from pipeline.tools.reduce import program, writing
from pipeline.tools.reduce.failure import Failure, failure
from pipeline.tools.reduce.search import reduce


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, scale=2.0):
        self.calls += 1
        y = self.linear(x).sin()
        a, b = nn.functional.gelu(y).split(4, dim=-1)
        return {"a": a.cos() * scale, "b": [torch.maximum(b, a).exp()]}


def whole():
    return program.read(Branches(), EntrySpec((torch.rand(5, 6),)))


def operators(program):
    return [str(node.target) for node in program.operators()]


def test_the_search_leaves_what_fails():
    # One operator, and two of which one needs the other.
    for wanted in (["aten.gelu.default"], ["aten.sin.default", "aten.gelu.default"]):
        smallest = reduce(whole(), lambda candidate: set(wanted) <= set(operators(candidate)))
        assert operators(smallest) == wanted
        assert [tuple(value.shape) for value in smallest.values()] == [(1, 1)]


def test_the_file_that_is_written_fails_too(tmp_path):
    options = compile_options(decompositions={"aten.gelu.default": lambda x, approximate="none": x / 2})
    cut = whole().cut(results=["gelu"], inputs=frozenset({"sin"}))
    found = failure(cut, options, 100)
    assert found is not None and found.kind == "wrong value"
    (tmp_path / "reduced.py").write_text(writing.text(cut, found, "model.py", {}))
    written = runpy.run_path(str(tmp_path / "reduced.py"))
    torch.testing.assert_close(written["model"](*written["example_inputs"]), cut.module()(*cut.values()))


def test_a_crash_is_a_failure_and_spares_this_process(monkeypatch):
    import os
    import signal

    monkeypatch.setattr(program.Program, "module", lambda self: os.kill(os.getpid(), signal.SIGSEGV))
    assert failure(whole(), compile_options(), 100) == Failure(
        "crash SIGSEGV", "the process that ran the program ended: SIGSEGV"
    )

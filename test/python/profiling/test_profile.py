"""`pipeline profile`: which dispatch took how long, of which of the user's lines it is, and what it computes."""

import json
import sys

import pytest
import torch

from pipeline.api import capture_checked, compile_options
from pipeline.benchmarking.roofline import Peaks
from pipeline.cli import main
from pipeline.entry_points import EntrySpec
from pipeline.model_file import load_model
from pipeline.profiling import outputs
from pipeline.profiling.compiled import Origin, Sources, Work, compile_with_sources
from pipeline.profiling.profile import profile_of
from pipeline.profiling.running import Event, profiled_calls
from pipeline.runtime import Executable

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(64, 64))
        self.second = nn.Parameter(torch.randn(64, 64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
    def forward(self, x, mask):
        self.count += 1
        x = torch.softmax(x @ self.first, -1)      # line 13
        x = torch.softmax(x @ self.second, -1)     # line 14
        return torch.where(mask, x, torch.rand_like(x))

model = Model()
example_inputs = (torch.randn(16, 64), torch.ones(16, 64, dtype=torch.bool))
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """The file's folder, its artifact, what is known of its dispatches, and three calls."""
    folder = tmp_path_factory.mktemp("profiled")
    path = folder / "two.py"
    path.write_text(MODEL)
    loaded = load_model(str(path))
    options = compile_options()
    artifact, sources = compile_with_sources(capture_checked(loaded.model, loaded.entries, options), options)
    state = Executable(artifact, device="local-sync").state_dict()
    entry = artifact.manifest.entry_points["main"]
    return folder, artifact, sources, profiled_calls(artifact, entry, state, calls=3, threads=1)


def is_product(function):
    """Whether a dispatch is one, of IREE's or of ours."""
    return "matmul" in function or function.startswith("product_")


def lines(origins):
    return {int(origin.line.rpartition(":")[2]) for origin in origins if origin.line}


def test_dispatches_are_of_the_users_lines(profiled):
    _, _, sources, calls = profiled
    found = profile_of("main", calls, sources, None, 1)
    products = [d for d in found.timeline if is_product(d.function)]
    assert [13 in lines(d.origins) for d in products] == [True, False]
    assert [14 in lines(d.origins) for d in products] == [False, True]
    softmaxes = [d for d in found.timeline if any("softmax" in o.operator for o in d.origins)]
    assert set().union(*(lines(d.origins) for d in softmaxes)) >= {13, 14}


def test_work_is_counted(profiled):
    _, _, sources, _ = profiled
    (name, product) = next((n, w) for n, w in sources.functions.items() if is_product(n))
    assert product.operations == 2 * 16 * 64 * 64, name
    # Both operands are read and the result is written, and what the dispatch does beside may read one more.
    assert 4 * (64 * 64 + 2 * 16 * 64) <= product.bytes <= 4 * 2 * (64 * 64 + 2 * 16 * 64)


def test_every_call_makes_the_dispatches_of_the_program(profiled):
    _, _, sources, calls = profiled
    assert len(calls) == 3
    planned = sorted(name for name, _ in sources.calls)
    for events in calls:
        assert sorted(event.function for event in events) == planned
        assert all(event.duration > 0 for event in events)
        assert min(event.start for event in events) == 0


def test_the_artifact_is_the_one_without_locations(profiled):
    folder, artifact, _, _ = profiled
    assert str(folder).encode() not in artifact.vmfb.read_bytes()
    assert b"<node>" not in artifact.vmfb.read_bytes()
    executable = Executable(artifact, device="local-sync")
    result = executable(torch.randn(16, 64), torch.ones(16, 64, dtype=torch.bool))
    torch.testing.assert_close(result.sum(-1), torch.ones(16))
    assert int(executable.state_dict()["count"]) == 1


SHARED = Work((Origin("aten.mm", "m.py:1"),), 2000, 100)
OWN = Work((Origin("aten.add", "m.py:7"), Origin("aten.relu", "m.py:8")), None, None)
SOURCES = Sources(
    {"mm": SHARED, "add": OWN},
    [
        ("mm", (Origin("aten.mm", "m.py:1"),)),
        ("add", OWN.origins[:1]),
        ("mm", (Origin("aten.mm", "m.py:2"),)),
    ],
)
CALLS = [
    [Event("mm", 0, 100, 100), Event("add", 150, 50, 50), Event("mm", 200, 300, 300)],
    [Event("mm", 0, 200, 200), Event("add", 200, 40, 40), Event("mm", 240, 160, 160)],
]


def test_rows_take_the_least_of_each_dispatch_and_the_timeline_the_fastest_call():
    found = profile_of("main", CALLS, SOURCES, Peaks(1e11, 1e9, "eager"), 1)
    assert (found.span, found.between) == (400, 0)
    mm, add = found.rows
    assert (mm.function, mm.count, mm.nanoseconds, mm.operations, mm.bytes) == ("mm", 2, 260, 4000, 200)
    assert mm.fraction == pytest.approx(200 / 260)  # 200 bytes at a byte per nanosecond
    assert (add.nanoseconds, add.operations, add.fraction) == (40, None, None)
    assert [origin.line for origin in mm.origins] == ["m.py:1", "m.py:2"]
    # A dispatch is named by the operator at its root; the others in it are known from its function.
    assert found.timeline[1].origins == OWN.origins


def test_loops_make_more_dispatches_than_the_program_says():
    calls = [[*CALLS[0], Event("mm", 500, 10, 10)]]
    found = profile_of("main", calls, SOURCES, None, 1)
    assert [lines(d.origins) for d in found.timeline] == [{1}, {7, 8}, {1}, {1}]


def test_trace_and_page(tmp_path):
    found = profile_of("main", CALLS, SOURCES, None, 1)
    outputs.write_trace(found, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["tid"] == 0]
    assert [(e["name"], e["ts"], e["dur"]) for e in slices] == [
        ("mm", 0.0, 0.2), ("add", 0.2, 0.04), ("mm", 0.24, 0.16)
    ]  # fmt: skip
    assert slices[2]["args"] == {"operators": ["mm"], "lines": ["m.py:2"], "operations": 2000, "bytes": 100}
    outputs.write_page(found, tmp_path / "p.html", "<m> & co")
    page = (tmp_path / "p.html").read_text()
    assert "<title>&lt;m&gt; &amp; co</title>" in page
    assert page.count('<div data-row="0"') == 2
    assert "left: 60.0000%; width: 40.0000%" in page


def test_the_command_on_an_artifact(profiled, tmp_path, monkeypatch, capsys):
    _, artifact, _, calls = profiled
    path = tmp_path / "two.vmfb"
    artifact.save(path)
    arguments = [
        str(path),
        "--no-roofline",
        "--calls",
        "2",
        "--threads",
        "2",
        "--json",
        str(tmp_path / "p.json"),
    ]
    monkeypatch.setattr(sys, "argv", ["pipeline", "profile", *arguments])
    main_or_exit()
    assert f"{len(calls[0])} dispatches" in capsys.readouterr().out
    found = json.loads((tmp_path / "p.json").read_text())
    assert len(found["timeline"]) == len(calls[0])
    assert found["threads"] == 2


def main_or_exit():
    """Runs the command; its exit code."""
    try:
        main()
    except SystemExit as end:
        return end.code
    return 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "vulkan"], "--target: a profile is taken on the CPU"),
        (["--trace", "no/such/folder/t.json"], "does not exist"),
        (["--train"], "has no 'loss_fn'"),
    ],
)
def test_bad_input_is_one_message(profiled, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "argv", ["pipeline", "profile", str(profiled[0] / "two.py"), *arguments])
    assert main_or_exit() == 2
    assert message in capsys.readouterr().err


def test_of_a_table_only_what_is_looked_up_counts():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(5000, 32)

        def forward(self, tokens):
            return torch.relu(self.table(tokens))

    options = compile_options()
    spec = EntrySpec((torch.arange(8),))
    _, sources = compile_with_sources(capture_checked(Model(), {"main": spec}, options), options)
    (work,) = (sources.functions[name] for name, _ in sources.calls)
    assert work.bytes == 8 * 8 + 2 * (8 * 32 * 4)
    assert "aten.embedding" in [origin.operator for origin in work.origins]


def test_dynamic_sizes_leave_work_unknown():
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x @ x.T, -1)

    spec = EntrySpec((torch.randn(8, 16),), dynamic_shapes={"x": {0: torch.export.Dim("n", min=2, max=64)}})
    options = compile_options()
    artifact, sources = compile_with_sources(capture_checked(Model(), {"main": spec}, options), options)
    assert None in [work.operations for work in sources.functions.values()]
    entry = artifact.manifest.entry_points["main"]
    (events,) = profiled_calls(artifact, entry, {}, calls=1, threads=1)
    assert events

"""Where IREE fails on open sizes, the user learns at which operator and line, and that fixed sizes may help."""

from pathlib import Path

import torch

import pipeline
from pipeline import api
from pipeline.open_size_failures import refuse_open_sizes
from pipeline.program import Program


def _captured(*, is_open: bool) -> Program:
    x = torch.ones(4, 3)
    shapes = {"x": {0: torch.export.Dim("rows")}} if is_open else None
    entries = api.entry_specs((x,), None, shapes, None)
    return api.capture_checked(_Model(), entries, api.compile_options("cpu"))


class _Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin().cumsum(0)


def test_names_the_operator_and_the_line() -> None:
    program = _captured(is_open=True)
    (entry,) = program.entries.values()
    nodes = list(entry.module.graph.nodes)
    number = next(i for i, node in enumerate(nodes) if node.target is torch.ops.aten.sin.default)
    said: list[str] = []

    def compile_again() -> str:
        said.append(nodes[number].meta["stack_trace"])
        return f"<nodes>:{number}:0: error: too deep\n<unknown>:0: error: and so on\n"

    error = refuse_open_sizes(program, compile_again)
    assert isinstance(error, pipeline.UnsupportedError)
    (found,) = error.operators
    assert (found.operator, found.reason) == ("aten.sin.default", "too deep")
    assert Path(__file__).name in found.lines[0]
    assert "rows" in str(error) and "dynamic_shapes" in str(error)
    # The lines were numbers only while it compiled.
    assert "<nodes>" in said[0] and "<nodes>" not in nodes[number].meta["stack_trace"]


def test_says_nothing_that_it_does_not_know() -> None:
    assert refuse_open_sizes(_captured(is_open=True), lambda: "<unknown>:0: error: no place") is None
    assert refuse_open_sizes(_captured(is_open=False), lambda: "<nodes>:1:0: error: too deep") is None

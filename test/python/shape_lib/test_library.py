"""The library's shape and dtype functions against PyTorch: a slice of what `check_shape_library` does in full."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from pipeline.dialect_passes.operators import load_families
from pipeline.tools.check_shape_library import main
from pipeline.tools.shape_check.calls import Call, Calls, Recorder, Tensor
from pipeline.tools.shape_check.compiled import refined_problem
from pipeline.tools.shape_check.judge import Entry, entries, judge
from pipeline.tools.shape_check.run import check

# OpInfos that between them reach a good part of the operators, and two dtypes that promote differently.
SLICE = (
    "fmod",
    "remainder",
    "logaddexp",
    "polar",
    "angle",
    "frexp",
    "lgamma",
    "special.zeta",
    "masked_scatter",
    "searchsorted",
    "index_reduce",
    "diagonal_scatter",
    "as_strided_scatter",
    "view_copy",
    "narrow_copy",
    "split_with_sizes",
    "linalg.solve",
    "linalg.svd",
    "linalg.qr",
    "fft.rfft",
    "fft.irfftn",
    "cummax",
    "mode",
    "cdist",
    "histogram",
    "nn.functional.conv2d",
    "nn.functional.conv_transpose2d",
    "nn.functional.avg_pool2d",
    "nn.functional.grid_sample",
    "nn.functional.interpolate",
    "nn.functional.bilinear",
)


@pytest.fixture(scope="module")
def checked() -> list[Entry]:
    """The operators that the slice reaches, checked."""
    found = check(None, 4, (torch.float32, torch.int64), 1, names=SLICE)
    return [entry for entry in found if entry.checked or entry.errors]


def test_functions_agree_with_eager(checked: list[Entry]) -> None:
    assert {entry.operator: entry.wrong for entry in checked if entry.wrong} == {}
    assert len(checked) >= 55
    assert sum(entry.checked for entry in checked) >= 300


def test_functions_refuse_what_eager_refuses(checked: list[Entry]) -> None:
    assert sum(entry.errors for entry in checked) >= 20


def test_functions_agree_as_compiled(checked: list[Entry]) -> None:
    """Wrong ones are in `wrong`; here: that the calls were refined at all."""
    assert [entry.operator for entry in checked if entry.checked and not entry.compiled] == []


def test_every_operator_has_both_functions() -> None:
    load_families()
    known = entries()
    assert [name for name, entry in known.items() if set(entry.functions) != {"shape", "dtype"}] == []
    assert len(known) >= 190


def entry_of(shape: Any, dtype: Any) -> Entry:
    return Entry("aten.fmod.Tensor", {"shape": shape, "dtype": dtype})


FMOD = Call("aten.fmod.Tensor", (Tensor((5, 1), 6), Tensor((5,), 6)), (Tensor((5, 5), 6),))
REFUSED = Call(
    "aten.fmod.Tensor", (Tensor((5, 2), 6), Tensor((5,), 6)), error="RuntimeError: The size of tensor a"
)


@pytest.mark.parametrize(
    ("shape", "dtype", "call", "says"),
    [
        (lambda a, b: a, lambda a, b: 6, FMOD, "the shape of result 0 is [5, 5], the function says [5, 1]"),
        (lambda a, b: [5, 5], lambda a, b: 7, FMOD, "the dtype of result 0 is 6, the function says 7"),
        (lambda a, b: ([5, 5], [5]), lambda a, b: 6, FMOD, "tells 2 results, there are 1"),
        (lambda a, b: a[7], lambda a, b: 6, FMOD, "the shape function fails: IndexError"),
        (lambda a, b: a, lambda a, b: 6, REFUSED, "PyTorch raises 'RuntimeError: The size of tensor a"),
    ],
)
def test_wrong_functions_are_found(shape: Any, dtype: Any, call: Call, says: str) -> None:
    entry = entry_of(shape, dtype)
    judge(entry, call)
    assert len(entry.wrong) == 1
    assert says in entry.wrong[0]


def test_needless_checks_are_found() -> None:
    def strict(a: list[int], b: list[int]) -> list[int]:
        if len(a) != len(b):
            raise AssertionError("ranks differ")
        return a

    entry = entry_of(strict, lambda a, b: 6)
    judge(entry, FMOD)
    assert entry.wrong == [f"{FMOD}: the shape function raises 'ranks differ', PyTorch does not"]


def test_checks_need_a_message() -> None:
    def silent(a: list[int], b: list[int]) -> list[int]:
        raise AssertionError

    entry = entry_of(silent, lambda a, b: 6)
    judge(entry, REFUSED)
    assert "an assertion without a message" in entry.wrong[0]


def test_wrong_libraries_are_found_as_compiled() -> None:
    """Without ours, torch-mlir's own function of fmod answers, which does not broadcast."""
    from pipeline.dialect_passes.shape_libraries import default_libraries

    assert refined_problem(FMOD, default_libraries(["aten.fmod.Tensor"])) is None
    problem = refined_problem(FMOD, [])
    assert problem is not None
    assert "result 0 is float32[5, 5]" in problem


def test_recorded_calls_have_all_arguments_in_order() -> None:
    calls = Calls({"aten.narrow_copy.default", "aten.fmod.Tensor"})
    with Recorder(calls), pytest.raises(RuntimeError):
        torch.fmod(torch.ones(2), torch.ones(3))
    with Recorder(calls):
        torch.narrow_copy(torch.ones(4, 2), 0, length=2, start=1)
        torch.narrow_copy(torch.zeros(4, 2), 0, 1, 2)
    narrow, fmod = calls.found["aten.narrow_copy.default"], calls.found["aten.fmod.Tensor"]
    assert list(narrow.values()) == [
        Call("aten.narrow_copy.default", (Tensor((4, 2), 6), 0, 1, 2), (Tensor((2, 2), 6),))
    ]
    assert [call.error is None for call in fmod.values()] == [False]
    assert calls.seen == 3


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command over the samples of one operator; an operator that no sample reaches is a problem."""
    from pipeline.tools.shape_check import samples

    chosen = [info for info in samples.op_db if info.name in ("lgamma", "fmod")]
    monkeypatch.setattr(samples, "op_db", chosen)
    report = tmp_path / "report.jsonl"
    arguments = ["--samples", "2", "--dtypes", "float32,int64", "-o", str(report), "--op", "aten.lgamma"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    record = json.loads(report.read_text())
    assert record["operator"] == "aten.lgamma.default"
    assert record["calls"] >= 4 and record["refined"] >= 1 and record["problems"] == []
    done = CliRunner().invoke(main, [*arguments, "--op", "aten.polygamma"])
    assert done.exit_code == 1
    assert "no call of it was found to check" in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--op", "aten.nothing"], "aten.nothing"),
        (["--dtypes", "float31"], "names something that is no dtype"),
    ],
)
def test_usage(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert says in done.output


def test_entries_are_whole_names() -> None:
    load_families()
    assert all(name.count(".") == 2 for name in entries())

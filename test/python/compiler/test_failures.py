"""Every failure is one clear error: unsupported operators all at once, crashes and hangs in a child."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import pipeline


@torch.library.custom_op("unknown::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator that no compiler can know: torch's own are all meant to be supported one day."""
    return 2 * x


@torch.library.custom_op("unknown::join", mutates_args=())
def join(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Another."""
    return x + y


twice.register_fake(torch.empty_like)
join.register_fake(lambda x, y: torch.empty_like(x))


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.fixture(autouse=True)
def reproducers(tmp_path, monkeypatch):
    folder = tmp_path / "reproducers"
    monkeypatch.setenv("PIPELINE_REPRODUCERS", str(folder))
    return folder


class TwoUnknownOperators(nn.Module):
    def forward(self, x):
        a = twice(x)  # line: twice
        b = twice(x + 1)  # line: twice again
        return join(a, b)  # line: join


def line_of(text: str) -> str:
    source = Path(__file__).read_text().splitlines()
    return f"{Path(__file__).name}:{next(i for i, line in enumerate(source, 1) if text in line)}"


def test_unsupported_lists_every_operator_with_count_and_line():
    with pytest.raises(pipeline.UnsupportedError) as caught:
        pipeline.compile(TwoUnknownOperators(), args=(torch.rand(3),))
    found = {item.operator: item for item in caught.value.operators}
    assert set(found) == {"unknown.twice", "unknown.join"}
    assert found["unknown.twice"].count == 2
    assert [Path(line).name for line in found["unknown.twice"].lines] == [
        line_of("# line: twice\n".strip()),
        line_of("# line: twice again"),
    ]
    assert line_of("# line: join") in str(caught.value)


def test_explain_finds_the_same_before_compiling():
    explanation = pipeline.explain(TwoUnknownOperators(), args=(torch.rand(3),))
    assert {item.operator for item in explanation.unsupported} == {
        "unknown.twice",
        "unknown.join",
    }
    fine = next(item for item in explanation.operators if item.operator.startswith("aten.add"))
    assert fine.problem is None and fine.lowers_to == ["linalg.generic"]


def test_a_crash_of_torch_mlir_names_the_operator_and_spares_the_process():
    # nonzero of a 0-d tensor is a SIGSEGV in torch-mlir's lowering, which our decomposition avoids.
    with pytest.raises(
        pipeline.UnsupportedError, match=r"aten.nonzero x1: .*crashed \(SIGSEGV\) \(at .*:\d+\)"
    ):
        pipeline.compile(Function(torch.nonzero), args=(torch.tensor(3.0),), keep=["aten.nonzero.default"])


def test_a_hang_of_torch_mlir_ends_at_the_time_limit():
    # The softmax of a 0-d tensor never ends in torch-mlir's lowering, which our decomposition avoids.
    model = Function(lambda x: torch.ops.aten._softmax(x, 0, False))
    with pytest.raises(pipeline.UnsupportedError, match="time limit of 6 s"):
        pipeline.compile(model, args=(torch.tensor(3.0),), timeout=6, keep=["aten._softmax.default"])


def test_iree_compile_over_its_time_limit_leaves_a_reproducer(reproducers):
    with pytest.raises(pipeline.InternalError, match="time limit") as caught:
        pipeline.compile(nn.Linear(4, 4), args=(torch.ones(2, 4),), timeout=0.01)
    assert Path(caught.value.reproducer).parent == reproducers


def test_running_out_of_memory_is_an_internal_error_with_a_reproducer():
    with pytest.raises(pipeline.InternalError) as caught:
        pipeline.compile(nn.Linear(4, 4), args=(torch.ones(2, 4),), memory_limit=24 << 20)
    folder = Path(caught.value.reproducer)
    readme = (folder / "README.txt").read_text()
    assert "torch-mlir 20261001" in readme and "pipeline-opt" in readme
    assert (folder / "torch.mlirbc").exists()


def test_a_reproducer_runs_again(tmp_path):
    """iree-compile fails at every rung: the folder holds the module and the command that fails the same way."""
    with pytest.raises(pipeline.InternalError, match="failed with every option set") as caught:
        pipeline.compile(
            nn.Linear(4, 4),
            args=(torch.ones(2, 4),),
            iree_args=["--iree-hal-preprocess-executables-with=false"],
        )
    folder = Path(caught.value.reproducer)
    command = (folder / "README.txt").read_text().split("Run it again in this folder:\n")[1].strip()
    path = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
    again = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode != 0 and "failed to preprocess executable" in again.stderr


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--nonsense", "refuses an option: .*nonsense"),
        ("--iree-llvmcpu-stack-allocation-limit=banana", "refuses an option: .*stack-allocation-limit"),
        # iree-compile itself says so, carries on without it, and exits with 0.
        (
            "--iree-preprocessing-pass-pipeline=builtin.module(no-such-pass)",
            "ignored an option: .*no-such-pass",
        ),
    ],
)
def test_a_bad_iree_option_is_the_users_mistake(option, message):
    with pytest.raises(pipeline.InputError, match=message):
        pipeline.compile(nn.Linear(4, 4), args=(torch.ones(2, 4),), iree_args=[option])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "tpu"}, "target 'tpu' is unknown; choose from cpu, vulkan, cuda"),
        ({"target": "cpu,cpu"}, "names a device twice"),
        ({"target": "cuda", "cuda_arch": "ampere"}, "must look like sm_80"),
        ({"target": "cuda", "cuda_arch": "sm_50"}, "older than sm_75"),
        ({"cpu": "pentium9"}, "cpu 'pentium9' is unknown. List of accepted CPUs: .*haswell"),
        ({"weights": "everywhere"}, "weights 'everywhere' is unknown; choose from auto, inline, external"),
        ({"print_after": ["no-such-pass"]}, "no stage or pass 'no-such-pass'"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(pipeline.InputError, match=message):
        pipeline.compile(nn.Linear(4, 4), args=(torch.ones(2, 4),), **options)


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("model", {"args": (torch.ones(2),)}, "must be a torch.nn.Module, a function"),
        (nn.Linear(4, 4), {"args": torch.ones(2, 4)}, "must be a tuple of arguments, got a tensor"),
        (nn.Linear(4, 4), {"args": ()}, "do not fit Linear.forward"),
        (nn.Linear(4, 4), {"args": (torch.ones(2, 5),)}, "cannot be captured with these example inputs"),
        (
            nn.Linear(4, 4),
            {"args": (torch.ones(2, 4),), "dynamic_shapes": ({0: torch.export.Dim("b", min=3)},)},
            "torch.export refused",
        ),
        (
            nn.Linear(4, 4),
            {"args": (torch.ones(2, 4),), "entry_points": {"main": {}}},
            "either args/kwargs/dynamic_shapes or entry_points",
        ),
        (nn.Linear(4, 4), {"entry_points": {"main": {"arguments": ()}}}, r"unknown keys \['arguments'\]"),
        (nn.Linear(4, 4), {"entry_points": {"other": {}}}, "has no method 'other'"),
        (nn.Linear(4, 4, device="meta"), {"args": (torch.ones(2, 4, device="meta"),)}, "meta device"),
    ],
)
def test_bad_models_and_arguments(model, arguments, message):
    with pytest.raises(pipeline.InputError, match=message):
        pipeline.compile(model, **arguments)


class NumbersFromValues(nn.Module):
    """What a tensor's values decide, as Python has it."""

    def __init__(self, what):
        super().__init__()
        self._what = what

    def forward(self, x):
        if self._what == "item":
            return x.sum().item()  # line: item
        return x if torch.equal(x, -x) else -x  # line: equal


@pytest.mark.parametrize("what", ["item", "equal"])
def test_numbers_from_values_name_the_line(what):
    with pytest.raises(
        pipeline.UnsupportedError, match="Python number that depends on a tensor's values"
    ) as caught:
        pipeline.compile(NumbersFromValues(what), args=(torch.ones(2),))
    assert line_of(f"# line: {what}") in str(caught.value)


class BranchesOnValues(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # line: branch
            return x
        return -x


def test_control_flow_on_values_names_the_line():
    with pytest.raises(
        pipeline.UnsupportedError, match=r"depends on a tensor's values \(at .*torch.cond"
    ) as caught:
        pipeline.compile(BranchesOnValues(), args=(torch.ones(2),))
    assert line_of("# line: branch") in str(caught.value)

"""The judge: what `verify` calls right and wrong, with executables that are wrong on purpose."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pipeline
from pipeline.api import entry_specs
from pipeline.entry_points import EntrySpec
from pipeline.errors import InputError
from pipeline.reference import Call, Reference
from pipeline.verify import Pair, compare, verify


@dataclasses.dataclass
class Output:
    scaled: torch.Tensor
    parts: dict


torch.export.register_dataclass(Output, serialized_type_name="test_verify.Output")


class Everything(torch.nn.Module):
    """A dataclass with a dict, an int and a constant inside, state, and an input updated in place."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def step(self, x, log, *, factor: float = 2.0):
        self.calls += 1
        self.total += x.sum(0)
        log += 1
        y = self.linear(x) * factor
        return Output(y, {"rows": x.shape[0], "none": None, "mask": y > 0, "index": y.argmax(1)})


def everything():
    torch.manual_seed(0)
    spec = {
        "method": "step",
        "args": (torch.randn(3, 4), torch.zeros(2, dtype=torch.int32)),
        "kwargs": {"factor": 3.0},
        "dynamic_shapes": {"x": {0: torch.export.Dim("rows", min=1, max=9)}, "log": None, "factor": None},
        "further_inputs": [((torch.randn(5, 4), torch.ones(2, dtype=torch.int32)), {"factor": 3.0})],
    }
    return Everything(), {"step": spec}


@pytest.fixture(scope="module")
def right_and_wrong(tmp_path_factory):
    """A model, its entry points, its executable, and the same with one weight changed by 1 %."""
    folder = tmp_path_factory.mktemp("verify")
    model, entry_points = everything()
    good = pipeline.compile(model, entry_points=entry_points, weights="external")
    good.save(folder / "good.vmfb")
    other, _ = everything()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        other.linear.weight[2, 1] *= 1.01
    pipeline.compile(other, entry_points=entry_points, weights="external").save(folder / "other.vmfb")
    bad = pipeline.load(folder / "good.vmfb", weights=folder / "other.irpa")
    return model, entry_specs((), None, None, entry_points), good, bad


def test_everything_a_call_leaves_is_compared(right_and_wrong):
    model, entries, good, _ = right_and_wrong
    found = {item.name: item for item in verify(model, entries, good)}
    assert [item for item in found.values() if not item.right] == []
    leaves = ["output.scaled", "output.parts['rows']", "output.parts['mask']", "output.parts['index']"]
    leaves += ["updated log", "state total", "state calls"]
    for prefix in ("", "call 2: ", "further inputs 1: "):
        assert {prefix + leaf for leaf in leaves} <= found.keys()


def test_one_changed_weight_is_wrong(right_and_wrong):
    model, entries, _, bad = right_and_wrong
    wrong = {item.name for item in verify(model, entries, bad) if not item.right}
    assert "output.scaled" in wrong and "further inputs 1: output.scaled" in wrong
    assert not any("state" in name for name in wrong)


def test_a_wrong_initial_state_is_wrong(right_and_wrong):
    model, entries, good, _ = right_and_wrong
    moved = Everything()
    moved.load_state_dict(model.state_dict())
    moved.total += 1
    wrong = [item.name for item in verify(moved, entries, good) if not item.right]
    assert wrong == ["initial state total"]


def test_verifying_moves_neither_the_model_nor_the_executable(right_and_wrong):
    model, entries, good, _ = right_and_wrong
    verify(model, entries, good)
    assert model.calls == 0 and good.state_dict()["calls"] == 0


def test_a_given_tolerance_is_for_floats_only(right_and_wrong):
    model, entries, _, bad = right_and_wrong
    assert all(
        item.right for item in verify(model, entries, bad, rtol=0.5, atol=0.5) if "scaled" in item.name
    )
    counts = Pair("calls", torch.tensor(1), torch.tensor(2))
    assert not compare("calls", counts, (10.0, 10.0)).right
    with pytest.raises(InputError, match="both rtol and atol"):
        verify(model, entries, bad, rtol=0.5)


def test_an_exported_program_is_its_own_reference(right_and_wrong):
    model, entries, _, _ = right_and_wrong
    spec = entries["step"]
    with spec.as_forward(model, "step"):
        program = torch.export.export(model, spec.args, dict(spec.kwargs), dynamic_shapes=spec.dynamic_shapes)
    executable = pipeline.compile(program)
    calls = {"main": EntrySpec(spec.args, spec.kwargs, further_inputs=spec.further_inputs)}
    found = verify(program, calls, executable)
    assert len(found) == 21 and all(item.right for item in found)


class Casts(torch.nn.Module):
    """A deep model that normalises in float32, as language models do."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            wide = x.to(torch.float32)
            wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + torch.tensor(1e-6))
            x = layer(wide) + torch.arange(16, dtype=torch.float32)
        return x


@pytest.mark.parametrize("exported", [False, True])
def test_the_float64_run_is_float64_throughout(exported):
    torch.manual_seed(0)
    model, x = Casts(), torch.randn(2, 16)
    expected = x.double()
    for layer in model.layers:
        expected = expected * torch.rsqrt(expected.pow(2).mean(-1, keepdim=True) + 1e-6)
        expected = expected @ layer.weight.double().T + layer.bias.double() + torch.arange(16.0)
    entry = pipeline.compile(model, args=(x,)).manifest.entry_points["main"]
    reference = Reference(torch.export.export(model, (x,)) if exported else model)
    run = reference.run_in_float64(Call("forward", (x,), {}), entry, {})
    assert run is not None and run.result.dtype == torch.float64
    # 1e-6 is written as a float32 tensor in the model, hence the relative tolerance.
    torch.testing.assert_close(run.result, expected, rtol=1e-12, atol=1e-12)
    assert reference.run(Call("forward", (x,), {}), entry, []).result.dtype == torch.float32


def test_random_numbers_give_no_float64_run():
    model = torch.nn.Dropout(0.5).train()
    entry = pipeline.compile(torch.nn.Identity(), args=(torch.ones(4),)).manifest.entry_points["main"]
    call = Call("forward", (torch.ones(4),), {})
    assert Reference(model).run_in_float64(call, entry, {}) is None


def judged(exact, eager_error, compiled_error):
    exact = torch.tensor(exact, dtype=torch.float64)
    eager = (exact + torch.tensor(eager_error, dtype=torch.float64)).float()
    compiled = (exact + torch.tensor(compiled_error, dtype=torch.float64)).float()
    return compare("x", Pair("x", eager, compiled, lambda: exact))


def test_twice_eagers_own_error_is_right_and_more_is_wrong():
    fine = judged([100.0, 1.0], [1e-3, 0.0], [-1.8e-3, 0.0])
    assert fine.right and fine.eager_error == pytest.approx(1e-3, rel=0.02)
    assert fine.compiled_error == pytest.approx(1.8e-3, rel=0.02)
    assert not judged([100.0, 1.0], [1e-3, 0.0], [-2.2e-3, 0.0]).right


def test_where_eager_is_no_measure_twice_its_error_is_not_enough():
    """A discontinuity (an argmax, a route) puts eager far from float64; anything would be within twice that."""
    found = judged([100.0, 1.0], [30.0, 0.0], [-30.0, 0.0])
    assert not found.right and "too far from float64" in found.problem


@pytest.mark.parametrize(
    "eager, compiled",
    [
        ([1.0, float("nan")], [1.0, float("inf")]),
        ([1.0, float("inf")], [1.0, -float("inf")]),
        ([1.0, float("inf")], [1.1, float("inf")]),
        ([1.0, 2.0], [1.0, float("nan")]),
    ],
)
def test_nan_and_infinity_are_values(eager, compiled):
    exact = torch.tensor([1.0, 5.0], dtype=torch.float64)
    pair = Pair("x", torch.tensor(eager), torch.tensor(compiled), lambda: exact)
    assert not compare("x", pair).right
    same = compare("x", Pair("x", torch.tensor(eager), torch.tensor(eager), lambda: exact))
    assert same.right and same.error == 0.0


@pytest.mark.parametrize(
    "eager, compiled",
    [
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.int64)),
        (torch.ones(2), torch.ones(2, 1)),
        (torch.ones(2), torch.ones(1)),
        (3, 4),
        (3, 3.0),
        (torch.tensor(3), 3),
    ],
)
def test_dtypes_shapes_and_numbers_are_compared(eager, compiled):
    assert not compare("x", Pair("x", eager, compiled)).right


def test_the_command_exits_with_1_on_a_mismatch(tmp_path):
    """A model that counts its calls in Python: compiling keeps the count of the capture."""
    (tmp_path / "model.py").write_text(
        "import itertools, torch\n"
        "class Count(torch.nn.Module):\n"
        "    count = itertools.count(1)\n"
        "    def forward(self, x):\n"
        "        return x * next(Count.count)\n"
        "model = Count()\n"
        "example_inputs = (torch.ones(2),)\n"
    )
    command = [str(Path(sys.executable).parent / "pipeline"), "verify", "model.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "WRONG" in done.stdout and "0 right, 1 wrong" in done.stdout

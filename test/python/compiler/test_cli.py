"""The `pipeline` command as a user runs it: output, exit codes, no traceback, nothing half-written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.cli import main

BIN = Path(sys.executable).parent

MODEL = '''
import torch

class Scale(torch.nn.Module):
    """y = x * w, and how often it was called."""
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.arange(1.0, 5.0))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
    def forward(self, x):
        self.calls += 1
        return {"y": x * self.w, "calls": self.calls.clone()}

model = Scale()
example_inputs = (torch.ones(2, 4),)
dynamic_shapes = {"x": {0: torch.export.Dim("batch", min=1, max=8)}}

class Other(torch.nn.Module):
    def forward(self, x):
        return x @ x.T

other = Other()

def broken():
    raise RuntimeError("no such luck")
'''


def command(*arguments, cwd, tool="pipeline", **environment):
    return subprocess.run(
        [str(BIN / tool), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def refusal(folder, monkeypatch, capfd):
    """``refusal(*arguments)``: what the command prints as it exits with 2, in this process: no import of torch."""

    def run(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["pipeline", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        printed = capfd.readouterr().err
        assert caught.value.code == 2 and "Traceback" not in printed, printed
        return printed

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    (folder / "scale.py").write_text(MODEL)
    return folder


@pytest.fixture(scope="module")
def artifact(folder):
    done = command("compile", "scale.py", "--target", "cpu", "-o", "scale.vmfb", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "wrote scale.vmfb" in done.stdout and done.stderr == ""
    return folder / "scale.vmfb"


def test_run_uses_the_example_inputs(artifact, folder):
    done = command("run", artifact.name, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "output['y']: 2x4xfloat32" in done.stdout and "[1. 2. 3. 4.]" in done.stdout


def test_run_takes_inputs_and_saves_outputs(artifact, folder):
    np.save(folder / "x.npy", np.full((3, 4), 2.0, np.float32))
    done = command(
        "run", artifact, "--input", "3x4xf32=@x.npy", "--output", "y.npy", "--output", "n.npy", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(folder / "y.npy"), np.tile([2, 4, 6, 8], (3, 1)))
    assert np.load(folder / "n.npy") == 1
    done = command("run", artifact, "--input", "1x4xf32=3", cwd=folder)
    assert "[[ 3.  6.  9. 12.]]" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "9x4xf32=0"], r"argument 'x' must be batchx4xf32, got 9x4xf32: .*1 <= batch <= 8"),
        (["--input", "2x4xf64=0"], "got 2x4xf64: its dtype differs"),
        (["--input", "2x4xf32=0", "--input", "2xf32=0"], r"takes 1 inputs \(x: batchx4xf32\), got 2"),
        (["--input", "2x4=0"], "write it as"),
        (["--input", "2x4xf32=@missing.npy"], "missing.npy"),
        (["--entry", "other"], "no entry point 'other'; this artifact has: main"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--device", "vulkan"], "was compiled for cpu, not for vulkan"),
        (["--weights", "w.irpa"], "its weights are inside the .vmfb"),
    ],
)
def test_run_refuses_clearly(artifact, refusal, arguments, message):
    printed = refusal("run", artifact, *arguments)
    assert re.search(message, printed), printed


def test_a_refusal_is_one_line_and_exit_code_2(artifact, folder):
    done = command("run", artifact, "--entry", "other", cwd=folder)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "error: no entry point 'other'; this artifact has: main\n"


def test_inspect(artifact, folder):
    done = command("inspect", artifact, cwd=folder)
    assert done.returncode == 0, done.stderr
    for expected in (
        "x: batchx4xf32",
        "-> output['y']: batchx4xf32",
        "1 <= batch <= 8",
        "calls: i64",
        "updates the state calls",
        "weights: 2 tensors, 24 bytes, inside",
        "target cpu",
        "torch 2.13.0",
    ):
        assert expected in done.stdout
    assert json.loads(command("inspect", "--json", artifact, cwd=folder).stdout)["format"] == 1


def test_verify_is_right_twice_in_a_row(folder):
    done = command("verify", "scale.py", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "call 2: state calls" in done.stdout and " 0 wrong" in done.stdout


def test_explain_before_compiling(folder):
    done = command("explain", "scale.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"aten.mul.Tensor\s+│ 1\s+│ linalg.generic\s+│ scale.py:12", done.stdout)
    assert "state: calls" in done.stdout


def test_explain_lists_what_is_unsupported_with_exit_code_3(folder):
    (folder / "unknown.py").write_text(
        "import torch\n"
        "for name in ('one', 'two'):\n"
        "    schema = {'mutates_args': (), 'schema': '(Tensor x) -> Tensor'}\n"
        "    op = torch.library.custom_op(f'unknown::{name}', torch.neg, **schema)\n"
        "    op.register_fake(torch.empty_like)\n"
        "class Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.ops.unknown.one(x) + torch.ops.unknown.two(x)\n"
        "model = Model()\nexample_inputs = (torch.rand(3),)\n"
    )
    done = command("explain", "unknown.py", cwd=folder)
    assert done.returncode == 3
    for operator in ("unknown.one", "unknown.two"):
        assert re.search(rf"{operator}\s+│ 1\s+│ UNSUPPORTED.*unknown.py:8", done.stdout)
    done = command("compile", "unknown.py", cwd=folder)
    assert done.returncode == 3 and "unknown.one x1" in done.stderr and "unknown.two x1" in done.stderr
    assert not (folder / "unknown.vmfb").exists()


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("torch", 'torch.aten.mul.Tensor.*pipeline.weight = "w"|pipeline.weight = "w"'),
        ("refined", "torch.aten.mul.Tensor"),
        ("linalg", "linalg.generic"),
        ("iree", r'util.global private @weight_0 = #flow.parameter.named<"model"::"\w+">'),
    ],
)
def test_emit_stops_after_a_stage(folder, stage, expected):
    done = command("compile", "scale.py", "--emit", stage, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(expected, done.stdout) and "dense_resource" not in done.stdout
    assert "scale.py" not in done.stdout


def test_emitted_ir_can_show_locations_and_go_on_in_pipeline_opt(folder):
    done = command("compile", "scale.py", "--emit", "torch", "--locations", "-o", "scale.mlir", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert 'scale.py":12' in (folder / "scale.mlir").read_text()
    done = command("scale.mlir", "--to", "linalg", cwd=folder, tool="pipeline-opt")
    assert done.returncode == 0 and "linalg.generic" in done.stdout


def test_print_after_and_dump_dir(folder):
    done = command(
        "compile",
        "scale.py",
        "--print-after",
        "linalg",
        "--print-after",
        "cse",
        "--dump-dir",
        "dump",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert "IR after linalg" in done.stdout and "IR after func.func(cse)" in done.stdout
    assert any("convert-torch-to-linalg" in file.name for file in (folder / "dump").iterdir())


def test_the_same_input_is_the_same_bytes_from_anywhere(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "scale.py"
    copy.write_text(MODEL)
    first = command("compile", folder / "scale.py", "--weights", "external", "-o", "a.vmfb", cwd=tmp_path)
    second = command("compile", "scale.py", "--weights", "external", "-o", "b.vmfb", cwd=copy.parent)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert (tmp_path / "a.vmfb").read_bytes() == (copy.parent / "b.vmfb").read_bytes()
    assert (tmp_path / "a.irpa").read_bytes() == (copy.parent / "b.irpa").read_bytes()
    everything = (tmp_path / "a.vmfb").read_bytes() + (tmp_path / "a.irpa").read_bytes()
    for private in (str(tmp_path), str(folder), sys.prefix, str(Path.home()), "scale.py"):
        assert private.encode() not in everything


@pytest.mark.parametrize(
    ("argument", "text", "message"),
    [
        ("none.py", None, "none.py: no such file"),
        ("model.onnx", "", "MODEL is model.py, model.py:NAME or a .pt2 file"),
        ("bad.pt2", "", "torch.export.load cannot read it"),
        ("syntax.py", "def broken(:\n", r"syntax.py cannot be imported: SyntaxError.*syntax.py:1"),
        ("raises.py", "x = 1\nx / 0\n", r"ZeroDivisionError: division by zero \(raises.py:2\)"),
        ("absent.py", "import no_such_module\n", r"No module named 'no_such_module'.*install it"),
        ("empty.py", "", r"has no 'model' or 'get_model\(\)'"),
        ("number.py", "model = 3\n", "'model' must be a torch.nn.Module, got int"),
        (
            "inputs.py",
            "import torch\nmodel = torch.nn.ReLU()\n",
            r"has no 'example_inputs' or 'get_example_inputs\(\)'",
        ),
        (
            "bare.py",
            "import torch\nmodel = torch.nn.ReLU()\nexample_inputs = torch.ones(2)\n",
            "must be a tuple of arguments, got a tensor",
        ),
        (
            "misfit.py",
            "import torch\nmodel = torch.nn.ReLU()\nexample_inputs = (1, 2, 3)\n",
            "do not fit ReLU.forward",
        ),
        (
            "points.py",
            "import torch\nmodel = torch.nn.ReLU()\nentry_points = 3\n",
            "'entry_points' must be a dict",
        ),
        ("scale.py:nothing", None, "has no 'nothing' at module level"),
        ("scale.py:two words", None, "is no Python name"),
        ("scale.py:broken", None, r"broken\(\) failed: RuntimeError: no such luck"),
    ],
)
def test_each_way_to_get_a_model_file_wrong(folder, refusal, argument, text, message):
    if text is not None:
        (folder / argument).write_text(text)
    printed = refusal("compile", argument, "-o", "never.vmfb")
    assert re.search(message, printed), printed
    assert not (folder / "never.vmfb").exists()


def test_another_attribute_and_an_exported_program(folder):
    done = command("compile", "scale.py:other", "--emit", "linalg", cwd=folder)
    assert done.returncode == 0 and re.search("linalg.*matmul", done.stdout), done.stderr
    (folder / "export.py").write_text(
        "import torch\nfrom scale import other\n"
        "torch.export.save(torch.export.export(other, (torch.ones(2, 4),)), 'other.pt2')\n"
    )
    subprocess.run([sys.executable, "export.py"], cwd=folder, check=True)
    done = command("verify", "other.pt2", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("output", ["m.txt", "no/such/folder/m.vmfb"])
def test_a_bad_output_path_is_refused_before_compiling(refusal, output):
    assert output.rpartition("/")[0] in refusal("compile", "scale.py", "-o", output)


def test_usage_errors_and_help():
    assert command("compile", cwd=".").returncode == 2
    assert command("compile", "m.py", "--emit", "poetry", cwd=".").returncode == 2
    assert command("--help", cwd=".").returncode == 0


@pytest.mark.parametrize("tool", ["pipeline", "pipeline-opt"])
def test_help_starts_without_torch(tool, tmp_path):
    """A torch that fails to import stands first on the path."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')")
    done = command("--help", cwd=tmp_path, tool=tool, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr

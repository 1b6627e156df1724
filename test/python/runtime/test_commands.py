"""``pipeline run`` and ``pipeline inspect``: the commands that need only the runtime."""

import json
import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn
from torch.export import Dim

import pipeline
from pipeline.cli import cli
from pipeline.runtime import ArgumentError, ArtifactError
from pipeline.runtime.manifest import FORMAT

ROOT = Path(__file__).resolve().parents[3]


class Model(nn.Module):
    """State, an updated argument, a dynamic dimension, a keyword and results of several types."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(
        self, x: torch.Tensor, count: torch.Tensor, *, table: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        count.add_(1)
        self.total.add_(x.sum())
        return {"y": x * 2, "picked": table + 1, "narrow": x.bfloat16(), "total": self.total}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory) -> Path:
    shapes = {"x": {0: Dim("batch", min=1, max=8)}, "count": None, "table": None}
    args = (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor(5))
    kwargs = {"table": torch.zeros(3, dtype=torch.int64)}
    path = tmp_path_factory.mktemp("commands") / "m.vmfb"
    pipeline.compile(Model(), args=args, kwargs=kwargs, dynamic_shapes=shapes, weights="external").save(path)
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_run_on_the_examples(artifact: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"{i}.npy" for i in range(4)]
    done = call("run", artifact, *(word for path in outputs for word in ("--output", path)))
    assert done.exit_code == 0, done.exception
    assert "main on local-sync: " in done.output
    assert "output['y']: 2x2xfloat32\n[[2. 4.]\n [6. 8.]]" in done.output
    assert "output['total']: float32\n10.0" in done.output
    assert np.load(outputs[0]).tolist() == [[2, 4], [6, 8]]
    assert np.load(outputs[1]).tolist() == [1, 1, 1]


def test_run_on_given_inputs(artifact: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    table = f"3xi64={2**62 + 1},-1,7"
    done = call(
        "run", artifact, "--input", f"3x2xf32=@{tmp_path / 'x.npy'}", "--input", "i64=0", "--input", table, "--output",
        tmp_path / "y.npy", *("--output", tmp_path / "p.npy") * 3,
    )  # fmt: skip
    assert done.exit_code == 0, done.exception
    assert np.load(tmp_path / "y.npy").tolist() == [[0, 2], [4, 6], [8, 10]]
    done = call("run", artifact, "--input", "1x2xf32=1e3", "--input", "i64=0", "--input", table)
    assert f"[{2**62 + 2}                   0                   8]" in done.output


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["2x2xf32=1"], r"main takes 3 inputs \(x: batchx2xf32, count: i64, table: 3xi64\), got 1"),
        (["2x2xf33=1"], "write it as 1x3x224x224xf32=@x.npy"),
        (["2x2xf32=1,2,3"], r"3 numbers for the shape \[2, 2\]"),
        (["2x2xf32=one"], "could not convert string to float: 'one'"),
        (["2xu8=1,256"], "256|not all values fit uint8"),
        (["2xi64=1.5"], "invalid literal for int"),
        (["2x2xf32=@missing.npy"], "No such file"),
        (["9x2xf32=1", "i64=0", "3xi64=0"], r"must be batch \(1 <= batch <= 8\), got 9"),
        (["2x2xf64=1", "i64=0", "3xi64=0"], "'x' must be batchx2xf32, got 2x2xf64: its dtype differs"),
    ],
)
def test_wrong_inputs(artifact: Path, inputs: list[str], message: str) -> None:
    done = call("run", artifact, *(word for text in inputs for word in ("--input", text)))
    with pytest.raises(ArgumentError, match=message):
        raise done.exception  # type: ignore[misc]


def test_wrong_options(artifact: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "several.npz", a=np.zeros(1), b=np.zeros(1))
    for arguments, message in (
        (["--output", tmp_path / "y.npy"], "main has 4 outputs, got 1 --output"),
        (
            ["--output", tmp_path / "none" / "y.npy", *["--output", tmp_path / "y.npy"] * 3],
            "No such file or directory",
        ),
        (["--entry", "other"], "no entry point 'other'; this artifact has: main"),
        (["--input", f"1xf64=@{tmp_path / 'several.npz'}"], "holds several arrays"),
        (["--input", f"1xf32=@{__file__}"], "--input 1xf32=@"),
    ):
        with pytest.raises(ArgumentError, match=message):
            raise call("run", artifact, *arguments).exception  # type: ignore[misc]
    with pytest.raises(ArtifactError, match="no such file"):
        raise call("run", tmp_path / "none.vmfb").exception  # type: ignore[misc]


def test_inspect(artifact: Path) -> None:
    done = call("inspect", artifact)
    assert done.exit_code == 0, done.exception
    lines = done.output.splitlines()
    assert lines[0] == f"m.vmfb: {artifact.stat().st_size:,} bytes"
    for line in (
        "main:",
        "  x: batchx2xf32",
        "  table: 3xi64",
        "  -> output['narrow']: batchx2xbf16",
        "  updates the argument count",
        "  updates the state total",
        "  1 <= batch <= 8",
        "  total: f32",
        "weights: 1 tensors, 4 bytes, in m.irpa",
    ):
        assert line in lines
    assert any(line.startswith("target cpu ") for line in lines)
    assert "iree 3.13" in done.output
    manifest = json.loads(call("inspect", "--json", artifact).output)
    assert (manifest["format"], list(manifest["entry_points"])) == (FORMAT, ["main"])
    with pytest.raises(ArtifactError, match="no such file"):
        raise call("inspect", artifact.with_name("none.vmfb")).exception  # type: ignore[misc]


CALL = """
import sys

import numpy as np
import pipeline
executable = pipeline.load(sys.argv[1])
count = np.array(5)
result = executable(np.ones((3, 2), np.float32), count, table=np.arange(3))
assert {key: type(value) for key, value in result.items()} == dict.fromkeys(result, np.ndarray)
assert result["y"].tolist() == [[2, 2]] * 3 and int(count) == 6 and str(result["narrow"].dtype) == "bfloat16"
assert executable.state_dict()["total"] == 6
executable.load_state_dict({"total": np.float32(1)})
assert executable.new_state().state_dict()["total"] == 0
for name in ("torch", "torch_mlir", "iree.compiler"):
    assert name not in sys.modules
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} is installed here")
try:
    pipeline.compile
except ImportError as error:
    print(error)
"""


def test_a_machine_that_only_runs_artifacts(artifact: Path, tmp_path: Path) -> None:
    """The documented way to install only the runtime, in a bare virtual environment."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*install, "-r", ROOT / "requirements-runtime.txt"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode and any(
        sign in done.stderr for sign in ("ConnectionError", "Connection", "resolve", "Max retries")
    ):
        pytest.skip(f"pip cannot reach a registry: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    # From a copy, as building leaves folders behind; the links stay links.
    subprocess.run(["cp", "-a", *(ROOT / name for name in PARTS), tmp_path], check=True)
    subprocess.run([*install, "--no-deps", tmp_path], check=True, timeout=600)

    def run(*command: object) -> str:
        words = [str(word) for word in command]
        ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    command = python.with_name("pipeline")
    assert "output['y']: 2x2xfloat32" in run(command, "run", artifact)
    assert "updates the state total" in run(command, "inspect", artifact)
    assert "Usage" in run(command, "--help")
    assert "torch" in run(python, "-P", "-c", CALL, artifact)


PARTS = ("pyproject.toml", "LICENSE", "pipeline", "runtime", "dialect_passes", "shape_lib", "tools")

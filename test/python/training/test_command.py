"""``pipeline compile --train`` and ``pipeline train``, which runs where there is no torch."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import pipeline
from pipeline.batches import Batches
from pipeline.cli import cli

MODEL = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2))
example_inputs = (torch.randn(8, 4), torch.zeros(8, dtype=torch.int64))
loss_fn = nn.CrossEntropyLoss()


def get_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled artifact, and a task that can be learnt: which half of the inputs is larger."""
    folder = tmp_path_factory.mktemp("train")
    (folder / "model.py").write_text(MODEL)
    done = call("compile", folder / "model.py", "--train", "-o", folder / "m.vmfb")
    assert done.exit_code == 0, done.exception
    assert "note: dropout and other random numbers: from torch's generator" in done.output
    inputs = np.random.default_rng(0).standard_normal((100, 4)).astype(np.float32)
    target = (inputs[:, :2].sum(1) > inputs[:, 2:].sum(1)).astype(np.int64)
    np.savez(folder / "data.npz", input=inputs, target=target)
    return folder


def train(folder: Path, *arguments: object) -> Result:
    done = call("train", folder / "m.vmfb", "--data", folder / "data.npz", *arguments)
    assert done.exit_code == 0, done.exception
    return done


def test_training_without_torch(folder: Path, tmp_path: Path) -> None:
    """Masks come from NumPy there, and with a seed the run is the same as here."""
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not here')")
    output = tmp_path / "trained.vmfb"
    command = [
        "train",
        folder / "m.vmfb",
        "--data",
        folder / "data.npz",
        "--steps",
        200,
        "--seed",
        3,
        "--output",
    ]
    code = "import sys; from pipeline.cli import main; sys.argv = sys.argv[1:]; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "pipeline", *map(str, [*command, output])],
        env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "step 200 loss" in done.stdout and "200 steps, loss " in done.stdout
    trained = pipeline.load(output)
    here = tmp_path / "here.vmfb"
    train(folder, "--steps", 200, "--seed", 3, "--output", here)
    assert pipeline.load(here).state_dict()["0.weight"].equal(trained.state_dict()["0.weight"])
    batch = np.load(folder / "data.npz")
    right = trained.forward(batch["input"][:8]).argmax(1) == batch["target"][:8]
    assert right.all()


def test_a_resumed_run_is_the_same_run(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "c.irpa"
    train(folder, "--steps", 20, "--shuffle", "--output", tmp_path / "whole.vmfb")
    train(folder, "--steps", 13, "--shuffle", "--checkpoint", kept, "--every", 5)
    done = train(folder, "--steps", 7, "--shuffle", "--checkpoint", kept, "--output", tmp_path / "parts.vmfb")
    assert f"going on from {kept}, after 13 steps" in done.output
    whole, parts = (pipeline.load(tmp_path / f"{name}.vmfb").state_dict() for name in ("whole", "parts"))
    assert all(whole[name].equal(parts[name]) for name in whole)


BAD_DATA = {
    "a missing array": ({"x": np.zeros((8, 4), np.float32)}, "lacks input, target; it holds x, and a step takes"),
    "another shape": ({"input": np.zeros((8, 3), np.float32), "target": np.zeros(8, np.int64)},
                      "'input' has the shape [8, 3]; a step takes 8x4xf32, so it must be [samples, 4]"),
    "too few samples": ({"input": np.zeros((7, 4), np.float32), "target": np.zeros(7, np.int64)},
                        "holds 7 samples, too few for a batch"),
    "different lengths": ({"input": np.zeros((16, 4), np.float32), "target": np.zeros(8, np.int64)},
                          "different numbers of batches (input: 2, target: 1)"),
    "a few samples more": ({"input": np.zeros((16, 4), np.float32), "target": np.zeros(19, np.int64)},
                           "different numbers of samples (input: 16, target: 19)"),
    "another dtype": ({"input": np.zeros((8, 4)), "target": np.zeros(8, np.int64)}, "'input' must be 8x4xf32"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_DATA)
def test_data_that_does_not_fit(folder: Path, tmp_path: Path, case: str) -> None:
    arrays, message = BAD_DATA[case]
    np.savez(tmp_path / "bad.npz", **arrays)
    done = call("train", folder / "m.vmfb", "--data", tmp_path / "bad.npz", "--steps", 1)
    assert message in str(done.exception)


def test_shuffling_keeps_samples_together(folder: Path, tmp_path: Path) -> None:
    """Whichever arrays hold samples, and whichever batches; each pass has an order of its own."""
    entry = pipeline.load(folder / "m.vmfb").manifest.entry_points["train_step"]
    numbers = np.arange(32)
    inputs, targets = np.repeat(numbers[:, None], 4, 1).astype(np.float32), numbers
    for case, arrays in {
        "samples": (inputs, targets),
        "batches": (inputs.reshape(4, 8, 4), targets.reshape(4, 8)),
        "both": (inputs, targets.reshape(4, 8)),
    }.items():
        np.savez(tmp_path / f"{case}.npz", *arrays)
        found = Batches(entry, tmp_path / f"{case}.npz", shuffle_seed=3)
        batches = [found[number] for number in range(8)]
        assert all((batch["input"][:, 0] == batch["target"]).all() for batch in batches), case
        seen = np.concatenate([batch["target"] for batch in batches]).reshape(2, 32)
        assert (np.sort(seen) == numbers).all(), case
        assert (seen[0] != numbers).any() and (seen[0] != seen[1]).any(), case


def test_files_that_hold_no_arrays(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros((8, 4), np.float32))
    np.savez(tmp_path / "whole.npz", np.zeros((8, 4), np.float32), np.zeros(8, np.int64))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:-30])
    for name, message in {"one.npy": "holds one array", "cut.npz": "not a readable .npz"}.items():
        done = call("train", folder / "m.vmfb", "--data", tmp_path / name, "--steps", 1)
        assert message in str(done.exception)


def test_ctrl_c_waits_for_the_end_of_a_step(folder: Path) -> None:
    """The loss is computed and part of the state updated in place when the signal comes."""
    step = pipeline.load(folder / "m.vmfb")
    program, batch = (
        step._call_of("train_step")._program,
        (np.ones((8, 4), np.float32), np.zeros(8, np.int64)),
    )
    expected = step.new_state()
    step.seed(0)
    expected.seed(0)
    expected(*batch)

    class Interrupted:
        def run(self, *args: object) -> list[object]:
            found = program.run(*args)
            signal.raise_signal(signal.SIGINT)
            return found

    step._call_of("train_step")._program = Interrupted()
    # A shell's background job, as tests may be, is started with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            step(*batch)
        assert step.steps == 1 and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    values = expected.state_dict()
    assert all((value == values[name]).all() for name, value in step.state_dict().items())


def test_batches_in_order_of_the_arguments(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "b.npz", rng.random((3, 8, 4), np.float32), rng.integers(0, 2, (3, 8)))
    done = call(
        "train", folder / "m.vmfb", "--data", tmp_path / "b.npz", "--steps", 4, "--learning-rate", 0.01
    )
    assert done.exit_code == 0, done.exception
    assert done.output.count("step ") == 4


def test_files_that_training_needs(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\nmodel = torch.nn.Linear(2, 2)\nexample_inputs = (torch.ones(1, 2),)\n"
    )
    done = call("compile", tmp_path / "m.py", "--train")
    assert "has no 'loss_fn' at module level, which training needs" in str(done.exception)
    done = call("compile", folder / "model.py", "--train", "--weights", "inline", "-o", tmp_path / "m.vmfb")
    assert "a training step keeps them in a .irpa" in str(done.exception)
    done = call("train", folder / "m.vmfb", "--data", "none.npz", "--steps", 1, "--every", 2)
    assert "--every needs --checkpoint" in str(done.exception)


FLEXIBLE = """
from torch.export import Dim

dynamic_shapes = ({0: Dim("batch", min=1, max=16)}, {0: Dim("batch", min=1, max=16)})


def get_scaler():
    return torch.amp.GradScaler("cpu", init_scale=128.0)
"""


def test_scaler_and_sizes_from_the_model_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL + FLEXIBLE)
    done = call("compile", tmp_path / "model.py", "--train", "-o", tmp_path / "m.vmfb")
    assert done.exit_code == 0, done.exception
    step = pipeline.load(tmp_path / "m.vmfb")
    assert isinstance(step, pipeline.TrainingStep)
    for size in (8, 3, 16):
        step(np.zeros((size, 4), np.float32), np.zeros(size, np.int64))
    assert step.scaler_state_dict()["scale"] == 128.0
    done = call("train", tmp_path / "m.vmfb", "--data", folder / "data.npz", "--steps", 1)
    assert done.exit_code != 0 and "'input' takes several sizes" in str(done.exception)

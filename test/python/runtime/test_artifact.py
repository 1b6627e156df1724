"""Artifacts on disk: saved whole, exchanged weights, and one clear error (never a crash) for each broken file."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pipeline
from pipeline.runtime import ArtifactError, IncompatibleDeviceError, RuntimeRoomError, cpu_features, weights
from pipeline.runtime import artifact as artifacts
from pipeline.runtime.manifest import Manifest


class Model(nn.Module):
    """Weights of several types (one shared name each), and a state, larger than a page."""

    calls: torch.Tensor
    mask: torch.Tensor
    phase: torch.Tensor

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.fc = nn.Linear(64, 64)
        self.narrow = nn.Parameter(torch.randn(64).bfloat16())
        self.register_buffer("mask", torch.rand(64) > 0.5)
        self.register_buffer("phase", torch.randn(64, dtype=torch.complex64))
        self.register_buffer("calls", torch.tensor(seed))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.add_(1)
        y = self.fc(x) + self.narrow
        return torch.where(self.mask, y, -y) * self.phase.real, self.calls


X = torch.linspace(-1, 1, 128).reshape(2, 64)


def expected(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What eager gives at the first call."""
    with torch.no_grad():
        return Model(seed)(X)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> dict[str, Path]:
    """The model of seed 0 in both forms. Its tensors are overwritten after compiling: both must be snapshots."""
    folder = tmp_path_factory.mktemp("compiled")
    for form in ("inline", "external"):
        model = Model(0)
        executable = pipeline.compile(model, args=(X,), weights=form)
        with torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                tensor.zero_()
        torch.testing.assert_close(executable(X), expected(0))
        executable.save(folder / f"{form}.vmfb")
    return {form: folder / f"{form}.vmfb" for form in ("inline", "external")}


@pytest.fixture
def folder(compiled: dict[str, Path], tmp_path: Path) -> Path:
    """A folder of one's own with inline.vmfb, external.vmfb and external.irpa."""
    for path in compiled["inline"].parent.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def weights_of(seed: int, **changes: object) -> dict:
    """What the weights file of a model holds."""
    return {**Model(seed).state_dict(), **changes}


def test_files_of_each_form(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["external.irpa", "external.vmfb", "inline.vmfb"]
    assert (folder / "external.vmfb").stat().st_mode & 0o777 == 0o666 & ~artifacts._umask()


@pytest.mark.parametrize("form", ["inline", "external"])
def test_loaded_again(folder: Path, form: str, tmp_path: Path) -> None:
    executable = pipeline.load(folder / f"{form}.vmfb")
    torch.testing.assert_close(executable(X), expected(0))
    copies = executable.save(tmp_path / "copy.vmfb")
    assert [path.suffix for path in copies] == ([".irpa", ".vmfb"] if form == "external" else [".vmfb"])
    # The state is not saved: it starts anew.
    torch.testing.assert_close(pipeline.load(tmp_path / "copy.vmfb")(X), expected(0))


def test_other_weights_without_compiling(folder: Path) -> None:
    weights.write(folder / "other.irpa", weights_of(5))
    torch.testing.assert_close(
        pipeline.load(folder / "external.vmfb", weights=folder / "other.irpa")(X), expected(5)
    )
    os.replace(folder / "other.irpa", folder / "external.irpa")
    torch.testing.assert_close(pipeline.load(folder / "external.vmfb")(X), expected(5))


def test_weights_inside_cannot_be_exchanged(folder: Path) -> None:
    with pytest.raises(ArtifactError, match=r"its weights are inside the \.vmfb.*--weights external"):
        pipeline.load(folder / "inline.vmfb", weights=folder / "external.irpa")


def test_missing_files(folder: Path) -> None:
    with pytest.raises(ArtifactError, match=r"none\.vmfb: no such file"):
        pipeline.load(folder / "none.vmfb")
    with pytest.raises(ArtifactError, match=r"no such file"):
        pipeline.load(folder)
    (folder / "external.irpa").unlink()
    with pytest.raises(
        ArtifactError, match=r"external\.irpa: no such weights file; external\.vmfb keeps its weights in"
    ):
        pipeline.load(folder / "external.vmfb")
    with pytest.raises(ArtifactError, match=r"none\.irpa: no such weights file"):
        pipeline.load(folder / "external.vmfb", weights=folder / "none.irpa")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda table: {name: table[name] for name in table if name != "narrow"},
            "another model: it lacks 'narrow'",
        ),
        (lambda table: {"other": table["narrow"]}, "it lacks 'calls', 'fc.bias', 'fc.weight' and 3 more"),
        (
            lambda table: {**table, "fc.weight": torch.zeros(64, 65)},
            "'fc.weight' is 64x65xf32, expected 64x64xf32",
        ),
        (lambda table: {**table, "narrow": torch.zeros(64).half()}, "'narrow' is 64xf16, expected 64xbf16"),
        (lambda table: {**table, "fc.bias": torch.zeros(64, 1)}, "'fc.bias' is 64x1xf32, expected 64xf32"),
        (
            lambda table: {**table, "calls": torch.tensor(0, dtype=torch.int32)},
            "'calls' is i32, expected i64",
        ),
    ],
)
def test_weights_of_another_model(folder: Path, change: Callable, message: str) -> None:
    weights.write(folder / "external.irpa", change(weights_of(1)))
    with pytest.raises(ArtifactError, match=f"external.irpa: .*{message}"):
        pipeline.load(folder / "external.vmfb")


def test_more_weights_than_needed_are_fine(folder: Path) -> None:
    weights.write(folder / "external.irpa", weights_of(5, more=torch.zeros(3)))
    torch.testing.assert_close(pipeline.load(folder / "external.vmfb")(X), expected(5))


def test_weights_of_other_tools_are_checked_by_size(folder: Path) -> None:
    """iree-create-parameters and others write no types; then only the number of bytes can tell."""
    import iree.runtime as iree

    def write(**changes: np.ndarray) -> None:
        index = iree.ParameterIndex()
        for name, tensor in weights_of(5).items():
            index.add_buffer(name, changes.get(name, weights.to_numpy(tensor).reshape(-1).view(np.uint8)))
        index.create_archive_file(str(folder / "external.irpa"))

    write()
    torch.testing.assert_close(pipeline.load(folder / "external.vmfb")(X), expected(5))
    write(narrow=np.zeros(130, np.uint8))
    with pytest.raises(ArtifactError, match=r"'narrow' has 130 bytes, expected 128 \(64xbf16\)"):
        pipeline.load(folder / "external.vmfb")


LOAD = """
import sys, numpy, pipeline
for path in sys.argv[1:]:
    try:
        print("result", pipeline.load(path)(numpy.zeros((2, 64), numpy.float32))[1])
    except pipeline.ArtifactError:
        print("refused")
"""


def refused(path: Path) -> str:
    """The message with which `path` is refused here."""
    with pytest.raises(ArtifactError) as caught:
        pipeline.load(path)
    return str(caught.value)


@pytest.mark.parametrize("kept", [0, 1, 22, 100, 4096, 0.25, 0.5, 0.9, -100, -22, -1])
def test_truncated_vmfb(folder: Path, kept: float) -> None:
    path = folder / "inline.vmfb"
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data)) if 0 < kept < 1 else int(kept)])
    assert "not a complete .vmfb (truncated, or another kind of file); compile it again" in refused(path)


@pytest.mark.parametrize("kept", [0, 1, 63, 88, 200, 4096, 0.5, 0.7])
def test_truncated_weights(folder: Path, kept: float) -> None:
    path = folder / "external.irpa"
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data)) if 0 < kept < 1 else int(kept)])
    assert refused(folder / "external.vmfb").endswith(
        "external.irpa: not a readable .irpa weights file, or truncated"
    )


def test_flipped_bits_are_seen(folder: Path) -> None:
    path = folder / "inline.vmfb"
    data = path.read_bytes()
    for position in range(200, len(data) - 400, len(data) // 12):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
        message = refused(path)
        assert "compile it again" in message


@pytest.mark.parametrize(
    "content", [b"\x7fELF" + bytes(5000), b"IRPA" + bytes(5000), b"text\n" * 100, bytes(1 << 16)]
)
def test_other_kinds_of_files(folder: Path, content: bytes) -> None:
    (folder / "inline.vmfb").write_bytes(content)
    assert "not a complete .vmfb" in refused(folder / "inline.vmfb")
    (folder / "external.irpa").write_bytes(content)
    assert "not a readable .irpa" in refused(folder / "external.vmfb")


def test_a_zip_that_is_no_vmfb(folder: Path) -> None:
    import zipfile

    with zipfile.ZipFile(folder / "inline.vmfb", "w") as archive:
        archive.writestr("data.pkl", b"x" * 1000)
    assert "cannot read it; it is damaged or was made by another version" in refused(folder / "inline.vmfb")


def test_broken_files_do_not_end_the_process(folder: Path) -> None:
    """The same loads in a process that may die: it goes on after each error."""
    paths = [folder / "external.vmfb"]
    for i, name in enumerate(("external.irpa", "external.vmfb")):
        broken = folder / str(i)
        broken.mkdir()
        for part in ("external.irpa", "external.vmfb"):
            data = (folder / part).read_bytes()
            (broken / part).write_bytes(data[: len(data) // 2] if part == name else data)
        paths.append(broken / "external.vmfb")
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOAD, *paths, paths[0]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == ["result 1", "refused", "refused", "result 1"], done.stderr
    assert done.returncode == 0


FOREIGN = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }\n"


@pytest.fixture(scope="module")
def compile_foreign(tmp_path_factory) -> Callable[[str | None], Path]:
    """Compiles a module with iree-compile alone, with this text as its manifest."""
    folder = tmp_path_factory.mktemp("foreign")

    def compile_(manifest: str | None) -> Path:
        text = FOREIGN
        if manifest is not None:
            quoted = json.dumps(manifest).replace('\\"', "\\22").replace("\\\\", "\\5C")
            text = FOREIGN.replace(
                "tensor<4xf32> {",
                f'tensor<4xf32> attributes {{iree.reflection = {{"pipeline.manifest" = {quoted}}}}} {{',
            )
        (folder / "m.mlir").write_text(text)
        command = [Path(sys.executable).parent / "iree-compile", folder / "m.mlir", "-o", folder / "m.vmfb"]
        options = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
        subprocess.run(
            [*command, *options, "--iree-llvmcpu-target-cpu=generic"], check=True, capture_output=True
        )
        return folder / "m.vmfb"

    return compile_


def test_a_vmfb_of_iree_itself(compile_foreign: Callable[[str | None], Path]) -> None:
    assert "not made by pipeline (it has no manifest); run it with IREE's own iree-run-module" in refused(
        compile_foreign(None)
    )


def patched(compiled: dict[str, Path], **changes: object) -> str:
    """The manifest of the inline artifact with other values."""
    return json.dumps({**json.loads(artifacts.read_manifest(compiled["inline"]).to_json()), **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 999}, "made with manifest format 999, this version of pipeline reads format 1; compile"),
        (
            {"versions": {"iree": "3.1.0"}},
            r"compiled by IREE 3\.1\.0, this is the runtime of IREE .*install iree-base",
        ),
        ({"versions": {}}, r"compiled by IREE \(version unknown\)"),
        ({"entry_points": {"main": {}}}, "its manifest is damaged"),
    ],
)
def test_manifests_of_other_versions(compiled, compile_foreign, changes: dict, message: str) -> None:
    path = compile_foreign(patched(compiled, **changes))
    with pytest.raises(ArtifactError, match=message):
        pipeline.load(path)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (
            "vulkan",
            "inline.vmfb was compiled for cpu, not for vulkan; load it there or compile with --target vulkan",
        ),
        ("cuda", "inline.vmfb was compiled for cpu, not for cuda"),
        ("tpu", "unknown device 'tpu'; use cpu, vulkan or cuda"),
        ("local-task://nonsense", "no device 'local-task://nonsense' on this machine"),
    ],
)
def test_other_devices(compiled: dict[str, Path], device: str, message: str) -> None:
    with pytest.raises(IncompatibleDeviceError, match=message):
        pipeline.load(compiled["inline"], device=device)


def test_a_cpu_that_lacks_features_is_refused_before_loading(compiled, monkeypatch) -> None:
    monkeypatch.setattr(cpu_features, "host_flags", lambda: frozenset({"sse", "sse2"}))
    loaded: list = []
    monkeypatch.setattr("pipeline.runtime.executable.Program", lambda *arguments: loaded.append(arguments))
    with pytest.raises(IncompatibleDeviceError, match=r"this CPU lacks .*avx.*; compile with --cpu generic"):
        pipeline.load(compiled["inline"])
    monkeypatch.setattr(cpu_features, "host_architecture", lambda: "riscv64")
    with pytest.raises(IncompatibleDeviceError, match=r"was compiled for .*, this machine is riscv64"):
        pipeline.load(compiled["inline"])
    assert not loaded


def test_saving_is_all_or_nothing(folder: Path, monkeypatch) -> None:
    executable = pipeline.load(folder / "external.vmfb")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(source: Path, target: str) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fail)
    for name in ("external.vmfb", "new.vmfb"):
        with pytest.raises(ArtifactError, match=r"cannot be written \(No space left on device\)"):
            executable.save(folder / name)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with pytest.raises(ArtifactError, match=r"m\.irpa: cannot be written \(No such file or directory\)"):
        executable.save(folder / "missing" / "m.vmfb")


def test_saving_over_what_is_loaded(folder: Path) -> None:
    """The loaded file stays mapped: replacing it on disk must not reach the executable."""
    first = pipeline.load(folder / "external.vmfb")
    first.save(folder / "external.vmfb")  # over itself
    torch.testing.assert_close(first(X), expected(0))
    weights.write(folder / "new.irpa", weights_of(5))
    second = pipeline.load(folder / "external.vmfb", weights=folder / "new.irpa")
    second.save(folder / "external.vmfb")  # over the first
    torch.testing.assert_close(pipeline.load(folder / "external.vmfb")(X), expected(5))
    first.reset()
    torch.testing.assert_close(first(X), expected(0))
    torch.testing.assert_close(first.new_state()(X), expected(0))
    for path in folder.iterdir():
        path.unlink()
    torch.testing.assert_close(first.new_state()(X), expected(0))
    torch.testing.assert_close(second(X), expected(5))


def test_temporary_files_live_as_long_as_they_are_needed() -> None:
    executable = pipeline.compile(nn.Linear(3, 3), args=(torch.zeros(1, 3),), weights="external")
    fork, where = executable.new_state(), executable._artifact.vmfb.parent
    del executable
    assert where.is_dir()
    fork(torch.zeros(1, 3))
    del fork
    assert not where.exists()


def test_iree_run_module_runs_it(folder: Path) -> None:
    np.save(folder / "x.npy", X.numpy())
    for form in ("inline", "external"):
        command = [Path(sys.executable).parent / "iree-run-module", f"--module={folder / form}.vmfb"]
        command += [
            "--device=local-sync",
            "--function=main",
            f"--input=@{folder / 'x.npy'}",
            "--input=i64=41",
        ]
        command += [f"--output=@{folder / 'y.npy'}", "--output=-", "--output=-"]
        if form == "external":
            command.append(f"--parameters=model={folder / form}.irpa")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        torch.testing.assert_close(torch.from_numpy(np.load(folder / "y.npy")), expected(0)[0])
        assert "i64=42" in done.stdout


def test_errors_of_the_room_have_one_base() -> None:
    for error in (ArtifactError, IncompatibleDeviceError, pipeline.ArgumentError):
        assert issubclass(error, RuntimeRoomError)
    with contextlib.suppress(ArtifactError):
        assert isinstance(artifacts.read_manifest(Path("none.vmfb")), Manifest)

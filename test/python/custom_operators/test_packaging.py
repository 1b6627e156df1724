"""Wheels with and without CMake and a compiler: both work, and operators say which kernels they have."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pipeline.dialect_passes.custom_operators import toolchain

ROOT = Path(__file__).parents[3]
PARTS = ("pipeline", "dialect_passes", "runtime", "shape_lib", "tools", "pyproject.toml", "setup.py")
PARTS += ("CMakeLists.txt", "README.md", "LICENSE")

NATIVE = "pipeline/dialect_passes/operators/native"
KERNEL = "void probe(const float *x, float *out) { out[0] = x[0]; }\n"
SHADER = "#version 450\nlayout(set = 0, binding = 0) buffer X { float x[]; };\nvoid main() { x[0] = 1.0; }\n"
CUDA_KERNEL = 'extern "C" __global__ void probe(float *x) { x[0] = 1.0f; }\n'

# In a process of its own, without any compiler: what a kernel of the wheel says of a call.
REPORT = """
import sys
from pathlib import Path
from torch import Tensor
import pipeline
from pipeline.dialect_passes.custom_operators.call_types import CallTypes, TensorType
from pipeline.dialect_passes.custom_operators.declaration import op
from pipeline.dialect_passes.custom_operators.launch import Launch

installed, native = Path(sys.argv[1]), Path(sys.argv[2])
assert Path(pipeline.__file__).is_relative_to(installed), pipeline.__file__

@op("packaging::probe")
def probe(x: Tensor) -> Tensor:
    return x + 0

probe.kernel("cpu", source=native / "probe.c")(lambda x: Launch([1]))
type_ = TensorType((1,), "float32")
print(probe.lowerings[0].refuses(CallTypes({"x": type_}, (type_,))))
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of the project's files, with a kernel more; so the project's own folder stays as it is."""
    for name in PARTS:
        source, copy = ROOT / name, tmp_path / "tree" / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "build", "*.vmfb", "*.irpa")
            shutil.copytree(source, copy, symlinks=True, ignore=ignored)
        else:
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(source, copy)
    native = tmp_path / "tree/dialect_passes/operators/native"
    for name, text in [("probe.c", KERNEL), ("probe.comp", SHADER), ("probe.cu", CUDA_KERNEL)]:
        (native / name).write_text(text)
    return tmp_path / "tree"


def build_wheel(tree: Path, path: str) -> set[str]:
    """Builds and unpacks a wheel with this PATH; the names of its prebuilt kernels. No network."""
    environment = os.environ | {"PATH": path}
    environment.pop("CC", None)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*command, "--wheel-dir", "wheels", "."], cwd=tree, env=environment, check=True)
    (wheel,) = tree.glob("wheels/*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tree / "installed")
    folder = tree / "installed" / NATIVE
    assert (folder / "probe.c").read_text() == KERNEL
    assert (tree / "installed/pipeline/dialect_passes/custom_operators/include/pipeline_kernel.h").is_file()
    return {kernel.name for kernel in folder.glob("prebuilt/*")}


def refusals(tree: Path, cwd: Path) -> str:
    installed = tree / "installed"
    environment = os.environ | {"PATH": str(cwd / "nothing"), "PYTHONPATH": str(installed)}
    environment.pop("CC", None)
    command = [sys.executable, "-c", REPORT, str(installed), str(installed / NATIVE)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.compiler("c")
@pytest.mark.skipif(shutil.which("cmake") is None, reason="no CMake")
def test_a_wheel_takes_its_kernels_along(tree, tmp_path):
    kernels = build_wheel(tree, os.environ["PATH"])
    sources = {path.stem for path in tree.glob("dialect_passes/operators/native/*.c")}
    assert {
        name.rsplit("-", 2)[0] for name in kernels if name.endswith(f"-{toolchain.machine()}.o")
    } == sources
    for kind, ending in [("glsl", "spv"), ("cuda", "ptx")]:
        found = [name for name in kernels if re.fullmatch(rf"probe-[0-9a-f]{{16}}\.{ending}", name)]
        assert len(found) == (toolchain.find(kind) is not None)
    assert refusals(tree, tmp_path) == "None"


@pytest.mark.slow
def test_a_wheel_without_a_compiler_works(tree, tmp_path):
    assert build_wheel(tree, str(tmp_path / "nothing")) == set()
    assert "there is no compiler for C here" in refusals(tree, tmp_path)

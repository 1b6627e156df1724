"""Compilers for kernels: which is taken, what is cached, and the mathematics that kernels may use."""

import ctypes
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.dialect_passes.custom_operators import toolchain
from pipeline.dialect_passes.custom_operators.elf_objects import ElfObject
from pipeline.dialect_passes.custom_operators.toolchain import ToolError

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PIPELINE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_cc_comes_first_then_clang_then_gcc(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert toolchain.find("c") is None
    for name in ("cc", "gcc", "clang"):
        program(tmp_path / name, "exit 1")
        monkeypatch.setenv("PATH", f"{tmp_path}:{name}")  # a new PATH is looked at anew
        assert toolchain.find("c").command == (str(tmp_path / name),)
    monkeypatch.setenv("CC", "gcc -m64")
    assert toolchain.find("c").command == (str(tmp_path / "gcc"), "-m64")
    monkeypatch.setenv("CC", "no-such-compiler")
    assert toolchain.find("c") is None


def logging_compiler(tmp_path) -> tuple[toolchain.Compiler, Path]:
    """The C compiler, noting each run that makes an object."""
    log = tmp_path / "log"
    real = toolchain.find("c").command[0]
    path = program(
        tmp_path / "logged-cc", f'case " $* " in *" -c "*) echo run >> {log};; esac\nexec {real} "$@"'
    )
    log.write_text("")
    return toolchain.Compiler("c", (str(path),)), log


@pytest.mark.compiler("c")
def test_the_cache_goes_by_content(tmp_path, cache):
    compiler, log = logging_compiler(tmp_path)
    (tmp_path / "part.h").write_text("#define VALUE 1\n")
    source = '#include "part.h"\nint f(void) { return VALUE; }\n'

    def runs(text=source, cpu="generic"):
        before = len(log.read_text())
        content = toolchain.compile_source(compiler, text, tmp_path, cpu)
        assert ElfObject(content).functions == ["f"]
        return len(log.read_text()) - before > 0

    assert runs()
    assert not runs()
    (tmp_path / "part.h").write_text("#define VALUE 2\n")
    assert runs(), "an included file has changed"
    assert runs(source + "/* end */ int x;")
    assert runs(cpu="haswell") == (toolchain.machine() == "x86_64")
    shutil.rmtree(cache)
    assert runs()
    assert len(list(cache.iterdir())) == 1, "no temporary files stay behind"


@pytest.mark.compiler("c")
def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PIPELINE_CACHE", str(tmp_path / "file"))
    assert ElfObject(
        toolchain.compile_source(toolchain.find("c"), "int f(void) { return 1; }", tmp_path, "host")
    )


@pytest.mark.compiler("c")
def test_a_cpu_that_the_compiler_does_not_know_gets_baseline_code(tmp_path):
    source = "int f(void) { return 1; }"
    compiler = toolchain.find("c")
    baseline = toolchain.compile_source(compiler, source, tmp_path, "generic")
    assert toolchain.compile_source(compiler, source, tmp_path, "cpu-of-tomorrow") == baseline


@pytest.mark.compiler("c")
@pytest.mark.skipif(toolchain.machine() != "x86_64", reason="names of x86 CPUs")
def test_code_is_made_for_the_targets_cpu(tmp_path):
    source = """
    #ifdef __AVX2__
    void has_avx2(void) {}
    #else
    void has_none(void) {}
    #endif
    """
    for cpu, name in [("haswell", "has_avx2"), ("generic", "has_none")]:
        content = toolchain.compile_source(toolchain.find("c"), source, tmp_path, cpu)
        assert ElfObject(content).functions == [name]


@pytest.mark.compiler("c")
def test_a_failure_is_in_the_compilers_words(tmp_path):
    with pytest.raises(ToolError, match=r"kernel.c:1:\d+: error: unknown type name"):
        toolchain.compile_source(toolchain.find("c"), "flaot f(void);", tmp_path, "generic")
    with pytest.raises(ToolError, match="did not run"):
        toolchain.compile_source(toolchain.Compiler("c", (str(tmp_path),)), "", tmp_path, "generic")


@pytest.mark.compiler("c")
def test_renaming_leaves_nothing_but_local_names(tmp_path):
    source = """
    static int hidden(int x) { return x + 1; }
    int shared = 3;
    __attribute__((noinline)) int helper(int x) { return x * shared; }
    int f(int x) { return helper(x) + hidden(x) + elsewhere(x); }
    """
    before = ElfObject(toolchain.compile_source(toolchain.find("c"), source, tmp_path, "generic"))
    after = ElfObject(before.renamed())
    assert before.functions == ["f", "helper"]
    assert after.functions == [f"f{before.suffix}", f"helper{before.suffix}"]
    assert after.undefined == before.undefined == ["elsewhere"]
    # A linker agrees: the renamed object, the original and what is missing make one program.
    (tmp_path / "before.o").write_bytes(before.renamed())
    (tmp_path / "after.o").write_bytes(
        toolchain.compile_source(toolchain.find("c"), source, tmp_path, "generic")
    )
    (tmp_path / "main.c").write_text(
        f"int f(int), f{before.suffix}(int); int elsewhere(int x) {{ return 100; }}\n"
        f"int main(void) {{ return f(2) != 109 || f{before.suffix}(4) != 117; }}"
    )
    cc = toolchain.find("c").command
    subprocess.run([*cc, "main.c", "before.o", "after.o", "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_cmake_has_the_same_options():
    text = (ROOT / "CMakeLists.txt").read_text()

    def options(name):
        (found,) = re.findall(rf"set\({name}\s([^)]*)\)", text)
        return found.split()

    assert options("C_OPTIONS") == toolchain.C_OPTIONS
    assert options("GLSLANG_OPTIONS") == ["-V", *toolchain.GLSL_OPTIONS]
    assert options("CUDA_OPTIONS")[: len(toolchain.CUDA_OPTIONS)] == list(toolchain.CUDA_OPTIONS)


# --- pipeline_kernel.h ---

FUNCTIONS = ("exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt")
EXPORT = '__attribute__((visibility("default")))'


@pytest.fixture(scope="module", params=["generic", "host"])
def mathematics(request, tmp_path_factory):
    """The header's functions over arrays, compiled as kernels are, in a library that Python can load."""
    if toolchain.find("c") is None:
        pytest.skip(f"no {toolchain.needed('c')}")
    folder = tmp_path_factory.mktemp("mathematics")
    loop = (
        "void {0}(const {2} *x, {3} *out, long n) {{ for (long i = 0; i < n; ++i) out[i] = pk_{1}(x[i]); }}\n"
    )
    kinds = [(f"apply_{f}", f"{f}f", "float", "float") for f in FUNCTIONS]
    kinds += [(f"widen_{t}", f"{t}_to_f32", "uint16_t", "float") for t in ("f16", "bf16")]
    kinds += [(f"narrow_{t}", f"f32_to_{t}", "float", "uint16_t") for t in ("f16", "bf16")]
    source = '#include "pipeline_kernel.h"\n' + "".join(EXPORT + " " + loop.format(*kind) for kind in kinds)
    content = toolchain.compile_source(toolchain.find("c"), source, folder, request.param)
    assert ElfObject(content).undefined == []
    (folder / "all.o").write_bytes(content)
    subprocess.run(
        [*toolchain.find("c").command, "-shared", "-nostdlib", "all.o", "-o", "all.so"],
        cwd=folder,
        check=True,
    )
    return ctypes.CDLL(os.fspath(folder / "all.so"))


def applied(function, values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    values = values.contiguous()
    out = torch.empty(values.shape, dtype=dtype)
    function(
        ctypes.c_void_p(values.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_long(values.numel())
    )
    return out


def floats() -> torch.Tensor:
    """float32 of all sizes, dense ones where the functions bend, and the special ones."""
    generator = np.random.default_rng(0)
    random = generator.integers(0, 2**32, 300_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-45,
        -1e-45,
        1e-39,
        88.72,
        88.73,
        89,
        -87.4,
        -103.9,
        -104,
        2**-24,
    ]
    dense = [np.linspace(-110, 110, 100_001), np.linspace(-6, 6, 100_001), np.linspace(0.4, 2.1, 100_001)]
    rest = np.concatenate([special, *dense]).astype(np.float32)
    return torch.from_numpy(np.concatenate([random, rest]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_mathematics_for_kernels(mathematics, name):
    x = floats()
    result = applied(getattr(mathematics, f"apply_{name}"), x, torch.float32)
    exact = getattr(torch, name)(x.double())
    expected = exact.float()
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal(result[expected.isinf()], expected[expected.isinf()])
    assert torch.equal(result.signbit()[~expected.isnan()], expected.signbit()[~expected.isnan()])
    smallest = 2.0**-126 if name == "sigmoid" else 0.0
    checked = expected.isfinite() & (expected.abs() >= smallest)
    units = torch.from_numpy(np.spacing(np.abs(expected[checked].numpy())))
    error = ((result[checked].double() - exact[checked]).abs() / units).max()
    assert error <= (4 if name == "sigmoid" else 3)


@pytest.mark.parametrize(("name", "dtype"), [("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_16_bit_floats_in_kernels(mathematics, name, dtype):
    halves = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    widened = applied(getattr(mathematics, f"widen_{name}"), halves, torch.float32)
    torch.testing.assert_close(widened, halves.view(dtype).float(), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(widened.signbit(), halves.view(dtype).signbit())
    # Ties, and their neighbours on both sides.
    steps = widened[widened.isfinite()].double()
    ties = torch.cat([(steps * (1 + sign * 2.0**-12)).float() for sign in (-1, -0.5, 0.5, 1, 2)])
    for values in (floats(), ties, torch.tensor([65519.0, 65519.998, 65520.0, 2.0**-25, 1.5 * 2.0**-24])):
        result = applied(getattr(mathematics, f"narrow_{name}"), values, torch.int16)
        expected = values.to(dtype)
        numbers = ~expected.isnan()
        assert torch.equal(result.view(dtype).isnan(), ~numbers)
        assert torch.equal(result[numbers], expected.view(torch.int16)[numbers])

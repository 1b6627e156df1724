"""Compilers for kernels: finding them, running them, and keeping what they made (no torch needed here).

C is compiled by ``$CC``, clang, gcc or cc; GLSL by glslangValidator or glslc; CUDA C by nvcc. What they make is
cached by content: the preprocessed source, the options and the compiler itself.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.shape_lib import user_cache

INCLUDE = Path(__file__).parent / "include"
"""Holds ``pipeline_kernel.h``, for kernels in C and CUDA C."""

# The code becomes part of an executable that is linked with nothing else: no C library, no start-up code.
# Without errno and traps, roots and comparisons are single instructions. CMakeLists.txt has the same options.
C_OPTIONS = (
    "-std=gnu11 -O3 -ffreestanding -fno-builtin -fPIC -fno-stack-protector -fvisibility=hidden "
    "-fno-math-errno -fno-trapping-math -fno-asynchronous-unwind-tables -w -Wno-psabi"
).split()
GLSL_OPTIONS = ("--target-env", "vulkan1.1")
CUDA_OPTIONS = ("--ptx", "-O3", "-w")

_TIMEOUT = 300


class ToolError(Exception):
    """A compiler failed; the message is its own."""


@dataclass(frozen=True)
class Compiler:
    """A compiler that was found. kind: "c", "glsl" or "cuda"; command: with options of ``$CC``, if any."""

    kind: str
    command: tuple[str, ...]


SUFFIXES = {"cpu": ".o", "vulkan": ".spv", "cuda": ".ptx"}
"""What is linked into an executable, by device."""
LANGUAGES = {"cpu": "c", "vulkan": "glsl", "cuda": "cuda"}
_NEEDED = {
    "c": "a C compiler (clang, gcc, or what CC names)",
    "glsl": "a GLSL compiler (glslangValidator or glslc)",
    "cuda": "nvcc of the CUDA toolkit",
}
_CANDIDATES = {"c": ("clang", "gcc", "cc"), "glsl": ("glslangValidator", "glslc"), "cuda": ("nvcc",)}


def find(kind: str) -> Compiler | None:
    """The compiler of `kind` ("c", "glsl", "cuda") on this machine."""
    return _find(kind, os.environ.get("CC", "") if kind == "c" else "", os.environ.get("PATH", os.defpath))


@functools.cache
def _find(kind: str, chosen: str, path: str) -> Compiler | None:
    commands = [shlex.split(chosen)] if chosen.strip() else [[name] for name in _CANDIDATES[kind]]
    for command in commands:
        if program := shutil.which(command[0], path=path):
            return Compiler(kind, (program, *command[1:]))
    return None


def needed(kind: str) -> str:
    """What to install for `kind`, in words."""
    return _NEEDED[kind]


def machine() -> str:
    """The architecture that CPU objects are compiled for: ``x86_64``, ``aarch64``, ``riscv64``."""
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def compile_source(compiler: Compiler, source: str, folder: Path, architecture: str) -> bytes:
    """The object, SPIR-V or PTX that `source` becomes; from the cache where it was compiled before.

    folder: where the source's own includes lie. architecture: the target's, in IREE's spelling.
    Raises ToolError with the compiler's message.
    """
    if compiler.kind == "c":
        options = [*C_OPTIONS, *_cpu_options(compiler, architecture)]
        return _cached(compiler, source, folder, ".c", options, [*options, "-c"], ".o")
    if compiler.kind == "cuda":
        options = [*CUDA_OPTIONS, f"-arch={architecture.replace('sm_', 'compute_')}"]
        return _cached(compiler, source, folder, ".cu", options[1:], options, ".ptx")
    glslc = Path(compiler.command[0]).stem == "glslc"
    options = ["--target-env=vulkan1.1", "-O", "-c"] if glslc else ["-V", *GLSL_OPTIONS]
    return _cached(compiler, source, folder, ".comp", None, options, ".spv")


def _cpu_options(compiler: Compiler, cpu: str) -> list[str]:
    """The options for a CPU in LLVM's spelling; the baseline for one this compiler does not know.

    Baseline code runs on every CPU of the architecture, so that an unknown name costs speed only.
    """
    if cpu in ("generic", ""):
        return []
    option = f"-march={'native' if cpu == 'host' else cpu}"
    if machine() != "x86_64":
        option = option.replace("-march=", "-mcpu=")
    return [option] if _knows(compiler, option) else []


@functools.cache
def _knows(compiler: Compiler, option: str) -> bool:
    done = _run([*compiler.command, option, "-x", "c", "-fsyntax-only", os.devnull], Path.cwd())
    return done.returncode == 0


def _cached(
    compiler: Compiler,
    source: str,
    folder: Path,
    suffix: str,
    preprocess: Sequence[str] | None,
    options: Sequence[str],
    result: str,
) -> bytes:
    with tempfile.TemporaryDirectory(prefix="pipeline-kernel-") as temporary:
        place = Path(temporary)
        file = place / f"kernel{suffix}"
        file.write_text(source)
        includes = [] if compiler.kind == "glsl" else [f"-I{folder}", f"-I{INCLUDE}"]
        text = source
        if preprocess is not None:
            text = _checked([*compiler.command, *preprocess, *includes, "-E", file.name], place)
        key = _key(_identity(compiler, tuple(preprocess or ())), text, *options)
        kept = user_cache.folder("kernels") / f"{key}{result}"
        if (found := user_cache.read(kept)) is not None:
            return found
        output = place / f"kernel{result}"
        _checked([*compiler.command, *options, *includes, "-o", output.name, file.name], place)
        content = output.read_bytes()
    user_cache.write(kept, content)
    return content


@functools.cache
def _identity(compiler: Compiler, options: tuple[str, ...]) -> str:
    """What tells this compiler, and for C the CPU that it compiles for, from others."""
    if compiler.kind == "c":
        # Also names the extensions that -march=native stands for on this machine.
        return _checked([*compiler.command, *options, "-dM", "-E", "-x", "c", os.devnull], Path.cwd())
    return f"{compiler.command} " + _checked([*compiler.command, "--version"], Path.cwd())


def _checked(command: Sequence[str], folder: Path) -> str:
    done = _run(command, folder)
    if done.returncode != 0:
        # glslangValidator writes its messages to stdout.
        message = (done.stderr.strip() or done.stdout.strip()) or f"exit status {done.returncode}"
        raise ToolError(f"{Path(command[0]).name}: {message}")
    return done.stdout


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
            env=os.environ | {"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{command[0]} did not run: {error}") from error


def _key(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode())
        digest.update(part.encode())
    return digest.hexdigest()

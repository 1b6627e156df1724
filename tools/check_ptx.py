"""Assembles the PTX in a CUDA artifact with ``ptxas``: ``python -m pipeline.tools.check_ptx model.vmfb``.

A CUDA artifact holds PTX text, which the GPU's driver assembles when the artifact is loaded. Where there is
no GPU, ``ptxas`` of the CUDA toolkit says the same earlier. Exit code 0: all assembles; 1: some does not;
2: there is no PTX or no ``ptxas``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

# IREE stores each executable as a flatbuffer in the .vmfb (a zip file), the PTX in it as a C string.
_PTX = re.compile(rb"(?:^|\n)(\.version \d+\.\d+\n[^\0]*)\0")
_KERNEL = re.compile(r"^\s*(?:\.visible )?\.entry ", re.MULTILINE)
_TARGET = re.compile(r"^\.target (sm_\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Ptx:
    """One PTX module. source: the part of the artifact it lies in; architecture: what it was made for."""

    source: str
    text: str

    @property
    def architecture(self) -> str:
        """The ``.target`` it states, such as ``sm_80``."""
        found = _TARGET.search(self.text)
        return found[1] if found else "sm_80"

    @property
    def kernels(self) -> int:
        """How many entry functions it holds."""
        return len(_KERNEL.findall(self.text))


def read_ptx(artifact: Path) -> list[Ptx]:
    """The PTX modules in a .vmfb. Raises OSError or zipfile.BadZipFile for what is none."""
    with zipfile.ZipFile(artifact) as archive:
        return [
            Ptx(name, match[1].decode())
            for name in archive.namelist()
            if name.endswith(".fb")
            for match in _PTX.finditer(archive.read(name))
        ]


def assemble(ptx: Ptx, architecture: str | None = None) -> str | None:
    """What ``ptxas`` objects to for `architecture` (default: the module's own), or None."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "module.ptx")
        source.write_text(ptx.text)
        command = ["ptxas", f"-arch={architecture or ptx.architecture}", "-o", "module.cubin", source.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip()


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="check_ptx", description="Assemble the PTX in a CUDA artifact.")
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--arch", help="a GPU to assemble for, such as sm_90; default: the artifact's own")
    options = parser.parse_args(arguments)
    if shutil.which("ptxas") is None:
        return _unusable("ptxas is not on PATH; it is part of the CUDA toolkit")
    try:
        modules = read_ptx(options.artifact)
    except (OSError, zipfile.BadZipFile) as error:
        return _unusable(f"{options.artifact}: not a readable .vmfb ({error})")
    if not modules:
        return _unusable(f"{options.artifact}: holds no PTX; was it compiled with --target cuda?")
    return max(_check(ptx, options.arch) for ptx in modules)


def _check(ptx: Ptx, architecture: str | None) -> int:
    problem = assemble(ptx, architecture)
    where = f"{ptx.source}: {ptx.kernels} kernels for {architecture or ptx.architecture}"
    print(f"{where}: {'assembles' if problem is None else problem}")
    return int(problem is not None)


def _unusable(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

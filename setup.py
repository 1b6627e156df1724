"""Builds the native kernels of the shipped operators into the wheel, where CMake and their compilers are found.

A wheel made without them works too: such operators are then compiled from their sources where the wheel is used,
or take their other lowerings.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithKernels(build_py):
    """Copies the Python files, then what CMake installs. An editable install compiles from the sources instead."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            problem = _install_kernels(Path(self.build_lib).resolve(), Path(self.build_lib).resolve().parent)
            if problem:
                self.announce(f"native kernels are left out: {problem}", level=3)


def _install_kernels(packages: Path, temporary: Path) -> str | None:
    """Builds in a folder below `temporary` and installs into `packages`. Returns what went wrong, if anything."""
    cmake = shutil.which("cmake")
    if cmake is None:
        return "there is no CMake"
    build = temporary / "cmake"
    steps = [
        [cmake, "-S", str(ROOT), "-B", str(build), f"-DPython3_EXECUTABLE={sys.executable}"],
        [cmake, "--build", str(build), "--target", "kernels"],
        [cmake, "--install", str(build), "--prefix", str(packages)],
    ]
    for step in steps:
        try:
            done = subprocess.run(step, capture_output=True, text=True, errors="replace", check=False)
        except OSError as error:
            return str(error)
        if done.returncode != 0:
            return (done.stderr or done.stdout).strip()
    return None


setup(cmdclass={"build_py": BuildWithKernels})

"""What an internal failure leaves behind: the IR, the command line, the versions, and how to run it again."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO

_BEFORE, _PASS = "before.mlirbc", "progress"
_PACKAGES = ("pipeline", "torch", "torch-mlir", "iree-base-compiler", "numpy")


def keep(folder: Path, message: str, command: list[str]) -> Path:
    """Copies a build folder where it outlives the process; returns the copy.

    The place is PIPELINE_REPRODUCERS, else the system's temporary folder.
    """
    target = _new_folder()
    for file in folder.iterdir():
        # Weights can be gigabytes and no compiler failure depends on their values.
        if file.is_file() and file.suffix not in (".irpa", ".vmfb"):
            shutil.copy(file, target / file.name)
    _write_readme(target, message, f"Run it again in this folder:\n{_how(target, command)}\n")
    return target


@contextmanager
def of_pass(failed: str, message: str) -> Iterator[BinaryIO]:
    """A folder for one pass that failed; the caller writes the IR before it into the file."""
    target = _new_folder()
    (target / _PASS).write_text(failed)
    with (target / _BEFORE).open("wb") as file:
        yield file
    _write_readme(target, message, f"Run it again in this folder:\n{_how(target, [])}\n")


def read(folder: Path) -> tuple[bytes, str]:
    """The IR of a reproducer and the pass that fails on it. Raises ValueError where the folder is none."""
    try:
        return (folder / _BEFORE).read_bytes(), (folder / _PASS).read_text()
    except FileNotFoundError as error:
        raise ValueError(
            f"{folder} is no reproducer of a pass: {Path(error.filename).name} is missing"
        ) from error


def keep_traceback(text: str) -> Path:
    """A folder with only the traceback, for failures before there is any IR."""
    target = _new_folder()
    _write_readme(target, text, "")
    return target


def _new_folder() -> Path:
    parent = os.environ.get("PIPELINE_REPRODUCERS") or tempfile.gettempdir()
    Path(parent).mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="pipeline-reproducer-", dir=parent))


def _write_readme(target: Path, message: str, how: str) -> None:
    (target / "README.txt").write_text(
        f"{message}\n\n"
        f"command: {shlex.join(sys.argv)}\n"
        f"python {platform.python_version()} on {platform.platform()}\n{_versions()}\n\n{how}"
    )


def _versions() -> str:
    return "\n".join(f"{name} {_version(name)}" for name in _PACKAGES)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _how(folder: Path, command: list[str]) -> str:
    if command:
        # The last try of the ladder; the module holds names of weights, never their values.
        return shlex.join(["iree-compile", *(c for c in command[1:] if "parameter-import" not in c)])
    if (folder / _BEFORE).exists():
        return "pipeline-opt ."
    return "pipeline-opt torch.mlirbc --to=linalg"

"""The user's cache folder: what is there can be made again, and everything works where it cannot be written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

FOLDER_VARIABLE = "PIPELINE_CACHE"
"""A folder, or "off"."""


def base() -> Path | None:
    """The folder of all caches, which the environment names; by default in the user's cache folder.

    None where it is off, and for a user without a home, as in some containers. A ``~`` stands for the home: shells
    leave it alone in ``PIPELINE_CACHE="~/programs"``.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return None if named == "off" else Path(os.path.expanduser(named))
    user = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return None if user.startswith("~") else Path(user) / "pipeline"


def folder(kind: str) -> Path:
    """Where results of one kind are kept; where none are, a folder that cannot be."""
    return (base() or Path(os.devnull)) / kind


def read(path: Path) -> bytes | None:
    """What was written there, if anything."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def write(path: Path, content: bytes) -> None:
    """Replaces the whole file, so that nobody ever reads half of one. Does nothing where that is not possible."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise

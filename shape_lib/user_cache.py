"""The user's cache folder: what is there can be made again, and everything works where it cannot be written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def folder(kind: str) -> Path:
    """Where results of one kind are kept: in ``PIPELINE_CACHE``, or the user's cache folder."""
    chosen = os.environ.get("PIPELINE_CACHE")
    if chosen:
        return Path(chosen) / kind
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home, as in some containers
        base = Path(os.devnull)
    return base / "pipeline" / kind


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

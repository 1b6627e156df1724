"""Imported libraries on disk, found by the content of every source file they were made from.

A cache entry lists the files that were read and the places where files were looked for in vain; it counts only
while all of them are as they were.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import user_cache
from .source import Sources, digest, read_source


def cached(request: Sequence[str], files: Sequence[Path], make: Callable[[Sources], str]) -> str:
    """The library that `make` makes, or made earlier for the same `request` from the same sources."""
    path = user_cache.folder("shape_lib") / f"{_key(request, files)}.json"
    found = _read(path)
    if found is not None:
        return found
    sources = Sources()
    text = make(sources)
    user_cache.write(path, json.dumps({"digests": sources.digests, "text": text}).encode())
    return text


def _key(request: Sequence[str], files: Sequence[Path]) -> str:
    parts = [_version(), str(Path.cwd()), *request]
    for file in files:
        with contextlib.suppress(OSError):
            parts.append(digest(read_source(file)))
    return digest("\0".join(parts).encode())


@functools.cache
def _version() -> str:
    """The importer's own content, and the dialect's version, which says what operators are known."""
    from importlib import metadata

    own = sorted(Path(__file__).parent.glob("*.py"))
    content = "".join(digest(path.read_bytes()) for path in own)
    try:
        return f"{content} {metadata.version('torch-mlir')}"
    except metadata.PackageNotFoundError:
        return content


def _read(path: Path) -> str | None:
    content = user_cache.read(path)
    if content is None:
        return None
    try:
        entry = json.loads(content)
        current = all(_digest_of(Path(file)) == known for file, known in entry["digests"].items())
        return str(entry["text"]) if current else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _digest_of(path: Path) -> str | None:
    try:
        return digest(read_source(path))
    except OSError:
        return None

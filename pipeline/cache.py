"""Compiled programs on disk, so that another process need not compile them again.

An entry is a `.vmfb` under the digest of all that went into it (its key): the program in the Torch dialect, its
signature, the options, the weights that are inside, versions, the CPU. The key stands behind it in the file as well,
so that no other program is taken for it. Nothing in it is executed but by IREE, which maps it like any artifact, behind
the same checks of its length and checksums.

Several processes may use one folder. An entry appears whole or not at all, under a name that no other program has, is
never changed, and leaves the folder as a copy. What a killed writer left has a name that no reader looks for. A folder
that cannot be written (full, read-only) costs a line in the log and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.shape_lib import user_cache

from .errors import InputError
from .runtime import ArtifactError, cpu_features
from .runtime.artifact import read_manifest
from .runtime.manifest import Manifest

SIZE_VARIABLE = "PIPELINE_CACHE_SIZE"
"""Bytes, or a number with K, M or G."""

DEFAULT_BYTES = 4 << 30

_SUFFIX = ".vmfb"
_UNFINISHED = ".writing-"
_ABANDONED_SECONDS = 3600.0

_log = logging.getLogger("pipeline")


@dataclass(frozen=True)
class Usage:
    """What a cache holds. limit: bytes it may hold."""

    folder: Path
    entries: int
    nbytes: int
    limit: int


class Cache:
    """The compiled programs in one folder. limit: bytes, beyond which the least recently used go."""

    def __init__(self, folder: Path, limit: int = DEFAULT_BYTES) -> None:
        self.folder = folder
        self.limit = limit

    def fetch(self, key: str, target: Path) -> Manifest | None:
        """Puts the entry at `target` and returns its manifest; None, and nothing there, without a whole entry."""
        entry = self._entry(key)
        try:
            shutil.copyfile(entry, target)
        except OSError:
            target.unlink(missing_ok=True)
            return None
        try:
            _remove_key(target, key)
            manifest = read_manifest(target)
        except ArtifactError as error:
            _log.warning("the cache holds a damaged program, which is compiled again: %s", error)
            target.unlink()
            with contextlib.suppress(OSError):
                entry.unlink()
            return None
        # Its time is when it was last of use.
        with contextlib.suppress(OSError):
            os.utime(entry)
        return manifest

    def store(self, key: str, source: Path) -> None:
        """Adds a copy of `source`, and removes what is too much. Failing is no error."""
        if _sources_digest() != _SOURCES:
            _log.info(
                "the compiled program is not cached: pipeline's own files have changed since it was imported"
            )
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_whole(source, key, self._entry(key))
            self._shrink()
        except OSError as error:
            _log.warning("the compiled program is not cached in %s: %s", self.folder, error.strerror or error)

    def usage(self) -> Usage:
        """What is in the folder."""
        sizes = [status.st_size for _, status in self._entries()]
        return Usage(self.folder, len(sizes), sum(sizes), self.limit)

    def clear(self) -> Usage:
        """Removes every entry; what was there. Raises OSError where the folder cannot be written."""
        before = self.usage()
        for path, _ in [*self._entries(), *self._unfinished()]:
            path.unlink(missing_ok=True)
        return before

    def _entry(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        yield from _files(self.folder.glob(f"*{_SUFFIX}"))

    def _unfinished(self) -> Iterator[tuple[Path, os.stat_result]]:
        yield from _files(self.folder.glob(f"{_UNFINISHED}*"))

    def _shrink(self) -> None:
        """Least recently used first, until it is small enough; and what writers left that are long gone."""
        for path, status in self._unfinished():
            if time.time() - status.st_mtime > _ABANDONED_SECONDS:
                path.unlink(missing_ok=True)
        entries = sorted(self._entries(), key=lambda item: item[1].st_mtime)
        excess = sum(status.st_size for _, status in entries) - self.limit
        for path, status in entries:
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= status.st_size


def default_cache() -> Cache | None:
    """The cache in the folder that `user_cache` finds; None where it finds none.

    Raises InputError for a size that is none.
    """
    folder = user_cache.base()
    return None if folder is None else Cache(folder, _limit())


def find_cache(asked: bool | str | os.PathLike[str]) -> Cache | None:
    """What ``cache=`` asks for: none, the default one, or a folder."""
    if isinstance(asked, bool):
        return default_cache() if asked else None
    return Cache(Path(os.path.expanduser(asked)), _limit())


def _limit() -> int:
    text = os.environ.get(SIZE_VARIABLE)
    if text is None:
        return DEFAULT_BYTES
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if found is None:
        raise InputError(f"{SIZE_VARIABLE}={text}: write bytes, or a number with K, M or G, such as 512M")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]


def digest(parts: Mapping[str, Any], blobs: Iterable[Any]) -> str:
    """The key of a program. parts: what JSON can say of it. blobs: buffers, such as the memory of its weights."""
    total = hashlib.sha256(json.dumps({**parts, "machine": _machine()}, sort_keys=True).encode())
    for blob in blobs:
        total.update(hashlib.sha256(blob).digest())
    return total.hexdigest()


@cache
def _machine() -> dict[str, Any]:
    """What compiles here and for what: our own sources, and the CPU that "host" means."""
    return {
        "sources": _SOURCES,
        "cpu": [cpu_features.host_architecture(), sorted(cpu_features.host_flags() or ())],
    }


def _sources_digest() -> str:
    """Our own sources by their times."""
    root = Path(__file__).parent
    sources = [
        (str(path.relative_to(root)), status.st_size, status.st_mtime_ns)
        for path, status in _files(sorted(_sources(root)))
    ]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    """Our Python files and kernels; rooms are links, which rglob does not follow."""
    for folder, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (Path(folder) / name for name in names)


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Those that are still there."""
    for path in paths:
        with contextlib.suppress(OSError):
            yield path, path.stat()


def _remove_key(copy: Path, key: str) -> None:
    """Cuts the key off the end of an entry's copy. Raises ArtifactError where another is there, or none."""
    mark = key.encode()
    with copy.open("r+b") as file:
        start = max(os.fstat(file.fileno()).st_size - len(mark), 0)
        file.seek(start)
        if file.read() != mark:
            raise ArtifactError(f"{key}: it is truncated, or another program")
        file.truncate(start)


def _write_whole(source: Path, key: str, target: Path) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file, source.open("rb") as data:
            shutil.copyfileobj(data, file)
            file.write(key.encode())
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)


_SOURCES = _sources_digest()
"""Those that this process runs: edited later, they are not what compiled."""

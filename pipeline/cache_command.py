"""``pipeline cache info|clear``."""

from __future__ import annotations

from pipeline.shape_lib.user_cache import FOLDER_VARIABLE

from .cache import Cache, default_cache
from .display import human_bytes
from .errors import InputError


def info() -> None:
    """Prints where the cache is and what it holds."""
    usage = _cache().usage()
    print(
        f"{usage.folder}: {_programs(usage.entries)}, {human_bytes(usage.nbytes)} of {human_bytes(usage.limit)}"
    )


def clear() -> None:
    """Empties the cache. Raises InputError where it cannot be written."""
    cache = _cache()
    try:
        before = cache.clear()
    except OSError as error:
        raise InputError(f"{cache.folder}: cannot be emptied ({error.strerror})") from error
    print(f"{before.folder}: removed {_programs(before.entries)}, {human_bytes(before.nbytes)}")


def _cache() -> Cache:
    cache = default_cache()
    if cache is None:
        raise InputError(f"there is no cache: {FOLDER_VARIABLE}=off, or a user without a home folder")
    return cache


def _programs(count: int) -> str:
    return f"{count} program" + ("" if count == 1 else "s")

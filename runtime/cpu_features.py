"""What this machine's CPU can do, in LLVM's feature names.

IREE checks no CPU features when it loads code, and one unknown instruction kills the process by SIGILL.
Linux lists the features in /proc/cpuinfo under names of its own; this module translates.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

# LLVM name -> /proc/cpuinfo flag, where dropping punctuation does not already make them equal.
_ALIASES = {
    "64bit": "lm",
    "bmi": "bmi1",
    "crc32": "sse42",
    "lzcnt": "abm",
    "pclmul": "pclmulqdq",
    "prfchw": "3dnowprefetch",
    "rdrnd": "rdrand",
    "sahf": "lahflm",
    "sha": "shani",
    "sse3": "pni",
    "x87": "fpu",
    "neon": "asimd",
    "fpac": "paca",
    "lse": "atomics",
    "dotprod": "asimddp",
    "fullfp16": "asimdhp",
    "rdm": "asimdrdm",
    "rcpc": "lrcpc",
    "i8mm": "i8mm",
    "fparmv8": "fp",
    "altnzcv": "flagm2",
    "ccpp": "dcpop",
}

# Features that Linux does not list, or that change no instruction a compiler emits for ordinary code:
# the kernel itself refuses or hides them, so their absence from /proc/cpuinfo proves nothing.
_UNLISTED = {"avx10.1", "evex512", "prefetchi", "pconfig", "jsconv", "complxnum", "predres", "perfmon", "v8a"}


def _plain(name: str) -> str:
    return name.lower().translate(str.maketrans("", "", "._-"))


@cache
def host_flags() -> frozenset[str] | None:
    """The CPU's flags without punctuation; None where the system does not list them."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return None
    for line in cpuinfo.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(_plain(flag) for flag in value.split())
    return None


def host_architecture() -> str:
    """The machine's architecture as LLVM spells it (``x86_64``, ``aarch64``)."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def missing(features: list[str]) -> list[str]:
    """The LLVM features among `features` that this CPU lacks."""
    flags = host_flags()
    if flags is None:
        return []
    wanted = [name for name in features if name not in _UNLISTED]
    return [name for name in wanted if _ALIASES.get(name, _plain(name)) not in flags]

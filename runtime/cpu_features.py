"""What this machine's CPU can do, in LLVM's feature names.

IREE checks no CPU features when it loads code, and one unknown instruction kills the process by SIGILL.
Linux lists the features in /proc/cpuinfo under names of its own; this module translates.
"""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")

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
    "altnzcv": "flagm2",
    "ccdp": "dcpodp",
    "ccpp": "dcpop",
    "complxnum": "fcma",
    "crc": "crc32",
    "dotprod": "asimddp",
    "fp-armv8": "fp",
    "fp16fml": "asimdfhm",
    "fullfp16": "asimdhp",
    "jsconv": "jscvt",
    "lse": "atomics",
    "lse2": "uscat",
    "neon": "asimd",
    "pauth": "paca",
    "rand": "rng",
    "rcpc": "lrcpc",
    "rcpc-immo": "ilrcpc",
    "rdm": "asimdrdm",
}

# Features that Linux does not list, or that change no instruction a compiler emits for ordinary code: the kernel
# itself refuses or hides them (a hypervisor's guest has `shstk` in CPUID and not in /proc/cpuinfo), so their
# absence proves nothing. All of x86's are instructions that only an intrinsic asks for.
_UNLISTED = {"avx10.1", "evex512"} | {
    *("cldemote", "clzero", "enqcmd", "hreset", "kl", "lwp", "mwaitx", "pconfig", "prefetchi", "ptwrite"),
    *("rdpru", "serialize", "sgx", "shstk", "tsxldtrk", "uintr", "usermsr", "waitpkg", "wbnoinvd", "widekl"),
    *("am", "ccidx", "el2vmsa", "el3", "fpac", "lor", "pan", "pan-rwv", "perfmon", "predres", "ras"),
    *("sel2", "spe", "spe-eef", "tlb-rmi", "tracev8.4", "uaops", "vh"),
}
_ARCHITECTURE_LEVEL = re.compile(r"v[89](\.\d+)?a")


def _plain(name: str) -> str:
    return name.lower().translate(str.maketrans("", "", "._-"))


@cache
def host_flags() -> frozenset[str] | None:
    """The CPU's flags without punctuation; None where the system does not list them."""
    if not _CPUINFO.exists():
        return None
    for line in _CPUINFO.read_text().splitlines():
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
    wanted = [name for name in features if name not in _UNLISTED and not _ARCHITECTURE_LEVEL.fullmatch(name)]
    return [name for name in wanted if _ALIASES.get(name, _plain(name)) not in flags]

"""Memory of processes, as Linux counts it; 0 elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import time
from pathlib import Path


class TreePeak:
    """Samples the proportional memory (PSS: a page shared by n processes counts 1/n) of a process and its children."""

    def __init__(self, root: int) -> None:
        self.bytes = 0
        self._root = root
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> int:
        """Stops sampling; the peak in bytes."""
        self._ended.set()
        return self.bytes

    def _watch(self) -> None:
        while not self._ended.is_set() and Path(f"/proc/{self._root}").exists():
            self.bytes = max(self.bytes, sum(_pss(pid) for pid in process_tree(self._root)))
            time.sleep(0.2)


def forget_peak() -> None:
    """What this process needed so far does not count in `own_peak`; memory that nothing uses is given back first."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (AttributeError, OSError):
        pass


def own_peak() -> int:
    """The most bytes of memory that this process held since `forget_peak`."""
    return _kib("/proc/self/status", "VmHWM:")


def process_tree(root: int) -> list[int]:
    """The process `root` and all below it."""
    found = [root]
    for pid in found:
        # Processes and threads end while they are looked at.
        with contextlib.suppress(OSError):
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found


def _pss(pid: int) -> int:
    return _kib(f"/proc/{pid}/smaps_rollup", "Pss:")


def _kib(path: str, key: str) -> int:
    try:
        text = Path(path).read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(key)), 0)

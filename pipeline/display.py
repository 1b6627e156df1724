"""Progress on a terminal: the running stage and the time each took. Quiet when piped."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

from rich.console import Console
from rich.status import Status

from .compiler import Options


def human_bytes(count: int) -> str:
    """``1.4 MiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


class StageDisplay:
    """Shows stages as they run, on standard error, when that is a terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def attach(self, options: Options) -> Options:
        """`options` that report to this display, and print the IR asked for to standard output."""
        return replace(options, on_stage=self.stage, on_print=_print_ir)

    def stage(self, name: str, seconds: float | None) -> None:
        """A stage starts (seconds None) or ends."""
        if self._status is None:
            return
        if seconds is None:
            self._status.update(name)
        else:
            self._console.print(f"[dim]{name:<10} {seconds:6.2f} s[/dim]")

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Reports a block as a stage."""
        self.stage(name, None)
        start = time.perf_counter()
        yield
        self.stage(name, time.perf_counter() - start)


def _print_ir(name: str, text: str) -> None:
    where = name if name.startswith("before ") else f"after {name}"
    print(f"// -----// IR {where} //----- //\n{text}", file=sys.stdout, flush=True)

"""Ctrl-C waits while state moves: a call interrupted half-way would leave part of its updates done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Raises the KeyboardInterrupt that comes in the meantime at the end.

    Only where Python's own handler would raise it: other handlers, and threads beside the main one, which get no
    signals, are left alone.
    """
    if not _would_raise():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def _would_raise() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

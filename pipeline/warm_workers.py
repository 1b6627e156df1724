"""The parent's side of `pipeline.warm_worker`: a few of them are kept, and each does one job at a time."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_idle: list[_WarmWorker] = []
"""Those at rest. append and pop are atomic, so that threads need no lock."""


class WorkerGoneError(Exception):
    """The warm worker itself ended; the job may be done by another."""


class TookTooLongError(Exception):
    """The child was killed at its time limit."""


def run(folder: Path, memory: int, timeout: float) -> int:
    """Runs the job in `folder`; the child's exit code, negative for a signal. Its output is in ``output.txt``.

    memory: bytes of data it may have. timeout: seconds. Raises TookTooLongError.
    """
    try:
        return _lease().run(folder, memory, timeout)
    except WorkerGoneError:
        # It had been idle for too long, or someone killed it. A new one has no such excuse.
        return _WarmWorker().run(folder, memory, timeout)


def _lease() -> _WarmWorker:
    with contextlib.suppress(IndexError):
        return _idle.pop()
    return _WarmWorker()


class _WarmWorker:
    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", "pipeline.warm_worker"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._received = b""

    def run(self, folder: Path, memory: int, timeout: float) -> int:
        """As `run`; afterwards this worker is idle, or gone if the job was interrupted."""
        request = {"folder": str(folder), "memory": memory, "environment": dict(os.environ)}
        deadline = time.monotonic() + timeout
        pid = None
        try:
            self._send(request)
            pid = self._answer(None)["pid"]
            code = self._answer(deadline)["code"]
        except BaseException:
            self._end(pid)
            raise
        _kill_group(pid)
        _idle.append(self)
        return code

    def _send(self, request: dict) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerGoneError from error

    def _answer(self, deadline: float | None) -> dict:
        """The next line. Both lines of a job may be there at once: what is behind the first waits in `_received`."""
        assert self._process.stdout is not None
        while b"\n" not in self._received:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise TookTooLongError
            read = os.read(self._process.stdout.fileno(), 4096)
            if not read:
                raise WorkerGoneError
            self._received += read
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def _end(self, pid: int | None) -> None:
        if pid is not None:
            _kill_group(pid)
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Ends the worker, which sees its input closed."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()


def _kill_group(pid: int) -> None:
    """All that a child left behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _close_idle() -> None:
    while _idle:
        _idle.pop().close()


atexit.register(_close_idle)
# A forked copy of this process must not talk to its parent's workers.
os.register_at_fork(after_in_child=_idle.clear)

"""Child processes with a time limit and a memory limit, whose death is an answer and not an accident."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import warm_workers

DEFAULT_TIMEOUT = 1800.0
"""Seconds that one compiler process may take; ``compile(timeout=...)`` and ``--timeout`` change it."""

_OUT_OF_MEMORY = "it ran out of memory"


@dataclass(frozen=True)
class Limits:
    """What a child may use. timeout: seconds. memory: bytes of data, by default all of the machine's."""

    timeout: float = DEFAULT_TIMEOUT
    memory: int | None = None

    def memory_bytes(self) -> int:
        """The limit in force."""
        return self.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True)
class Outcome:
    """How a child ended. problem: None when it exited with 0, else what happened in words."""

    problem: str | None
    output: str
    timed_out: bool = False

    @property
    def out_of_memory(self) -> bool:
        """Whether it was its memory that ended it."""
        return self.problem is not None and self.problem.startswith(_OUT_OF_MEMORY)


def run(command: Sequence[str], folder: Path, limits: Limits) -> Outcome:
    """Runs `command` in `folder` and waits; its whole process group ends with it, and it with this process."""
    log = folder / "output.txt"
    timed_out = False
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*_ends_with_us(), *command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
        try:
            # From outside: a function between fork and exec is unsafe once the parent has threads.
            with contextlib.suppress(ProcessLookupError, AttributeError):
                limit = limits.memory_bytes()
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, limit))
            code = _wait(process, limits.timeout)
            problem = None if code == 0 else _death(code, log)
        except subprocess.TimeoutExpired:
            timed_out = True
            problem = _too_long(limits)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Outcome(problem, log.read_text(errors="replace"), timed_out)


@functools.cache
def _ends_with_us() -> tuple[str, ...]:
    """Starts a command that the kernel kills when this process dies, however it dies; nothing where that is unknown."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return ()
    start = (setpriv, "--pdeathsig", "KILL", "--")
    return start if subprocess.run([*start, "true"], check=False, capture_output=True).returncode == 0 else ()


def _wait(process: subprocess.Popen[bytes], timeout: float) -> int:
    """Waits as `Popen.wait` does, which looks only every 50 ms: too seldom for children that take 200."""
    if sys.platform == "linux":
        handle = os.pidfd_open(process.pid)
        try:
            poller = select.poll()
            poller.register(handle, select.POLLIN)
            if not poller.poll(timeout * 1000):
                raise subprocess.TimeoutExpired(process.args, timeout)
        finally:
            os.close(handle)
        return process.wait()
    return process.wait(timeout)


def run_job(folder: Path, job: dict[str, Any], limits: Limits) -> dict[str, Any] | Outcome:
    """Runs one job of `pipeline.worker`; its result, or the outcome when the process died."""
    (folder / "job.json").write_text(json.dumps(job))
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    outcome = _run_worker(folder, limits)
    if outcome.problem is None and result.exists():
        return json.loads(result.read_text())
    return outcome


def _run_worker(folder: Path, limits: Limits) -> Outcome:
    log = folder / "output.txt"
    log.unlink(missing_ok=True)
    try:
        code = warm_workers.run(folder.resolve(), limits.memory_bytes(), limits.timeout)
    except warm_workers.TookTooLongError:
        return Outcome(_too_long(limits), _text(log), timed_out=True)
    except warm_workers.WorkerGoneError:
        return Outcome("it could not be started", _text(log))
    return Outcome(None if code == 0 else _death(code, log), _text(log))


def _too_long(limits: Limits) -> str:
    return f"it took longer than the time limit of {limits.timeout:g} s"


def _text(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""


def _death(code: int, log: Path) -> str:
    if code > 0:
        return f"it exited with status {code}"
    name = signal.Signals(-code).name
    tail = _text(log)[-4000:]
    if name == "SIGKILL" or "bad_alloc" in tail or "out of memory" in tail.lower():
        return f"{_OUT_OF_MEMORY} ({name})"
    return f"it crashed ({name})"

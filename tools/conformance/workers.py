"""Runs cases in processes that may crash or hang; each such end is a record."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from . import judge
from .cases import Case
from .records import Record

_CASES_PER_PROCESS = 150
"""Then a fresh one: torch's tracing keeps memory."""

_fork: Any = multiprocessing.get_context("fork")


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    case: Case | None = None
    started: float = 0.0
    done: int = 0

    def give(self, case: Case) -> None:
        self.case, self.started = case, time.monotonic()
        self.pipe.send(case)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run(cases: Iterable[Case], jobs: int, timeout: float) -> Iterator[Record]:
    """Records in the order they end. timeout: seconds for one compiler process; a case gets three times that."""
    waiting = iter(cases)
    workers: list[_Worker] = []
    try:
        while True:
            _fill(workers, waiting, jobs, timeout)
            if not workers:
                return
            yield from _collect(workers, 3 * timeout)
    finally:
        for worker in workers:
            worker.stop()


def _fill(workers: list[_Worker], waiting: Iterator[Case], jobs: int, timeout: float) -> None:
    """Gives every idle worker a case; starts workers up to `jobs`, stops those that are not needed."""
    for worker in [worker for worker in workers if worker.case is None]:
        case = next(waiting, None) if worker.done < _CASES_PER_PROCESS else None
        if case is None:
            worker.stop()
            workers.remove(worker)
        else:
            worker.give(case)
    while len(workers) < jobs:
        case = next(waiting, None)
        if case is None:
            return
        workers.append(_start(timeout))
        workers[-1].give(case)


def _start(timeout: float) -> _Worker:
    ours, theirs = _fork.Pipe()
    process = _fork.Process(target=_serve, args=(theirs, timeout), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(pipe: Connection, timeout: float) -> None:
    """In the child: executes what comes. What a crash prints belongs to no one's terminal."""
    import torch

    from .execution import execute

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    with open(os.devnull, "w") as sink:
        os.dup2(sink.fileno(), 2)
    while True:
        pipe.send(execute(pipe.recv(), timeout))


def _collect(workers: list[_Worker], limit: float) -> Iterator[Record]:
    """Waits for results, deaths and time limits."""
    ready = wait([worker.pipe for worker in workers], timeout=1.0)
    for worker in list(workers):
        record = _ended(worker, worker.pipe in ready, limit)
        if record is None:
            continue
        if record.status in (judge.CRASH, judge.HANG) and not worker.process.is_alive():
            workers.remove(worker)
        worker.case, worker.done = None, worker.done + 1
        yield record


def _ended(worker: _Worker, ready: bool, limit: float) -> Record | None:
    assert worker.case is not None
    seconds = time.monotonic() - worker.started
    if ready:
        try:
            return worker.pipe.recv()
        except EOFError:
            worker.process.join()
            code = worker.process.exitcode
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            worker.pipe.close()
            return Record(
                worker.case, judge.CRASH, f"the process that ran the program ended: {name}", seconds
            )
    if seconds > limit:
        worker.stop()
        return Record(worker.case, judge.HANG, f"no end after {limit:g} s", seconds)
    return None

"""Runs cases in processes that may crash or hang; each such end is a record."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from . import judge
from .cases import Case
from .records import Record

Job = Sequence[Case]
"""Cases that may share a program."""

_JOBS_PER_PROCESS = 150
"""Then a fresh one: torch's tracing keeps memory."""

_fork: Any = multiprocessing.get_context("fork")


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    job: Job = ()
    started: float = 0.0
    done: int = 0

    def give(self, job: Job) -> None:
        self.job, self.started = job, time.monotonic()
        self.done += 1
        self.pipe.send(job)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run(jobs: Iterable[Job], processes: int, timeout: float) -> Iterator[Record]:
    """Records in the order they end. timeout: seconds for one compiler process; a job gets three times that.

    A job of several cases that crashes or hangs is done again, case by case.
    """
    pool = _Pool(jobs, processes, timeout)
    try:
        while pool.fill():
            yield from pool.collect()
    finally:
        pool.stop()


class _Pool:
    def __init__(self, jobs: Iterable[Job], processes: int, timeout: float) -> None:
        self._waiting = iter(jobs)
        self._again: deque[Job] = deque()
        self._processes = processes
        self._timeout = timeout
        self._workers: list[_Worker] = []

    def fill(self) -> bool:
        """Gives idle workers a job, starting and replacing workers as needed; whether any is at work."""
        for worker in [worker for worker in self._workers if not worker.job]:
            job = self._next() if worker.done < _JOBS_PER_PROCESS else ()
            if job:
                worker.give(job)
            else:
                worker.stop()
                self._workers.remove(worker)
        while len(self._workers) < self._processes and (job := self._next()):
            self._workers.append(_start(self._timeout))
            self._workers[-1].give(job)
        return bool(self._workers)

    def _next(self) -> Job:
        return self._again.popleft() if self._again else next(self._waiting, ())

    def collect(self) -> Iterator[Record]:
        """Waits for results, deaths and time limits."""
        ready = wait([worker.pipe for worker in self._workers], timeout=1.0)
        for worker in list(self._workers):
            if worker.pipe in ready:
                yield from self._received(worker)
            elif time.monotonic() - worker.started > 3 * self._timeout:
                yield from self._lost(worker, judge.HANG, f"no end after {3 * self._timeout:g} s")

    def _received(self, worker: _Worker) -> Iterator[Record]:
        try:
            records = worker.pipe.recv()
        except EOFError:
            worker.process.join()
            code = worker.process.exitcode
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            yield from self._lost(worker, judge.CRASH, f"the process that ran the program ended: {name}")
            return
        worker.job = ()
        yield from records

    def _lost(self, worker: _Worker, status: str, message: str) -> Iterator[Record]:
        self._workers.remove(worker)
        worker.stop()
        if len(worker.job) > 1:
            self._again.extend((case,) for case in worker.job)
            return
        yield Record(worker.job[0], status, message, time.monotonic() - worker.started)

    def stop(self) -> None:
        """Ends what is still running."""
        for worker in self._workers:
            worker.stop()


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

"""The process of one competitor: memory, threads and a crash are its own."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pipeline.worker import die_with_parent

from .memory import forget_peak, own_peak
from .workload import Subject

_WARM_UP = 2


@dataclass(frozen=True)
class Prepared:
    """A competitor that is ready to be timed. seconds: until its first result. error, problem: see
    `checking.Verdict`."""

    seconds: float
    error: float
    problem: str | None
    note: str


@dataclass(frozen=True)
class Failed:
    """One that is not, and why. absent: its package is not installed."""

    why: str
    absent: bool = False


@dataclass(frozen=True)
class Round:
    """Seconds of each call in one round: on the wall, and of CPU time of all threads of the process."""

    wall: list[float]
    cpu: list[float]


@dataclass(frozen=True)
class Peak:
    """The most memory, in bytes, that the process held during the rounds."""

    bytes: int


def serve(connection: Connection, subject: Subject, name: str, log: Path) -> None:
    """Prepares the competitor `name`, says so, and answers each number of seconds with a round; None ends it.

    What libraries print goes to `log`.
    """
    die_with_parent()
    os.setpgrp()  # so that whoever stops it reaches what it started too
    redirect(log)
    try:
        prepared, ready = _prepare(subject, name)
    except Exception as error:
        traceback.print_exc()
        connection.send(Failed(_gist(error), isinstance(error, ModuleNotFoundError)))
        return
    for _ in range(_WARM_UP):
        ready.call()
    forget_peak()
    connection.send(prepared)
    while (seconds := connection.recv()) is not None:
        connection.send(_round(ready.call, seconds))
    connection.send(Peak(own_peak()))


def _prepare(subject: Subject, name: str) -> tuple[Prepared, Any]:
    import torch

    from . import checking, competitors, training_steps, workload

    torch.set_num_threads(subject.threads)
    torch._inductor.config.force_disable_caches = True
    work = workload.load(subject)
    if isinstance(work, workload.Training):
        check, make = checking.TrainingCheck(work), partial(training_steps.COMPETITORS[name], work)
    else:
        check, make = checking.InferenceCheck(work), partial(competitors.COMPETITORS[name], work)
    start = time.perf_counter()
    ready = make()
    made = time.perf_counter() - start
    first = _FirstCall(ready.call)
    verdict = check.verdict(replace(ready, call=first))
    return Prepared(made + first.seconds, verdict.error, verdict.problem, ready.note), ready


class _FirstCall:
    """Times the first call: `torch.compile` compiles in it."""

    seconds = 0.0

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def __call__(self) -> Any:
        start = time.perf_counter()
        result = self._call()
        self.seconds = self.seconds or time.perf_counter() - start
        return result


def _round(call: Any, seconds: float) -> Round:
    """At least one call, and then as many as fit."""
    found = Round([], [])
    end = time.perf_counter() + seconds
    while not found.wall or time.perf_counter() < end:
        cpu, wall = time.process_time(), time.perf_counter()
        result = call()
        found.wall.append(time.perf_counter() - wall)
        found.cpu.append(time.process_time() - cpu)
        del result
    return found


def redirect(log: Path) -> None:
    """What this process and its libraries print goes to the file `log` from now on."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _gist(error: Exception) -> str:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}"[:300]

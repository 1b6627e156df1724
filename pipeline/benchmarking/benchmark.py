"""A benchmark of one subject, roofline included."""

from __future__ import annotations

import multiprocessing
import os
import platform
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .contest import Report, Rules, compete
from .contestant import redirect
from .results import Result
from .roofline import Peaks, Roofline, measure_peaks, roofline
from .workload import Subject, load, name_of

_PACKAGES = ("torch", "torch-mlir", "iree-base-compiler", "onnxruntime", "openvino")


def benchmark(
    subject: Subject, names: Sequence[str], rules: Rules, *, clock: str, limit: bool, report: Report
) -> Result:
    """Times `names` on `subject`. clock: "wall" or "cpu". limit: measure the roofline too."""
    found = None
    if limit:
        report("measuring the machine")
        found = _apart(_roofline, subject, peaks_of_this_machine(subject.threads))
    entrants = compete(subject, names, rules, report)
    return Result(name_of(subject.model), subject.train, subject.threads, clock, entrants, found)


_peaks: dict[int, Peaks] = {}


def peaks_of_this_machine(threads: int) -> Peaks:
    """See `measure_peaks`; measured once."""
    if threads not in _peaks:
        _peaks[threads] = _apart(measure_peaks, threads)
    return _peaks[threads]


def _roofline(subject: Subject, peaks: Peaks) -> Roofline:
    return roofline(load(subject), peaks)


def _apart(function: Any, *args: Any) -> Any:
    """The result of a call in a process of its own, whose threads and memory end with it."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=redirect, initargs=(Path(os.devnull),)) as pool:
        return pool.submit(function, *args).result()


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "peaks": {str(threads): asdict(peaks) for threads, peaks in _peaks.items()},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine()
    )

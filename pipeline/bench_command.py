"""``pipeline bench``."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from .benchmarking import tables
from .benchmarking.benchmark import benchmark, machine
from .benchmarking.competitors import COMPETITORS, OURS
from .benchmarking.contest import Rules
from .benchmarking.results import Result, write_json
from .benchmarking.training_steps import COMPETITORS as TRAINING_COMPETITORS
from .benchmarking.workload import Subject, load
from .commands import read_lowerings
from .errors import EXIT_MISMATCH, InputError


def bench(
    model: str,
    entry: str | None,
    train: bool,
    threads: Sequence[str],
    competitors: Sequence[str],
    rules: Rules,
    clock: str,
    roofline: bool,
    json: Path | None,
    plot: Path | None,
    options: dict[str, Any],
) -> int:
    """Times MODEL compiled by us and by others; the exit code."""
    check_files(json, plot)
    names = _names(competitors, train)
    options = {**options, "lowerings": read_lowerings(options["lowerings"])}
    counts = [thread_count(text) for text in threads or ("1",)]
    subjects = [Subject(model, entry, train, count, options) for count in counts]
    # Bad input is one error here, and not one for each competitor.
    load(subjects[0])
    results = []
    for subject in subjects:
        results.append(run(subject, names, rules, clock=clock, roofline=roofline))
        show(results[-1])
    leave(results, json, plot)
    return EXIT_MISMATCH if any(is_wrong(result) for result in results) else 0


def _names(chosen: Sequence[str], train: bool) -> list[str]:
    known = list(TRAINING_COMPETITORS if train else COMPETITORS)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise InputError(f"--competitor {unknown[0]}: choose from {', '.join(known)}")
    return [name for name in known if not chosen or name in chosen or name == OURS]


def thread_count(text: str) -> int:
    """``all``, or a number. Raises InputError for anything else."""
    if text == "all":
        return os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--threads {text}: give a number of threads, or all")
    return int(text)


def run(subject: Subject, names: Sequence[str], rules: Rules, *, clock: str, roofline: bool) -> Result:
    """One subject, with progress on a terminal."""
    console = Console(stderr=True)
    with console.status("") as status:
        report = status.update if console.is_terminal else lambda text: None
        return benchmark(subject, names, rules, clock=clock, limit=roofline, report=report)


def show(result: Result) -> None:
    """Prints the table of one subject."""
    # Piped, a table must not be cut at 80 columns.
    Console(width=None if sys.stdout.isatty() else 200).print(tables.table(result))
    limit = tables.describe_roofline(result)
    if limit:
        print(limit, flush=True)


def check_files(json: Path | None, plot: Path | None) -> None:
    """Raises InputError for files that could not be written, which nobody wants to learn after an hour of rounds."""
    for path in (json, plot):
        if path is not None and not path.resolve().parent.is_dir():
            raise InputError(f"{path}: the folder {path.parent} does not exist")
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise InputError("--plot needs matplotlib: pip install 'pipeline[bench]'")


def leave(results: list[Result], json: Path | None, plot: Path | None) -> None:
    """Writes the files that were asked for."""
    if json is not None:
        write_json(json, machine(), results)
    if plot is not None:
        tables.plot(results, plot)


def is_wrong(result: Result) -> bool:
    """Whether our own results are not eager's, or are not there."""
    ours = next((e for e in result.entrants if e.name == OURS), None)
    return ours is not None and (ours.problem is not None or ours.failure is not None)

"""``python -m pipeline.tools.conformance``: PyTorch's operators through the compiler, compared with eager.

    conformance -o forward.jsonl                            # the middle sample of every operator, forward
    conformance --kind backward -o backward.jsonl
    conformance --kind just-in-time                         # gradients through torch.compile
    conformance --samples all --batch 16 --resume -o all.jsonl   # an hour; --resume goes on after a stop
    conformance --ops 'fft\\..*' --dtypes complex64 --dynamic
    conformance --target vulkan -o vulkan.jsonl

``python -m pipeline.tools.conformance.page`` makes docs/operators.md from the records.

Exit code 0: everything is right or clearly refused; 1: something is silently wrong, crashes, hangs or fails; 2: usage.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import click
from rich.progress import Progress

from . import judge
from .cases import (
    DTYPES,
    GRADIENTS,
    KINDS,
    LAYOUTS,
    Case,
    chosen,
    first_dtypes,
    matching,
    operators,
    samples,
    supported_dtypes,
)
from .denominator import counted
from .records import Record, read, tally
from .workers import Job, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--ops", help="regular expression that whole operator names match (default: the checked-in list)"
)
@click.option("--kind", type=click.Choice(KINDS), default="forward", show_default=True)
@click.option(
    "--samples",
    "how_many",
    default="1",
    show_default=True,
    help="per operator and dtype: 1 is the middle one; N; all",
)
@click.option(
    "--dtypes",
    default="first",
    show_default=True,
    help="comma-separated; first: float32, or int64 and bool; all",
)
@click.option("--layout", type=click.Choice(LAYOUTS), default="contiguous", show_default=True)
@click.option("--dynamic", is_flag=True, help="compile with every size open")
@click.option("--target", type=click.Choice(("cpu", "vulkan", "cuda")), default="cpu", show_default=True)
@click.option("--jobs", default=2, show_default=True)
@click.option(
    "--batch", default=1, show_default=True, help="samples of an operator to compile as one program"
)
@click.option("--timeout", default=60.0, show_default=True, help="seconds for one compiler process")
@click.option("--resume", is_flag=True, help="leave out what OUTPUT already holds")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="records, one JSON a line"
)
def main(
    ops: str | None,
    kind: str,
    how_many: str,
    dtypes: str,
    layout: str,
    dynamic: bool,
    target: str,
    jobs: int,
    batch: int,
    timeout: float,
    resume: bool,
    output: Path | None,
) -> None:
    """Runs OpInfo's samples and prints what is not right."""
    done = read(output) if resume and output and output.exists() else []
    skip = {record.case.key for record in done}
    template = {"kind": kind, "target": target, "layout": layout, "dynamic": dynamic}
    pairs = [(name, dtype) for name in _names(ops) for dtype in _dtypes(operators()[name], dtypes, kind)]
    with Progress(disable=not sys.stderr.isatty()) as progress:
        cases = _cases(progress.track(pairs, description="operators"), _number(how_many), template)
        todo = _jobs((case for case in cases if case.key not in skip), batch)
        found = [*done, *_run(todo, jobs, timeout, _sink(output, resume))]
    _print_totals(found)
    bad = {
        judge.WRONG_VALUE,
        judge.WRONG_TYPE,
        judge.CRASH,
        judge.HANG,
        judge.FAILURE,
        judge.RUNTIME,
        judge.ACCEPTED,
    }
    sys.exit(any(record.status in bad for record in found))


def _number(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdigit() or text == "0":
        raise click.BadParameter(f"'{text}' is neither a number nor 'all'", param_hint="--samples")
    return int(text)


def _cases(
    pairs: Iterable[tuple[str, str]], how_many: int | None, template: dict[str, Any]
) -> Iterator[Case]:
    """Operator by operator, so that a worker generates an operator's samples once; counted as they are needed."""
    for name, dtype in pairs:
        try:
            count = len(samples(name, dtype, template["kind"]))
        except Exception:
            count = 1  # the worker records why
        for sample in chosen(count, how_many if template["kind"] != "errors" else None):
            yield Case(name, dtype, sample, **template)


def _names(ops: str | None) -> list[str]:
    try:
        names = list(matching(ops)) if ops else list(counted())
    except re.error as error:
        raise click.BadParameter(f"'{ops}' is no regular expression: {error}", param_hint="--ops") from error
    if not names:
        raise click.BadParameter(f"no operator's name matches '{ops}'", param_hint="--ops")
    return names


def _dtypes(info: Any, text: str, kind: str) -> list[str]:
    if kind == "errors":
        return ["float32"]
    if kind in GRADIENTS and not info.supports_autograd:
        return []
    if text == "first":
        found = first_dtypes(info)
    else:
        wanted = DTYPES if text == "all" else tuple(name.strip() for name in text.split(","))
        unknown = [name for name in wanted if name not in DTYPES]
        if unknown:
            raise click.BadParameter(
                f"{', '.join(unknown)}: choose from {', '.join(DTYPES)}", param_hint="--dtypes"
            )
        found = supported_dtypes(info, wanted)
    differentiable = ("float32", "float64", "bfloat16", "float16", "complex64")
    return [dtype for dtype in found if kind not in GRADIENTS or dtype in differentiable]


def _jobs(cases: Iterable[Case], batch: int) -> Iterator[Job]:
    """Up to `batch` cases that differ in their samples only."""
    for _, group in itertools.groupby(cases, key=lambda case: replace(case, sample=0)):
        while job := list(itertools.islice(group, batch)):
            yield job


def _sink(output: Path | None, resume: bool) -> IO[str]:
    return (output or Path(os.devnull)).open("a" if resume else "w", buffering=1)


def _run(todo: Iterable[Job], jobs: int, timeout: float, sink: IO[str]) -> Iterator[Record]:
    with sink:
        for record in run(todo, jobs, timeout):
            sink.write(record.to_json() + "\n")
            if record.status not in (judge.RIGHT, judge.SKIPPED, judge.EAGER):
                print(_line(record), flush=True)
            yield record


def _line(record: Record) -> str:
    case = record.case
    last = record.message.splitlines()[-1].strip()[:200] if record.message else ""
    return f"{case.operator} {case.dtype} #{case.sample}: {record.status}: {last}"


def _print_totals(found: list[Record]) -> None:
    counts = tally(found)
    judged = sum(n for status, n in counts.items() if status not in (judge.SKIPPED, judge.EAGER))
    for status, n in counts.most_common():
        print(f"{n:>6}  {status}")
    if judged:
        print(f"{100 * counts[judge.RIGHT] / judged:.1f} % of {judged} right")


if __name__ == "__main__":
    main()

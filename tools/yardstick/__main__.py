"""PyTorch's own tests as a yardstick: small programs of their kinds, ahead of time and just in time, against eager.

python -m pipeline.tools.yardstick [NAME ...] [--way "ahead of time"]

Prints every program that is not right, and how many were tried and right. Exit code 0: none is wrong or failed.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter

import click

from .cases import WAYS
from .running import BAD, CASES, RIGHT, judge


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--way", type=click.Choice(WAYS), help="only this one")
def main(names: tuple[str, ...], way: str | None) -> None:
    """Tries the cases, all by default."""
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise click.BadParameter(f"no such case: {', '.join(unknown)}")
    bad = [_tried(tried, names or tuple(CASES)) for tried in ([way] if way else WAYS)]
    sys.exit(any(bad))


def _tried(way: str, names: tuple[str, ...]) -> bool:
    """Tries the cases in one way; whether one is wrong or failed."""
    counts: Counter[str] = Counter()
    for name in names:
        if way not in CASES[name].ways:
            continue
        with warnings.catch_warnings(action="ignore"):
            verdict = judge(CASES[name], way)
        counts[verdict.status] += 1
        if verdict.status != RIGHT:
            print(f"{way}: {name}: {verdict.status}: {verdict.message.strip()[:600]}", flush=True)
    counted = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    print(f"{way}: {counts.total()} tried: {counted}", flush=True)
    return any(counts[status] for status in BAD)


if __name__ == "__main__":
    main()

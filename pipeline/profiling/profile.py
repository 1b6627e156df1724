"""Times, work and source lines joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.benchmarking.roofline import Peaks

from .compiled import Origin, Sources, Work
from .running import Event

_UNKNOWN = Work((), None, None)


@dataclass(frozen=True)
class Dispatch:
    """One dispatch of a call. start, duration: nanoseconds, of the fastest call. origins: operators it is of, with
    their lines. work: what its function computes."""

    function: str
    start: int
    duration: int
    origins: tuple[Origin, ...]
    work: Work


@dataclass(frozen=True)
class Row:
    """All dispatches of one function in a call. nanoseconds: of all of them, each the least over the calls.

    operations, bytes: of all of them, None where unknown. fraction: of the speed that the machine's peaks allow.
    """

    function: str
    count: int
    nanoseconds: int
    operations: int | None
    bytes: int | None
    fraction: float | None
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Profile:
    """One entry point. span: nanoseconds from the first dispatch to the end of the last, of the fastest call, and
    between: those in which none ran. timeline: that call. rows: slowest first."""

    entry: str
    calls: int
    threads: int
    span: int
    between: int
    timeline: list[Dispatch]
    rows: list[Row]
    peaks: Peaks | None


def profile_of(
    entry: str, calls: Sequence[Sequence[Event]], sources: Sources | None, peaks: Peaks | None, threads: int
) -> Profile:
    """Joins `calls`, which made the same dispatches in the same order, with what is known of them."""
    functions = sources.functions if sources else {}
    origins = _origins([event.function for event in calls[0]], sources)
    fastest = min(calls, key=_span)
    timeline = [
        Dispatch(event.function, event.start, event.duration, own, functions.get(event.function, _UNKNOWN))
        for event, own in zip(fastest, origins, strict=True)
    ]
    least = [min(event.duration for event in same) for same in zip(*calls, strict=True)]
    busy = sum(event.duration for event in fastest)
    span = _span(fastest)
    rows = _rows(timeline, least, peaks)
    return Profile(entry, len(calls), threads, span, max(0, span - busy), timeline, rows, peaks)


def _span(events: Sequence[Event]) -> int:
    return max((event.start + event.duration for event in events), default=0)


def _origins(functions: list[str], sources: Sources | None) -> list[tuple[Origin, ...]]:
    """For each dispatch the operators that this one is of: equal ones in different places share a function.

    Where the program does not say which is which (in loops), those of the function.
    """
    if sources is None:
        return [()] * len(functions)
    waiting: dict[str, list[tuple[Origin, ...]]] = {}
    for name, own in sources.calls:
        waiting.setdefault(name, []).append(own)
    counts = Counter(functions)
    clear = {name for name, own in waiting.items() if len(own) == counts[name]}
    return [
        _narrowed(
            waiting[name].pop(0) if name in clear else (), sources.functions.get(name, _UNKNOWN).origins
        )
        for name in functions
    ]


def _narrowed(own: tuple[Origin, ...], every: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """A call names only the operator at its root; its function all, but of one of the places that share it."""
    return every if set(own) <= set(every) else own


def _rows(timeline: list[Dispatch], least: list[int], peaks: Peaks | None) -> list[Row]:
    groups: dict[str, list[tuple[Dispatch, int]]] = {}
    for dispatch, nanoseconds in zip(timeline, least, strict=True):
        groups.setdefault(dispatch.function, []).append((dispatch, nanoseconds))
    rows = [_row(function, group, peaks) for function, group in groups.items()]
    return sorted(rows, key=lambda row: -row.nanoseconds)


def _row(function: str, group: list[tuple[Dispatch, int]], peaks: Peaks | None) -> Row:
    work, count = group[0][0].work, len(group)
    total = sum(nanoseconds for _, nanoseconds in group)
    operations = None if work.operations is None else count * work.operations
    size = None if work.bytes is None else count * work.bytes
    origins = tuple(dict.fromkeys(origin for dispatch, _ in group for origin in dispatch.origins))
    return Row(function, count, total, operations, size, _fraction(operations, size, total, peaks), origins)


def _fraction(operations: int | None, size: int | None, total: int, peaks: Peaks | None) -> float | None:
    if peaks is None or operations is None or size is None or total == 0:
        return None
    return max(operations / peaks.flops, size / peaks.bandwidth) / (total * 1e-9)


def share(profile: Profile, row: Row) -> float:
    """Of the time of all dispatches."""
    return row.nanoseconds / max(1, sum(other.nanoseconds for other in profile.rows))

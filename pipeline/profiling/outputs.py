"""A profile as a table, a trace for Perfetto (or chrome://tracing), and a page with a timeline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from .compiled import Origin
from .profile import Profile, Row, share

_PAGE = "page.html"


def describe(profile: Profile) -> str:
    """In a line or two what the whole call took."""
    threads = f"{profile.threads} thread{'s' if profile.threads > 1 else ''}"
    text = (
        f"{profile.entry}: {len(profile.timeline)} dispatches in {profile.span / 1e6:.3g} ms "
        f"({profile.between / 1e6:.2g} ms between them), the fastest of {profile.calls} calls, {threads}"
    )
    if profile.peaks is not None:
        flops, bandwidth = profile.peaks.flops / 1e9, profile.peaks.bandwidth / 1e9
        text += f"\nthis machine: {flops:.0f} GFLOP/s in the fastest matmul, {bandwidth:.1f} GB/s in a copy"
    return text


def table(profile: Profile, top: int) -> Table:
    """The slowest `top` dispatch functions."""
    found = Table("dispatch", "times", "ms", "share", "GFLOP/s", "GB/s", "of peak", "operators", "lines")
    for row in profile.rows[:top]:
        *others, where = cells(profile, row)
        found.add_row(*others, _shortened(where))
    return found


def _shortened(where: str) -> str:
    """The first two lines, and how many more there are."""
    first, more = where.split(", ")[:2], where.count(", ") - 1
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")


def cells(profile: Profile, row: Row) -> list[str]:
    """One row of the table."""
    return [
        row.function,
        str(row.count),
        f"{row.nanoseconds / 1e6:.3f}",
        f"{share(profile, row):.1%}",
        _rate(row.operations, row),
        _rate(row.bytes, row),
        "" if row.fraction is None else f"{row.fraction:.0%}",
        ", ".join(operators(row.origins)),
        ", ".join(lines(row.origins)),
    ]


def _rate(amount: int | None, row: Row) -> str:
    """Per nanosecond, which is in billions per second; nothing for an unknown amount."""
    return "" if amount is None or row.nanoseconds == 0 else f"{amount / row.nanoseconds:.1f}"


def operators(origins: Sequence[Origin]) -> list[str]:
    """Names without ``aten.``, each once."""
    return list(dict.fromkeys(origin.operator.removeprefix("aten.") for origin in origins))


def lines(origins: Sequence[Origin]) -> list[str]:
    """``model.py:12``, each once."""
    return list(dict.fromkeys(origin.line for origin in origins if origin.line))


def write_trace(profile: Profile, path: Path) -> None:
    """Chrome's trace format, which Perfetto reads: a slice for each dispatch, and one for each user line's turn."""
    events = [_named("process_name", 0, profile.entry), _named("thread_name", 0, "dispatches")]
    events.append(_named("thread_name", 1, "source lines"))
    for item in profile.timeline:
        own = lines(item.origins)
        about = {"operators": operators(item.origins), "lines": own} | {
            key: value for key, value in asdict(item.work).items() if key != "origins" and value is not None
        }
        events.append(_slice(0, item.function, item.start, item.duration, about))
        events.append(_slice(1, own[-1] if own else "?", item.start, item.duration, {}))
    path.write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": events}) + "\n")


def _slice(thread: int, name: str, start: int, duration: int, about: dict[str, Any]) -> dict[str, Any]:
    """The format counts in microseconds."""
    times = {"ts": start / 1e3, "dur": duration / 1e3}
    return {"name": name, "ph": "X", "cat": "dispatch", "pid": 1, "tid": thread, **times, "args": about}


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def write_page(profile: Profile, path: Path, title: str) -> None:
    """One HTML file that needs nothing else: a timeline to zoom, and the table of all dispatch functions."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    places = {row.function: number for number, row in enumerate(profile.rows)}
    dispatches = [
        {
            "function": item.function,
            "row": places[item.function],
            "start": item.start,
            "duration": item.duration,
            "operators": ", ".join(operators(item.origins)),
            "lines": ", ".join(lines(item.origins)),
        }
        for item in profile.timeline
    ]
    text = environment.get_template(_PAGE).render(
        title=title,
        summary=describe(profile),
        span=max(1, profile.span),
        dispatches=dispatches,
        rows=[cells(profile, row) for row in profile.rows],
    )
    path.write_text(text)


def write_json(profile: Profile, path: Path) -> None:
    """Everything above."""
    path.write_text(json.dumps(asdict(profile), indent=1) + "\n")

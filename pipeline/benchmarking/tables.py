"""Results as tables for a terminal, in Markdown for the documentation, and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from .competitors import OURS
from .results import Entrant, Result, geometric_mean

PEERS = ("onnxruntime", "openvino")


def title(result: Result) -> str:
    """``bert, 1 thread``."""
    step = ", training step" if result.train else ""
    return f"{result.model}{step}, {result.threads} thread{'s' if result.threads > 1 else ''}, {result.clock} time"


def table(result: Result) -> Table:
    """One subject: a row for each competitor."""
    found = Table(
        "", "least ms", "median ms", f"/ {OURS} (quartiles)", "compile s", "MB to compile", "MB to run",
        "results", "note", title=title(result), title_justify="left",
    )  # fmt: skip
    for entrant in result.entrants:
        found.add_row(*_row(result, entrant))
    return found


def _row(result: Result, entrant: Entrant) -> list[str]:
    if entrant.failure is not None:
        why = "not installed" if entrant.absent else f"FAILED: {entrant.failure}"
        return [entrant.name, "", "", "", "", "", "", why, ""]
    ratio = result.ratio(OURS, entrant.name)
    fraction = result.fraction(entrant.name)
    note = "" if fraction is None else f"{fraction:.0%} of the roofline"
    return [
        entrant.name,
        f"{entrant.minimum(result.clock) * 1e3:.3g}",
        f"{entrant.median(result.clock) * 1e3:.3g}",
        f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio else "",
        f"{entrant.compile_seconds:.1f}",
        f"{entrant.compile_bytes / 1e6:.0f}",
        f"{entrant.run_bytes / 1e6:.0f}",
        f"DIFFER by {entrant.error:.2g}: {entrant.problem}"
        if entrant.problem
        else f"right ({entrant.error:.1g})",
        "; ".join(filter(None, (note, entrant.note))),
    ]


def describe_roofline(result: Result) -> str | None:
    """Operations, bytes and the least time, in a line."""
    found = result.roofline
    if found is None:
        return None
    work = f"{found.operations / 1e9:.3g} GFLOP, {found.bytes / 1e6:.3g} MB"
    return f"roofline: {work}, at least {found.seconds * 1e3:.3g} ms"


def markdown(results: Sequence[Result]) -> str:
    """Many subjects: a row for each, with the ratios that count, and their geometric means."""
    others = list(dict.fromkeys(e.name for r in results for e in r.entrants if e.name != OURS))
    heads = ["model", "threads", f"{OURS} ms", *(f"{name} / ours" for name in others), "better peer / ours"]
    heads += ["of the roofline", "compile s"]
    lines = ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
    lines += ["| " + " | ".join(_cells(result, others)) + " |" for result in results]
    for label, kind in (("geometric mean", "median"), ("geometric mean, of the fastest calls", "least")):
        means = [_mean([getattr(r.ratio(OURS, name), kind, None) for r in results]) for name in others]
        means.append(_mean([better_peer(result, kind) for result in results]))
        lines.append("| " + " | ".join([label, "", "", *means, "", ""]) + " |")
    return "\n".join(lines)


def _mean(ratios: Sequence[float | None]) -> str:
    values = [ratio for ratio in ratios if ratio is not None]
    return f"{geometric_mean(values):.2f}" if values else ""


def better_peer(result: Result, kind: str = "median") -> float | None:
    """The faster peer's seconds / ours. kind: which of `Ratio`'s figures."""
    ratios = [result.ratio(OURS, name) for name in PEERS]
    return min((getattr(ratio, kind) for ratio in ratios if ratio is not None), default=None)


def _cells(result: Result, others: Sequence[str]) -> list[str]:
    ours = result.entrant(OURS)
    peer, fraction = better_peer(result), result.fraction(OURS)
    cells = [result.model, str(result.threads)]
    cells.append(f"{ours.minimum(result.clock) * 1e3:.3g}{_flag(ours)}" if ours else "failed")
    for name in others:
        ratio, entrant = result.ratio(OURS, name), result.entrant(name)
        cells.append(
            f"{ratio.median:.2f}{_flag(entrant)} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio else "-"
        )
    cells.append("" if peer is None else f"{peer:.2f}")
    cells.append("" if fraction is None else f"{fraction:.0%}")
    return [*cells, f"{ours.compile_seconds:.0f}" if ours else ""]


def _flag(entrant: Entrant | None) -> str:
    """Marks results that are not eager's."""
    return "*" if entrant is not None and entrant.problem else ""


def plot(results: Sequence[Result], path: Path) -> None:
    """Bars: how many times as fast ours is as each other, on a logarithmic axis, with the quartiles of the rounds."""
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    others = list(
        dict.fromkeys(e.name for r in results for e in r.entrants if e.name != OURS and r.entrant(e.name))
    )
    figure = Figure(figsize=(max(6.0, 1.2 * len(results)), 4.5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / max(1, len(others))
    for number, name in enumerate(others):
        found = [(i, r.ratio(OURS, name)) for i, r in enumerate(results)]
        points = [(i, ratio) for i, ratio in found if ratio is not None]
        places = [i + (number - (len(others) - 1) / 2) * width for i, _ in points]
        spread = [
            [ratio.median - ratio.low for _, ratio in points],
            [ratio.high - ratio.median for _, ratio in points],
        ]
        axes.bar(places, [ratio.median for _, ratio in points], width, label=name, yerr=spread, capsize=2)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    for formatted in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        formatted("{x:g}")
    axes.set_ylabel(f"seconds / seconds of {OURS}")
    axes.set_xticks(range(len(results)), [_label(result) for result in results], rotation=45, ha="right")
    figure.legend(loc="outside right upper")
    figure.savefig(path)


def _label(result: Result) -> str:
    step = " (training)" if result.train else ""
    return f"{result.model}{step}" + (f", {result.threads} threads" if result.threads > 1 else "")

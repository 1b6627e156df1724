"""What was measured, and what follows from it."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .roofline import Roofline


@dataclass(frozen=True)
class Entrant:
    """One competitor on one subject.

    failure: why it could not be timed; absent: because it is not installed. problem: how its results differ from
    eager's, None where they do not; error: the largest difference. note: the option set, for ours.
    compile_seconds: until its first result. compile_bytes: peak of its processes until then, compilers included.
    run_bytes: peak of its process during the rounds. wall, cpu: seconds of each call, by round.
    """

    name: str
    failure: str | None
    absent: bool
    problem: str | None
    error: float
    note: str
    compile_seconds: float
    compile_bytes: int
    run_bytes: int
    wall: list[list[float]]
    cpu: list[list[float]]

    def rounds(self, clock: str) -> list[float]:
        """The least seconds of a call in each round."""
        return [min(calls) for calls in (self.wall if clock == "wall" else self.cpu)]

    def minimum(self, clock: str) -> float:
        """Seconds of the fastest call."""
        return min(self.rounds(clock), default=math.nan)

    def median(self, clock: str) -> float:
        """Seconds of the middle call."""
        calls = [c for calls in (self.wall if clock == "wall" else self.cpu) for c in calls]
        return statistics.median(calls) if calls else math.nan


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as another: its seconds / ours.

    least: of the fastest calls. low, median, high: quartiles of the rounds' own ratios, which are of neighbours in
    time, so that they say the same on a machine whose speed changes.
    """

    least: float
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Result:
    """One subject. clock: "wall" or "cpu", what all figures are of."""

    model: str
    train: bool
    threads: int
    clock: str
    entrants: list[Entrant]
    roofline: Roofline | None

    def entrant(self, name: str) -> Entrant | None:
        """The competitor of this name, if it was timed to the end."""
        return next((e for e in self.entrants if e.name == name and e.wall and e.failure is None), None)

    def ratio(self, ours: str, other: str) -> Ratio | None:
        """How many times as fast `ours` is as `other`; None where one was not timed."""
        first, second = self.entrant(ours), self.entrant(other)
        if first is None or second is None:
            return None
        pairs = zip(first.rounds(self.clock), second.rounds(self.clock), strict=False)
        each = [b / a for a, b in pairs]
        low, median, high = statistics.quantiles(each, n=4) if len(each) > 1 else each * 3
        return Ratio(second.minimum(self.clock) / first.minimum(self.clock), low, median, high)

    def fraction(self, name: str) -> float | None:
        """Of the speed that the roofline allows."""
        found = self.entrant(name)
        if found is None or self.roofline is None:
            return None
        return self.roofline.seconds / found.minimum(self.clock)


def geometric_mean(values: list[float]) -> float:
    """Of positive numbers; NaN for none."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def write_json(path: Path, machine: dict[str, Any], results: list[Result]) -> None:
    """Everything that was measured."""
    path.write_text(
        json.dumps({"machine": machine, "results": [asdict(r) for r in results]}, indent=1) + "\n"
    )


def read_json(path: Path) -> tuple[dict[str, Any], list[Result]]:
    """What `write_json` wrote."""
    data = json.loads(path.read_text())
    return data["machine"], [_result(item) for item in data["results"]]


def _result(data: dict[str, Any]) -> Result:
    roofline = Roofline(**data["roofline"]) if data["roofline"] else None
    return Result(**{**data, "entrants": [Entrant(**e) for e in data["entrants"]], "roofline": roofline})

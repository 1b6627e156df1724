"""Records of runs: one JSON object a line, so that a sweep that stops can go on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .cases import Case


@dataclass(frozen=True)
class Record:
    """How a case ended. status: one of `judge`'s. seconds: of compiling and running."""

    case: Case
    status: str
    message: str = ""
    seconds: float = 0.0

    def to_json(self) -> str:
        """One line."""
        fields = {**asdict(self.case), "status": self.status, "seconds": round(self.seconds, 3)}
        return json.dumps(fields | ({"message": self.message} if self.message else {}))

    @classmethod
    def from_json(cls, line: str) -> Record:
        """The record of a line."""
        fields: dict[str, Any] = json.loads(line)
        rest = {name: fields.pop(name) for name in ("status", "seconds", "message") if name in fields}
        return cls(Case(**fields), **rest)


def read(path: Path) -> list[Record]:
    """The records of a file, the newest of each case; a line cut short by a killed run is dropped."""
    found: dict[tuple[Any, ...], Record] = {}
    for record in _lines(path):
        found[record.case.key] = record
    return list(found.values())


def _lines(path: Path) -> Iterator[Record]:
    for line in path.read_text().splitlines():
        if line.endswith("}"):
            yield Record.from_json(line)


def tally(records: Iterable[Record]) -> Counter[str]:
    """How many records have which status."""
    return Counter(record.status for record in records)

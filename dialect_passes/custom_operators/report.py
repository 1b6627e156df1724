"""What `check` found, as rows that print as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "WRONG", "skipped"]


@dataclass(frozen=True)
class Row:
    """One comparison. sample: its number, from 1. what: ``"eager"``, ``"cpu: C kernel swiglu.c"``. detail: why."""

    sample: int
    what: str
    status: Status
    detail: str = ""

    def __str__(self) -> str:
        return f"sample {self.sample}: {self.what}: {self.status}" + (
            f": {self.detail}" if self.detail else ""
        )


@dataclass(frozen=True)
class Report:
    """All comparisons of an operator on its samples; prints as a table, with the details of what is wrong below it."""

    operator: str
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. What was skipped is not counted against it."""
        return not self.problems

    @property
    def problems(self) -> tuple[Row, ...]:
        """The comparisons that failed."""
        return tuple(row for row in self.rows if row.status == "WRONG")

    @property
    def skipped(self) -> tuple[Row, ...]:
        """The comparisons that could not be made here, with the reason in their details."""
        return tuple(row for row in self.rows if row.status == "skipped")

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        whats = list(dict.fromkeys(row.what for row in self.rows))
        samples = sorted({row.sample for row in self.rows})
        cells = {(row.what, row.sample): row.status for row in self.rows}
        width = max([len(what) for what in whats] + [len(self.operator)])
        head = [f"{self.operator:<{width}}", *(f"{sample:>8}" for sample in samples)]
        table = [
            [f"{what:<{width}}", *(f"{cells.get((what, sample), ''):>8}" for sample in samples)]
            for what in whats
        ]
        details = [str(row) for row in (*self.problems, *self.skipped)]
        return "\n".join([" ".join(line).rstrip() for line in (head, *table)] + details)

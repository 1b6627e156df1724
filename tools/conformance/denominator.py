"""Which operators count: dense, deterministic, runnable on a CPU. The list is checked in, so that it cannot drift."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path


@cache
def _table() -> dict:
    return json.loads(Path(__file__).with_name("denominator.json").read_text())


def counted() -> list[str]:
    """Names (with variants) of the operators that count."""
    return list(_table()["counted"])


def left_out() -> dict[str, str]:
    """Every other operator of OpInfo -> why it does not count."""
    return dict(_table()["left_out"])

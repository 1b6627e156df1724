"""The whole check: record calls, judge them, and refine some."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from rich.progress import track

from pipeline.dialect_passes.operators import decomposition_table, load_families

from .calls import Calls
from .compiled import check_compiled
from .judge import Entry, entries, judge
from .samples import Driver, infos


def check(
    only: Collection[str] | None,
    samples: int,
    dtypes: Sequence[torch.dtype] | None = None,
    compiled: int = 0,
    *,
    names: Collection[str] | None = None,
    progress: bool = False,
) -> list[Entry]:
    """Checks the functions of the operators `only` (None: of all).

    samples: per OpInfo and dtype. compiled: calls per operator to refine. names: the OpInfos to run (None: all).
    """
    load_families()
    found = {name: entry for name, entry in entries().items() if only is None or name in only}
    calls = record(found, samples, dtypes, names, progress)
    for name, entry in found.items():
        for call in calls.found.get(name, {}).values():
            judge(entry, call)
    if compiled:
        check_compiled(found, calls, compiled)
    return [found[name] for name in sorted(found)]


def record(
    operators: Collection[str],
    samples: int,
    dtypes: Sequence[torch.dtype] | None = None,
    names: Collection[str] | None = None,
    progress: bool = False,
) -> Calls:
    """The calls of `operators` that the samples make."""
    calls = Calls(operators)
    table: dict[Any, Any] = decomposition_table()
    driver = Driver(calls, table, samples)
    wanted = [info for info in infos() if names is None or info.name in names]
    for info in track(wanted, "running samples", disable=not progress):
        driver.run(info, dtypes)
    for name in operators:
        driver.run_own(name)
    return calls

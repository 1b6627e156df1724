"""What just-in-time compilation did in this process: `pipeline.counters()`.

Nothing runs in eager PyTorch without being counted here.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass
class EagerOperator:
    """An operator that runs in eager. calls: how many there are in the graphs. lines: the user's."""

    calls: int = 0
    reasons: set[str] = field(default_factory=set)
    lines: set[str] = field(default_factory=set)


@dataclass
class Counters:
    """What happened since the start of the process, or the last reset.

    graphs: that AOTAutograd gave us, forward, backward and for inference. programs: compiled for them (a graph with
        operators in eager is several). bindings: how often weights were bound to a program.
    eager: operators that cannot be compiled, by name. neighbours: operators that could be, in parts too small to pay.
    failures: what the compilers said where they crashed or took too long.
    cache_hits, cache_misses: of the cache on disk, ahead of time too.
    """

    graphs: int = 0
    programs: int = 0
    bindings: int = 0
    eager: dict[str, EagerOperator] = field(default_factory=dict)
    neighbours: int = 0
    failures: list[str] = field(default_factory=list)
    cache_hits: int = 0
    cache_misses: int = 0


_lock = threading.Lock()
# A list of one, so that a reset can put another in its place.
_current = [Counters()]


def counters(*, reset: bool = False) -> Counters:
    """A copy of the counters. reset: start again at zero."""
    with _lock:
        found = copy.deepcopy(_current[0])
        if reset:
            _current[0] = Counters()
    return found


@contextlib.contextmanager
def apart() -> Iterator[Counters]:
    """Counts into other counters meanwhile."""
    with _lock:
        kept, _current[0] = _current[0], Counters()
        found = _current[0]
    try:
        yield found
    finally:
        with _lock:
            _current[0] = kept


def count(name: str, number: int = 1) -> None:
    """Adds to a counter that is a number."""
    with _lock:
        setattr(_current[0], name, getattr(_current[0], name) + number)


def count_eager(operator: str, reason: str, lines: Iterable[str], calls: int = 1) -> None:
    """Notes calls of an operator that run in eager."""
    with _lock:
        found = _current[0].eager.setdefault(operator, EagerOperator())
        found.calls += calls
        found.reasons.add(reason)
        found.lines.update(lines)


def count_failure(message: str) -> None:
    """Notes that a compiler failed."""
    with _lock:
        _current[0].failures.append(message)

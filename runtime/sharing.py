"""Which tensors of a call share memory.

A compiled function may return an argument, a part of it, or one value under two names, without a copy. To the
caller these are tensors of their own, as compiled code gives no promise of sharing: whoever writes into
a result must change neither an argument, nor the state, nor another result.
"""

from __future__ import annotations

from collections.abc import Sequence

Span = tuple[int, int]
"""Addresses of the first byte and of the one behind the last."""

NOWHERE: Span = (0, 0)
"""For what has no host memory that another could share."""


def sharers(spans: Sequence[Span]) -> set[int]:
    """Numbers of the spans that lie, directly or through others, over a span earlier in `spans`."""
    found: set[int] = set()
    group, end = -1, 0
    for first, last, number in sorted((*span, number) for number, span in enumerate(spans)):
        if first == last:
            continue
        if first >= end:
            group, end = number, last
            continue
        found.add(max(group, number))
        group, end = min(group, number), max(end, last)
    return found

"""Which spans of memory overlap; all but the first of each group are to be copied."""

import itertools
import random

import pytest

from pipeline.runtime.sharing import NOWHERE, sharers


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        ([], set()),
        ([(0, 8), (8, 16)], set()),
        ([(0, 8), (0, 8)], {1}),
        ([(4, 6), (0, 8), (20, 30)], {1}),
        ([(0, 8), (20, 30), (7, 21)], {1, 2}),
        ([(5, 9), NOWHERE, (5, 9), NOWHERE], {2}),
        ([(0, 100), (10, 20), (30, 40), (100, 110)], {1, 2}),
    ],
)
def test_known_cases(spans: list, found: set) -> None:
    assert sharers(spans) == found


def test_what_remains_is_disjoint_and_nothing_is_copied_without_need() -> None:
    generator = random.Random(0)
    for _ in range(500):
        starts = [generator.randrange(1, 60) for _ in range(8)]
        spans = [(start, start + generator.randrange(1, 12)) for start in starts]
        found = sharers(spans)
        kept = [span for i, span in enumerate(spans) if i not in found]
        assert all(a[1] <= b[0] or b[1] <= a[0] for a, b in itertools.combinations(kept, 2))
        for i in found:
            assert any(spans[i][0] < b and a < spans[i][1] for j, (a, b) in enumerate(spans) if j != i)

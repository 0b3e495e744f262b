"""Gaps in times, where leaves end: against a loop over rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.store.tail.late.gaps import breaks_at_gaps

LEAF = 64
"""Rows of a leaf: a gap counts from two rows on, at the pace of all rows."""

STEPS = st.lists(st.sampled_from([0, 1, 1, 1, 2, 50, 300]), min_size=1, max_size=300)
EXTREMES = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=70).map(sorted)


def expected(times: list[int], share: float) -> list[int]:
    """Places of rows behind gaps, and of rows before them."""
    span = times[-1] - times[0] if times else 0
    shortest = max(2, span * (LEAF // 32) // max(1, len(times)))
    gaps = {row: time - before for row, (before, time) in enumerate(pairwise(times), 1) if time - before >= shortest}
    missing = sum(gaps.values())
    if missing > 8 * share * (span - missing):
        return []
    most = max(1, 2 * len(times) // LEAF)
    widest = sorted(gaps.values(), reverse=True)[:most]
    if len(gaps) > most and widest[-1] == sorted(gaps.values(), reverse=True)[most]:
        return [-1]  # which of the gaps of equal width are left out is not laid down
    places = {row for row, width in gaps.items() if width in widest}
    return sorted((places | {row - 1 for row in places}) - {0})


@given(STEPS.map(lambda steps: np.cumsum(steps).tolist()) | EXTREMES, st.sampled_from([0.001, 0.1, 1.0, 50.0]))
def test_leaves_end_before_and_behind_the_row_before_a_gap(times: list[int], share: float) -> None:
    found = breaks_at_gaps(np.array(times, np.int64), LEAF, share)
    wanted = expected(times, share)
    if wanted == [-1]:
        assert found is not None
        assert 0 < len(found) <= 2 * max(1, 2 * len(times) // LEAF)
    else:
        assert ([] if found is None else found.tolist()) == wanted


def test_stretches_that_are_missing() -> None:
    at = np.delete(np.arange(0, 10_000_000, 1000), slice(4000, 5000))
    at = np.delete(at, slice(7000, 7100))
    assert breaks_at_gaps(at, 8192, 0.1).tolist() == [3999, 4000]  # a hundred rows are too few for a leaf of 8192
    assert breaks_at_gaps(at, 2048, 0.1).tolist() == [3999, 4000, 6999, 7000]
    assert breaks_at_gaps(at, 8192, 0.01) is None  # far fewer rows come late than the gap has room for
    assert breaks_at_gaps(np.arange(10_000), 8192, 1.0) is None
    assert breaks_at_gaps(np.full(10_000, 7), 8192, 1.0) is None

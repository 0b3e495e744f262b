"""The order of times, against Python's own sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.store.ordering import order_of, parted

TIMES = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-5, 5), max_size=60)


@given(TIMES)
def test_the_order_is_that_of_a_stable_sort(times: list[int]) -> None:
    found = order_of(np.array(times, np.int64))
    assert (found is None) == (times == sorted(times))
    if found is not None:
        order, woven = found
        assert order.tolist() == sorted(range(len(times)), key=times.__getitem__)
        assert woven.tolist() == sorted(times)


@given(TIMES, st.integers(-6, 6))
def test_times_are_parted_at_a_bound(times: list[int], bound: int) -> None:
    others, kept, below = parted(np.array(times, np.int64), bound)
    assert others.tolist() == [place for place, time in enumerate(times) if time >= bound]
    assert kept.tolist() == [time for time in times if time >= bound]
    assert below.tolist() == [place for place, time in enumerate(times) if time < bound]

"""The order of times, and how late they come, against Python's own sorting and loops over them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.store.ordering import delays_of, order_of, parted

LARGEST = (1 << 63) - 1
TIME = st.integers(-(1 << 63), LARGEST) | st.integers(-5, 5)
TIMES = (
    st.lists(TIME, max_size=60)
    | st.lists(TIME, max_size=200).map(sorted)
    | st.builds(
        lambda times, late: [*sorted(times), *late, *sorted(times)],
        st.lists(TIME, max_size=90),
        st.lists(TIME, max_size=3),
    )
)


def delays(times: list[int], newest: int | None) -> list[int]:
    """By how much each time is before the newest one that came before it."""
    found, top = [], newest
    for time in times:
        if top is not None and time < top:
            found.append(min(top - time, LARGEST))
        top = time if top is None else max(top, time)
    return found


@given(TIMES)
def test_the_order_is_that_of_a_stable_sort(times: list[int]) -> None:
    found = order_of(np.array(times, np.int64))
    assert (found is None) == (times == sorted(times))
    if found is not None:
        order, woven = found
        assert order.tolist() == sorted(range(len(times)), key=times.__getitem__)
        assert woven.tolist() == sorted(times)


@given(TIMES, st.none() | TIME)
def test_delays_are_those_behind_the_newest_time_before(times: list[int], newest: int | None) -> None:
    assert delays_of(np.array(times, np.int64), newest).tolist() == delays(times, newest)


@given(TIMES, st.integers(-6, 6), TIME)
def test_times_are_parted_at_a_bound(times: list[int], bound: int, newest: int) -> None:
    newest = max(newest, bound)
    found = parted(np.array(times, np.int64), bound, newest)
    others = [time for time in times if time >= bound]
    assert found.places.tolist() == [place for place, time in enumerate(times) if time >= bound]
    assert found.others.tolist() == others
    assert found.falls == (others != sorted(others))
    assert found.below.tolist() == [place for place, time in enumerate(times) if time < bound]
    assert found.delays.tolist() == delays(times, newest)

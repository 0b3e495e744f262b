"""The order of times, and how late they come, against Python's own sorting and loops over them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.store.rows.ordering import delays_of, parted, sorting_of

LARGEST = (1 << 63) - 1
TIME = st.integers(-(1 << 63), LARGEST) | st.integers(-5, 5) | st.integers(-(1 << 40), 1 << 40)
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
    order, values, has_ties = sorting_of(np.array(times, np.int64))
    assert (order is None) == (times == sorted(times))
    if order is not None:
        assert order.tolist() == sorted(range(len(times)), key=times.__getitem__)
    assert values.tolist() == sorted(times)
    assert has_ties == (len(set(times)) < len(times))


@pytest.mark.parametrize("span", [1, 2, 2047, 2048, 2049, 1 << 22, 1 << 33, 1 << 44, (1 << 47) - 1, 1 << 47])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.3, 1.0])
def test_many_times_are_put_in_the_order_of_a_stable_sort(span: int, share: float) -> None:
    dice = np.random.default_rng(span)
    times = np.sort(dice.integers(0, span, 50_000)) - span // 2
    is_late = dice.random(len(times)) < share
    times[is_late] = dice.permutation(times[is_late])
    expected = np.argsort(times, kind="stable")
    order, values, has_ties = sorting_of(times)
    assert np.array_equal(np.arange(len(times)) if order is None else order, expected)
    assert np.array_equal(values, times[expected])
    assert has_ties == (len(np.unique(times)) < len(times))


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

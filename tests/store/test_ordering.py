"""The order of times, against Python's own sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.store.ordering import order_of

TIMES = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-5, 5), max_size=60)


@given(TIMES)
def test_the_order_is_that_of_a_stable_sort(times: list[int]) -> None:
    order = order_of(np.array(times, np.int64))
    expected = sorted(range(len(times)), key=times.__getitem__)
    assert (list(range(len(times))) if order is None else order.tolist()) == expected
    assert (order is None) == (times == sorted(times))

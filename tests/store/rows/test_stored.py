"""The order of stored rows, against Python's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.store.rows.stored import sorting


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 50)), unique_by=lambda row: row[1], max_size=20), st.data()
)
def test_rows_are_sorted_by_time_then_number(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    arranged = data.draw(st.sampled_from([rows, sorted(rows), sorted(rows, key=lambda row: row[1])]))
    at, numbers = (np.array([row[index] for row in arranged], np.int64) for index in range(2))
    order = sorting(at, numbers)
    assert (order is None) == (arranged == sorted(arranged))
    if order is not None:
        assert [arranged[place] for place in order.tolist()] == sorted(arranged)

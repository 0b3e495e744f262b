"""Rows in another order, against Python's own sorting and Arrow's taking."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.store.gathering import gathered, order_of

TIMES = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-5, 5), max_size=60)


@given(TIMES)
def test_the_order_is_that_of_a_stable_sort(times: list[int]) -> None:
    order = order_of(np.array(times, np.int64))
    expected = sorted(range(len(times)), key=times.__getitem__)
    assert (list(range(len(times))) if order is None else order.tolist()) == expected
    assert (order is None) == (times == sorted(times))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_every_kind_of_column_is_gathered(sizes: list[int]) -> None:
    rng = np.random.default_rng(sum(sizes))
    total = sum(sizes)
    numbers = rng.integers(-100, 100, total)
    nullable = [None if number % 3 == 0 else int(number) for number in numbers]
    whole = pa.record_batch(
        {
            "i8": pa.array(numbers, pa.int8()),
            "u16": pa.array(abs(numbers), pa.uint16()),
            "f32": pa.array(numbers, pa.float32()),
            "f64": pa.array(numbers / 7),
            "day": pa.array(numbers, pa.int32()).cast(pa.date32()),
            "ts": pa.array(numbers, pa.int64()).cast(pa.timestamp("us")),
            "null": pa.array(nullable, pa.int64()),
            "flag": pa.array(numbers > 0),
            "text": pa.array([None if number is None else f"text {number}" for number in nullable], pa.string()),
            "money": pa.array(numbers, pa.int64()).cast(pa.decimal128(30, 2)),
        }
    )
    cuts = np.cumsum([0, *sizes])
    parts = [whole.slice(int(first), int(last - first)) for first, last in pairwise(cuts)]
    order = rng.permutation(total)
    assert gathered(parts, order).equals(whole.take(pa.array(order)))

"""Rows in another order, against Arrow's taking."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage import ordered
from tidelog.storage.numbered import NumberedRows, Rows
from tidelog.storage.ordered import OrderedRows, gathered

FIRST = 1 << 40


def table(total: int, seed: int) -> pa.RecordBatch:
    """A column of every kind, and the number of each row."""
    numbers = np.random.default_rng(seed).integers(-100, 100, total)
    nullable = [None if number % 3 == 0 else int(number) for number in numbers]
    return pa.record_batch(
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
            "number": pa.array(np.arange(FIRST, FIRST + total)),
        }
    )


def parts_of(whole: pa.RecordBatch, sizes: list[int]) -> list[Rows]:
    """The rows in parts, every other one of which has its numbers not in memory."""
    cuts = np.cumsum([0, *sizes]).tolist()
    slices = [whole.slice(first, last - first) for first, last in pairwise(cuts)]
    unnumbered = whole.schema.names[:-1]
    return [
        NumberedRows(part.select(unnumbered), FIRST + first) if index % 2 else part
        for index, (part, first) in enumerate(zip(slices, cuts, strict=False))
    ]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 40), st.sampled_from([0, 4, 100]))
def test_every_kind_of_column_is_gathered(sizes: list[int], wanted: int, local: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordered, "_LOCAL", local)  # 0: rows are never copied first, however near to one another
        whole = table(sum(sizes), sum(sizes))
        order = np.random.default_rng(wanted).permutation(sum(sizes))[:wanted]
        assert gathered(parts_of(whole, sizes), order, whole.schema).equals(whole.take(pa.array(order)))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 30), st.none() | st.integers(0, 30))
def test_ordered_rows_are_cut_like_a_batch(sizes: list[int], start: int, length: int | None) -> None:
    whole = table(sum(sizes), 1)
    order = np.random.default_rng(1).permutation(sum(sizes))
    times = np.arange(len(order)) * 10
    rows = OrderedRows(whole.schema, tuple(parts_of(whole, sizes)), order, times).slice(start, length)
    expected = whole.take(pa.array(order)).slice(start, length)
    assert rows.num_rows == expected.num_rows
    assert rows.gathered().equals(expected)
    assert rows.times.tolist() == times[start : None if length is None else start + length].tolist()
    for row in range(-rows.num_rows, rows.num_rows):
        assert rows.number(row) == expected.column("number")[row].as_py()

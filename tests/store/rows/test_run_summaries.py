"""Aggregates of ranges of rows in memory, against those of the rows themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.index.aggregate import Aggregate
from tidelog.index.layout import Layout
from tidelog.model import Schema
from tidelog.store.rows import run_summaries
from tidelog.store.rows.run_summaries import RunSummaries

SCHEMA = Schema(pa.schema([("ts", pa.int64()), ("x", pa.int64()), ("y", pa.float64()), ("s", pa.string())]), "ts")
LAYOUT = Layout(SCHEMA)
VALUES = st.tuples(
    st.none() | st.integers(-(1 << 62), 1 << 62),
    st.none() | st.floats(-8, 8).map(lambda value: round(value * 4) / 4),
    st.none() | st.text("ab", max_size=3),
)


def told(found: Aggregate, columns: list[int]) -> list[Any]:
    return [
        found.rows,
        *((each.nulls, each.nans, each.minimum(), each.maximum(), each.total()) for each in map(found.at, columns)),
    ]


@given(
    st.lists(VALUES, max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.sets(st.integers(0, 4), max_size=3)), max_size=8),
)
def test_ranges_are_aggregated_as_their_rows_are(values: list[Any], asked: list[tuple[int, int, set[int]]]) -> None:
    count = len(values)
    columns: list[Any] = [list(range(count)), *([row[i] for row in values] for i in range(3)), list(range(count))]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, LAYOUT.stored, strict=True)],
        schema=LAYOUT.stored,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_summaries, "_RUN", 2)
        patch.setattr(run_summaries, "_GROUP", 3)
        summaries = RunSummaries(LAYOUT, rows)
        for one, other, chosen in asked:
            first, last = sorted((min(one, count), min(other, count)))
            wanted = sorted(chosen)
            found = summaries.aggregate(first, last, np.array(wanted, np.int64))
            expected = Aggregate.of(LAYOUT, rows.slice(first, last - first), np.array(wanted, np.int64))
            assert told(found, wanted) == told(expected, wanted)

"""Rows and small batches that wait to be taken in."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.index.layout import Layout
from tidelog.model.conversion.rows import RowReader
from tidelog.model.schema import Schema
from tidelog.store.tail.waiting import WaitingRows

SCHEMA = Schema(pa.schema([("ts", pa.int64()), ("text", pa.string()), ("v", pa.float64())]), "ts")
STORED = Layout(SCHEMA).stored
READER = RowReader(SCHEMA)

ROWS = st.tuples(st.integers(-5, 5), st.none() | st.text(max_size=3) | st.just("x" * 5000), st.none() | st.floats())


def items(rows: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]


@given(
    st.lists(ROWS.map(lambda row: [row]) | st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(0, 3),
    st.data(),
)
def test_rows_come_out_as_they_went_in(parts: list[list[Any]], first: int, data: st.DataObject) -> None:
    waiting = WaitingRows(SCHEMA, STORED)
    expected: list[dict[str, Any]] = []
    for part in parts:
        rows = [READER.read(row) for row in items(part)]
        alone = len(rows) == 1 and data.draw(st.booleans())
        waiting.add(rows[0] if alone else READER.batch(rows), len(rows), first + len(expected))
        expected += items(part)
    numbered = [{**row, "_seq": first + i} for i, row in enumerate(expected)]
    assert waiting.rows == len(expected)
    texts = sum(len(row["text"]) for row in expected if row["text"] is not None)
    assert texts <= waiting.long_bytes <= texts + 64 * len(expected)  # what is not there, and where texts end, counts
    assert len(waiting) == len(parts)
    for start in range(first + len(expected) + 2):
        message = waiting.message(start)
        wanted = [row for row in numbered if row["_seq"] >= start]
        assert (message is None) == (not wanted)
        if message is not None:
            found = pa.ipc.read_record_batch(pa.py_buffer(message), STORED)
            assert repr(found.to_pylist()) == repr(wanted)  # NaN is NaN, -0.0 is not 0.0
    taken = waiting.take()
    assert taken.schema.equals(STORED)
    assert repr(taken.to_pylist()) == repr(numbered)
    assert (waiting.rows, len(waiting), waiting.long_bytes, waiting.message(0)) == (0, 0, 0, None)

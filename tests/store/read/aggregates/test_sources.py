"""What can answer a call of a stream, and what is read for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelog.expr import parse_aggregate
from tidelog.index.layout import Layout
from tidelog.model.schema import Schema
from tidelog.store.read.aggregates.aggregation import Question
from tidelog.store.read.aggregates.sources import Source, reading

SCHEMA = pa.schema(
    [("ts", pa.int64()), ("x", pa.float64()), ("n", pa.int32()), ("k", pa.string()), ("m", pa.decimal128(9, 2))]
)
LAYOUT = Layout(Schema(SCHEMA, "ts"))


@pytest.mark.parametrize(
    ("text", "source", "columns"),
    [
        ("count(*)", Source.ENTRIES, ()),
        ("count(k)", Source.ENTRIES, ("k",)),
        ("avg(x)", Source.ENTRIES, ("x",)),
        ("mean(n)", Source.ENTRIES, ("n",)),
        ("sum(m)", Source.ENTRIES, ("m",)),
        ("max(ts)", Source.ENTRIES, ("ts",)),
        ("min(_seq)", Source.ENTRIES, ("_seq",)),
        ("stddev(x)", Source.STATES, ("x",)),
        ("var_pop(n)", Source.STATES, ("n",)),
        ("last(n)", Source.STATES, ("n",)),
        ("second_largest(x)", Source.STATES, ("x",)),
        ("first(k)", Source.ROWS, ("k",)),
        ("stddev(m)", Source.ROWS, ("m",)),
        ("sum(x + 1)", Source.ROWS, ("x",)),
        ("count(*) filter (where k = 'a')", Source.ROWS, ("k",)),
        ("avg(x) filter (where n > 1)", Source.ROWS, ("x", "n")),
        ("second_largest(x) filter (where n > 1)", Source.ROWS, ("x", "n")),
    ],
)
def test_a_call_is_answered_from(text: str, source: Source, columns: tuple[str, ...]) -> None:
    call = parse_aggregate(text, LAYOUT.stored, "ts")
    found = reading(LAYOUT, call)
    assert (found.source, found.columns) == (source, columns)
    assert found.counts_rows == (text == "count(*)")
    assert (found.fold is call) == (source is Source.ROWS or (source is Source.STATES and "second" in text))
    assert found.fold.type == call.type
    assert Question(LAYOUT, [call]).is_indexed == (source is not Source.ROWS)

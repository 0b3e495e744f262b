"""A stream as others take it, by Arrow's C interface, and aggregates of everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import tidelog
from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream

SCHEMA = pa.schema([pa.field("ts", pa.timestamp("us"), nullable=False), ("x", pa.float64()), ("word", pa.string())])


@pytest.fixture
def stream() -> Iterator[Stream]:
    with Store(MemoryMedium()) as store:
        found = store.create_stream("s", SCHEMA, "ts", leaf_rows=16, fanout=3)
        found.append({"ts": range(0, 2000, 2), "x": [each / 4 for each in range(1000)], "word": ["a", None] * 500})
        found.flush()
        found.append({"ts": [7, 1], "x": [None, -1.0], "word": ["late", "late"]})
        yield found


def test_pyarrow(stream: Stream) -> None:
    expected = stream.scan().read_all()
    assert expected.num_rows == 1002
    assert pa.table(stream).equals(expected)
    assert pa.schema(stream).equals(SCHEMA)
    assert pa.RecordBatchReader.from_stream(stream).read_all().equals(expected)


def test_a_schema_that_is_asked_for(stream: Stream) -> None:
    wider = pa.schema(
        [pa.field("ts", pa.timestamp("ns"), nullable=False), ("x", pa.float32()), ("word", pa.large_string())]
    )
    found = pa.RecordBatchReader.from_stream(stream, schema=wider).read_all()
    assert found.schema.equals(wider)
    assert found.num_rows == 1002
    capsule = pa.schema([("other", pa.int8())]).__arrow_c_schema__()
    assert stream.__arrow_c_stream__(capsule) is not None  # a wish that cannot be granted


def test_polars(stream: Stream) -> None:
    expected = stream.scan().read_all()
    structs = pl.from_arrow(stream)  # which makes of whatever is no class of PyArrow's a Series
    assert isinstance(structs, pl.Series)
    for taken in (pl.DataFrame(stream), structs.struct.unnest()):
        assert taken.to_dict(as_series=False) == expected.to_pydict()


def test_duckdb(stream: Stream) -> None:
    with duckdb.connect() as connection:
        connection.register("events", stream)
        count = "SELECT count(*), count(x), sum(x), max(word) FROM events"
        assert connection.sql(count).fetchall() == [(1002, 1001, 1000 * 999 / 8 - 1, "late")]
        stream.append({"ts": 5000, "x": 0.0, "word": "zoo"})
        assert connection.sql(count).fetchall() == [(1003, 1002, 1000 * 999 / 8 - 1, "zoo")]  # a snapshot for each
        joined = "SELECT count(*) FROM events a JOIN events b USING (ts)"
        assert connection.sql(joined).fetchall() == [(1003,)]


def test_another_stream_takes_it(stream: Stream) -> None:
    with Store(MemoryMedium()) as store:
        copy = store.create_stream("copy", SCHEMA, "ts")
        copy.append(stream)
        assert pa.table(copy).equals(pa.table(stream))
    stream.append(stream)  # of the moment before
    assert len(stream) == 2004


def test_a_closed_stream_is_not_taken(stream: Stream) -> None:
    stream.close()
    with pytest.raises(tidelog.ClosedError):
        pa.table(stream)


def test_aggregates_of_everything(stream: Stream) -> None:
    everything = stream.aggregate(None, None, ["count(*)", "max(x)"])
    assert everything == {"count(*)": 1002, "max(x)": 249.75}
    assert stream.aggregate(["count(*)", "max(x)"]) == everything
    assert stream.aggregate("count(*)") == {"count(*)": 1002}
    assert stream.aggregate(aggregates=["count(*)"]) == {"count(*)": 1002}
    assert stream.aggregate("count(*)", where="word = 'late'") == {"count(*)": 2}
    assert stream.aggregate("count(*)", as_of=10) == {"count(*)": 10}
    assert stream.explain("count(*)") == stream.explain(None, None, "count(*)")


def test_aggregates_of_a_range(stream: Stream) -> None:
    expected = {"count(*)": 6}  # 1, 2, 4, 6, 7, 8
    assert stream.aggregate(1, 10, ["count(*)"]) == expected
    assert stream.aggregate(["count(*)"], start=1, end=10) == expected
    assert stream.aggregate(start=1, end=10, aggregates="count(*)") == expected
    assert stream.aggregate(1, 10, aggregates="count(*)") == expected
    assert stream.aggregate(1, 10, "count(*)", "word = 'late'") == {"count(*)": 2}
    assert stream.aggregate(1, 10, "count(*)", where="word = 'late'") == {"count(*)": 2}
    assert stream.aggregate("count(*)", start=1) == {"count(*)": 1001}


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((), {}, "found nothing and no aggregates; expected them alone"),
        ((1, 10), {}, r"found 1, 10 and no aggregates; .* aggregate\('2026-01-01', None"),
        (("2026-01-01", ["count(*)"]), {}, "and no aggregates"),
        ((5,), {}, r"found 5 \(int\) for aggregates; expected a text such as 'avg\(price\)', or a list"),
        ((1, 2, "count(*)"), {"start": 3}, "found start twice, as 1 and as 3"),
        (("count(*)",), {"aggregates": "max(x)"}, "found aggregates twice"),
        ((1, 2, "count(*)", "x > 1"), {"where": "x > 2"}, "found where twice"),
        ((1, 2, "count(*)", "x > 1", None), {}, "found 5 arguments without a name"),
        ((None, None, ["count(*)", 5]), {}, r"found 5 \(int\) for an aggregate"),
    ],
)
def test_what_is_no_question(stream: Stream, args: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    for call in (stream.aggregate, stream.explain):
        with pytest.raises(tidelog.InputError, match=message):
            call(*args, **options)

"""Many streams as one relation: streams('pattern'), with the name of each row's stream beside it."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.errors import SqlError

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64())])


def rows(shift: int) -> pa.Table:
    times = pa.array([(shift + 3 * i) * 1_000_000 for i in range(100)], pa.timestamp("us"))
    return pa.table([times, pa.array([float(i + shift) for i in range(100)])], schema=SCHEMA)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("many"), maintenance="manual") as opened:
        for number in range(3):
            opened.create_stream(f"sensors/{number}", SCHEMA, "ts", data=rows(number), leaf_rows=8).flush()
        opened.create_stream("other", pa.schema([("at", pa.int64())]), "at", data={"at": [1]})
        yield opened


QUERIES = [
    "SELECT _stream, count(*), sum(x) FROM {} GROUP BY ALL ORDER BY ALL",
    "SELECT * FROM {} ORDER BY ts, _stream LIMIT 5",
    "SELECT count(*) FROM {} s WHERE s._stream = 'sensors/1' AND ts >= '1970-01-01 00:01'",
    "SELECT sum(x) FROM {} WHERE _stream IN ('sensors/0', 'sensors/2') OR x = 7",
    "SELECT _stream FROM {} WHERE x = 99 ORDER BY 1",
    "SELECT max(x) FROM {} a JOIN {} b USING (ts, x)",
    "SELECT count(*) FROM {} WHERE x > 50 AND _stream LIKE '%2'",
    "SELECT max(_stream) FROM {}",
]


@pytest.mark.parametrize("text", QUERIES)
def test_the_same_rows_as_a_union(store: Store, text: str) -> None:
    tables = [rows(number).append_column("_stream", [[f"sensors/{number}"] * 100]) for number in range(3)]
    with duckdb.connect() as connection:
        connection.register("united", pa.concat_tables(tables))
        expected = connection.sql(text.replace("{}", "united")).fetchall()
    assert store.sql(text.replace("{}", "streams('sensors/*')")).fetchall() == expected


def test_only_streams_that_are_asked_for_are_read(store: Store) -> None:
    result = store.sql("SELECT median(x) FROM streams('sensors/*') WHERE _stream = 'sensors/2'")
    assert result.fetchone() == (51.5,)
    (relation,) = result._query.relations.values()
    assert len(relation.readings) == 1


FROM_INDEX = [
    "SELECT count(*), sum(x), min(x), max(ts), avg(x) FROM {}",
    "SELECT avg(x) + 1 AS v, count(x) FROM {} WHERE ts BETWEEN '1970-01-01 00:01' AND '1970-01-01 00:03'",
    "SELECT count(*), avg(x) FROM {} WHERE _stream = 'sensors/1' AND ts >= '1970-01-01 00:01'",
    "SELECT count(*), sum(x) FROM {} WHERE _stream LIKE '%none'",
    "SELECT _stream, count(*), avg(x), last(x), arg_min(x, ts) FROM {} GROUP BY _stream ORDER BY 1",
    "SELECT _stream AS s, max(x) FROM {} WHERE _stream <> 'sensors/0' GROUP BY ALL HAVING count(*) > 3 ORDER BY s DESC",
    "SELECT date_trunc('minute', ts) AS m, count(*), avg(x), max(x) FROM {} GROUP BY m ORDER BY m",
    "SELECT time_bucket('2 minutes', ts) AS m, _stream, sum(x) FROM {} t GROUP BY 1, t._stream ORDER BY ALL",
    "SELECT max(c) FROM (SELECT _stream, count(*) AS c FROM {} WHERE ts < '1970-01-01 00:02' GROUP BY _stream)",
    "SELECT count(*) FROM {} WHERE ts < '1960-01-01'",
    "SELECT _stream, count(*) FROM {} WHERE ts < '1960-01-01' GROUP BY 1",
]


@pytest.mark.parametrize("text", FROM_INDEX)
def test_the_index_of_each_stream_is_asked(store: Store, text: str) -> None:
    tables = [rows(number).append_column("_stream", [[f"sensors/{number}"] * 100]) for number in range(3)]
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("united", pa.concat_tables(tables))
        expected = connection.sql(text.replace("{}", "united")).to_arrow_table()
    result = store.sql(text.replace("{}", "streams('sensors/*')"))
    found = result.arrow()
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.types == expected.schema.types
    assert found.schema.names == expected.schema.names
    (relation,) = result._query.relations.values()
    assert relation.way.startswith("the index"), relation.reasons
    assert relation.readings == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "SELECT first(x) IS NULL FROM streams('sensors/*')",
            "several streams, or ranges of time, takes their events",
        ),
        ("SELECT max(x), median(x) FROM streams('sensors/*')", "takes the events"),
        ("SELECT count(*) FROM streams('sensors/*') WHERE x > 3 OR _stream = 'sensors/2'", "computed by DuckDB"),
        ("SELECT max(_stream), count(*) FROM streams('sensors/*')", "_stream"),
    ],
)
def test_why_the_events_of_several_streams_are_read(store: Store, text: str, reason: str) -> None:
    result = store.sql(text)
    result.fetchall()
    (relation,) = result._query.relations.values()
    assert relation.way == "the events"
    assert reason in relation.reasons[0]


def test_comparisons_of_floats_are_pruned_by_in_all_streams(store: Store) -> None:
    result = store.sql("SELECT _stream, x FROM streams('sensors/*') WHERE x > 99.5 ORDER BY ALL")
    assert result.fetchall() == [("sensors/1", 100.0), ("sensors/2", 100.0), ("sensors/2", 101.0)]
    (relation,) = result._query.relations.values()
    assert sum(reading.counters.leaves for reading in relation.readings) <= 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM streams('nothing*')", "no stream matches 'nothing\\*'"),
        ("FROM streams('*')", "have different columns"),
        ("FROM streams()", "expected streams"),
        ("FROM streams(1)", "expected streams"),
    ],
)
def test_what_cannot_be(store: Store, text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        store.sql(text)

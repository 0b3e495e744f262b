"""Statements on Spark give what ``store.sql`` gives, of one moment, reading no more than they need."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import tidelog
from tidelog import spark as tl
from tidelog.spark.sql.planning import Asked, Planned, plan_statement
from tidelog.sql.errors import SqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        ("site", pa.string()),
        ("celsius", pa.float64()),
        ("n", pa.int32()),
    ]
)
START = datetime.datetime(2026, 1, 1)
ROWS = 400


def events(rows: int, begin: int = 0) -> dict[str, Any]:
    return {
        "ts": [START + datetime.timedelta(minutes=10 * each) for each in range(begin, begin + rows)],
        "site": [["north", "south", None][each % 3] for each in range(rows)],
        "celsius": [None if each % 7 == 0 else each / 8 for each in range(rows)],
        "n": list(range(rows)),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sql")
    with tidelog.open(place) as store:
        store.create_stream("sensors", SCHEMA, time="ts", data=events(ROWS), leaf_rows=16, fanout=4, split="1d")
        for number in range(2):
            store.create_stream(f"pumps/{number}", SCHEMA, time="ts", data=events(5))
    return place


def same(session: SparkSession, path: Path, text: str, params: Any = None, **more: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement on Spark, which are those of the embedded engine."""
    found = [tuple(row) for row in tl.sql(session, text, params, store=path, **more).collect()]
    with tidelog.open(path, read_only=True) as store:
        expected = store.sql(text, params, **more).fetchall()
    assert Counter(found) == Counter(expected)
    return found


def test_streams_are_asked_as_in_a_store(session: SparkSession, path: Path) -> None:
    sites = pa.table({"site": ["north", "south"], "city": ["Kiel", "Ulm"]})
    text = """
        WITH warm AS (SELECT *, n + 1 AS m FROM sensors WHERE celsius > $least)
        SELECT city, time_bucket(INTERVAL '1 day', ts) AS day, count(*) AS rows, avg(celsius), max(m)
        FROM warm JOIN sites USING (site) GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL
    """
    rows = same(session, path, text, {"least": 20}, tables={"sites": sites})
    assert len(rows) == 4


def test_the_moment_is_that_of_the_call(session: SparkSession, tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("sensors", SCHEMA, time="ts", data=events(50))
        stream.flush()
        frame = tl.sql(
            session,
            "SELECT (SELECT count(n) FROM sensors WHERE n >= 0), count(*) FROM sensors WHERE n >= 0",
            store=tmp_path,
        )
        stream.append(events(10, begin=100))
        stream.delete_before(START + datetime.timedelta(minutes=55))
        stream.flush()
        assert [tuple(each) for each in frame.collect()] == [(50, 50)]


def test_the_past_numbers_and_many_streams(session: SparkSession, path: Path) -> None:
    text = "SELECT _seq, n FROM sensors AT (VERSION => 30) WHERE _seq >= 10"
    assert len(same(session, path, text)) == 20
    rows = same(session, path, "SELECT _stream, count(*), sum(n) FROM streams('pumps/*') GROUP BY _stream")
    assert sorted(rows) == [("pumps/0", 5, 10), ("pumps/1", 5, 10)]


def reads(path: Path, text: str) -> Planned:
    now = datetime.datetime.now(datetime.UTC)
    return plan_statement(str(path), Asked(text, None, {}, None, "UTC", now, 100))


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("SELECT n FROM sensors", {"n"}, ROWS),
        ("SELECT n FROM sensors WHERE ts < '2026-01-01 08:00'", {"n", "ts"}, 48),
        ("SELECT n FROM (SELECT * FROM sensors) s WHERE ts >= '2026-01-03 12:00'", {"n", "ts"}, 64),
        ("WITH c AS (FROM sensors) SELECT max(n + 1) FROM c WHERE c.ts < '2026-01-01 08:00'", {"n", "ts"}, 48),
        ("SELECT count(*) FROM sensors WHERE n BETWEEN 100 AND 110", {"n"}, 32),
        ("SELECT a.n FROM sensors a JOIN range(9) r(i) ON a.n = i WHERE a.ts < '2026-01-01 04:00'", {"n", "ts"}, 32),
        ("FROM (SELECT ts, n FROM sensors UNION ALL SELECT NULL, 1) WHERE ts < '2026-01-02'", {"n", "ts"}, 160),
    ],
)  # fmt: skip
def test_streams_are_read_as_far_as_they_are_needed(path: Path, text: str, columns: set[str], rows: int) -> None:
    (reading,) = reads(path, text).whole.readings.values()
    assert {field.name for field in reading.columns.values()} == columns
    assert sum(part.piece.rows for part in reading.parts) <= rows


def test_the_index_and_one_end_answer_without_a_scan(session: SparkSession, path: Path) -> None:
    buckets = (
        "SELECT time_bucket(INTERVAL '1 day', ts) AS day, count(*), max(celsius), avg(n) FROM sensors GROUP BY day"
    )
    for text in ("SELECT count(*), sum(n), min(ts), max(celsius) FROM sensors", buckets):
        assert not reads(path, text).whole.readings
        same(session, path, text)
    newest = "SELECT ts, n FROM sensors WHERE site = 'north' ORDER BY ts DESC LIMIT 5"
    (reading,) = reads(path, newest).whole.readings.values()
    assert reading.rows is not None
    assert reading.rows.num_rows == 5
    assert len(same(session, path, newest)) == 5


def test_streaming_frames_are_tables(session: SparkSession, path: Path, tmp_path: Path) -> None:
    stream = session.readStream.format("tidelog").options(stream="sensors").load(str(path))
    frame = tl.sql(
        session,
        'SELECT n * 2 AS double, p.celsius FROM live JOIN "pumps/0" p USING (n) WHERE live.celsius > 0',
        store=path,
        tables={"live": stream},
    )
    assert frame.isStreaming
    writing = frame.writeStream.format("memory").queryName("doubled").option("checkpointLocation", str(tmp_path))
    assert writing.trigger(availableNow=True).start().awaitTermination(600)
    assert sorted(row.double for row in session.table("doubled").collect()) == [2, 4, 6, 8]


def test_the_settings_of_the_session_do_not_matter(session: SparkSession, path: Path) -> None:
    others = {
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.legacy.interval.enabled": "true",
        "spark.sql.legacy.statisticalAggregate": "true",
    }
    before = {name: session.conf.get(name) for name in others}
    times = "max(ts)::TIMESTAMPTZ::VARCHAR, max(date_trunc('day', ts::TIMESTAMPTZ))::VARCHAR, max(ts) - min(ts)"
    text = f"SELECT {times}, stddev(n) FILTER (n = 5) FROM sensors WHERE n > 2"
    for name, value in others.items():
        session.conf.set(name, value)
    try:
        (column,) = tl.sql(session, "SELECT date_trunc('day', ts::TIMESTAMPTZ) FROM sensors", store=path).schema
        assert column.dataType.simpleString() == "timestamp"
        for zone in ("UTC", "Europe/Berlin"):
            same(session, path, text, timezone=zone)
        with pytest.raises(PySparkException):
            tl.sql(session, "SELECT n + 2147483647 FROM sensors", store=path).collect()
        assert {name: session.conf.get(name) for name in others} == others
    finally:
        for name, value in before.items():
            session.conf.set(name, str(value))


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT hash(n) FROM sensors", "the function hash", 7),
        ("SELECT list(n) FROM sensors", "list without an order", 7),
        ("SELECT nope FROM sensors", "nope", 7),
        ("SELECT * FROM sensor", "did you mean 'sensors'?", 14),
        ("CREATE STREAM s (ts TIMESTAMP)", "on Spark only SELECT is run", 0),
        ("SELECT 1; SELECT 2", "expected one that selects", None),
        ("SELECT * FROM read_csv('/etc/passwd')", "read_csv", 14),
        ("SELECT n FROM sensors WHERE regexp_matches(site, '(?i)a')", "(? in a regular expression", 28),
        ("SELECT n FROM sensors WHERE regexp_matches(site, 'É', 'i')", "other letters than a to z", 28),
        ("SELECT ts::TIMESTAMP_NS AS t FROM sensors", "nanoseconds in column 't'", None),
        ("SELECT n" + " + n" * 600 + " FROM sensors", "nested too deeply", 0),
    ],
)
def test_what_cannot_be_asked_is_refused_at_its_place(
    session: SparkSession, path: Path, text: str, message: str, place: int | None
) -> None:
    with pytest.raises(SqlError) as raised:
        tl.sql(session, text, store=path)
    assert message in str(raised.value)
    assert raised.value.position == place

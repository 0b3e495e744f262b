"""Aggregates and buckets that the index answers: the same rows as plain DuckDB has, without a look at the events."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.model.errors import ClosedError
from tidelog.sql.errors import SqlError
from tidelog.sql.query import Query
from tidelog.sql.result import Result

ROWS = 60_000
START = 1_767_225_600_000_000  # 2026-01-01
SECONDS = 97


def table(kind: pa.DataType) -> pa.Table:
    """Events over 67 days, dyadic values so that sums do not depend on the order."""
    random = np.random.default_rng(5)
    ticks = {"s": 1_000_000, "ms": 1_000, "us": 1}.get(kind.unit)
    at = START + np.arange(ROWS) * SECONDS * 1_000_000
    times = at * 1000 if ticks is None else at // ticks
    empty = random.random(ROWS) < 0.1
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(kind),
            "x": pa.array(random.integers(-500, 500, ROWS) / 8, mask=empty),
            "n": pa.array(random.integers(0, 1000, ROWS), pa.int32()),
            "s": pa.array(random.choice(["a", "b", "c"], ROWS)),
        }
    )


KINDS = {
    "plain": pa.timestamp("us"),
    "zoned": pa.timestamp("us", "UTC"),
    "seconds": pa.timestamp("s"),
    "nanos": pa.timestamp("ns"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("indexed"), maintenance="manual") as opened:
        for name, kind in KINDS.items():
            opened.create_stream(name, time="ts", data=table(kind), leaf_rows=64)
        yield opened


def plain(text: str, timezone: str = "UTC") -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{timezone}'")
        for name, kind in KINDS.items():
            connection.register(name, table(kind))
        return connection.sql(text).fetchall()


def plain_table(text: str, timezone: str = "UTC") -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{timezone}'")
        for name, kind in KINDS.items():
            connection.register(name, table(kind))
        return connection.sql(text).to_arrow_table()


def way(result: Result) -> list[str]:
    return [relation.way for relation in result._query.relations.values()]


FROM_INDEX = [
    "SELECT count(*), sum(x), min(n), max(n), avg(x) FROM plain WHERE ts < '2026-01-05' OR ts > '2026-02-01'",
    "SELECT count(x), avg(n) FROM plain WHERE ts BETWEEN '2026-01-05' AND '2026-01-09' OR ts >= '2026-02-20 03:04:05'",
    "SELECT date_trunc('week', ts) AS w, count(*), avg(x), sum(n) FROM plain "
    "WHERE ts < '2026-01-14 12:00' OR ts > '2026-01-15 06:00' GROUP BY w ORDER BY w",
    "SELECT count(*), max(x) FROM plain WHERE ts < '2020-01-01' OR ts > '2030-01-01'",
    "SELECT count(*), sum(x) FROM plain WHERE NOT ts BETWEEN '2026-01-05' AND '2026-01-09' AND ts < '2026-02-01'",
    "SELECT count(*) FROM plain",
    "SELECT count(*), count(x), sum(x), avg(x), min(x), max(x), sum(n), min(ts), max(ts), min(s) FROM {}",
    "SELECT count(*) AS c, sum(x) / count(*) + 1 FROM {} WHERE ts >= '2026-01-10' AND ts < '2026-02-01 10:11:12'",
    "SELECT max(x) FROM {} t WHERE t.ts BETWEEN '2026-01-10' AND '2026-01-12'",
    "SELECT sum(n) FROM {} WHERE '2026-01-10' <= ts",
    "SELECT count(*), max(n) FROM {} WHERE ts < '2000-01-01'",
    "SELECT time_bucket(INTERVAL '1 day', ts) AS b, avg(x), count(*) FROM {} GROUP BY b ORDER BY b",
    "SELECT time_bucket(INTERVAL '7 days', ts), max(x) FROM {} GROUP BY 1 ORDER BY 1",
    "SELECT date_trunc('month', ts) AS m, sum(n) FROM {} GROUP BY ALL ORDER BY ALL",
    "SELECT date_trunc('week', ts) AS w, sum(n), count(x) FROM {} GROUP BY date_trunc('week', ts) ORDER BY w DESC",
    "SELECT count(*), date_trunc('day', ts) FROM {} WHERE ts >= '2026-01-10 05:00' AND ts < '2026-01-20 01:00'"
    " GROUP BY 2 HAVING count(*) > 800 ORDER BY 2 LIMIT 4",
    "SELECT time_bucket(INTERVAL '3 days', ts, TIMESTAMP '2026-01-02') AS b, sum(x) FROM plain GROUP BY b ORDER BY b",
    "SELECT time_bucket(INTERVAL '12 hours', ts, INTERVAL '3 hours') AS b, sum(x) FROM {} GROUP BY b ORDER BY b",
    "WITH d AS (SELECT date_trunc('day', ts) AS day, avg(x) AS mean FROM {} GROUP BY day) SELECT max(mean) FROM d",
    "SELECT a.b, a.c FROM (SELECT date_trunc('day', ts) AS b, count(*) AS c FROM {} GROUP BY b) a ORDER BY ALL",
    "SELECT max(x) FROM {} UNION ALL SELECT min(x) FROM {} ORDER BY ALL",
    "SELECT round(avg(x), 2) AS r, 7 AS seven FROM {}",
]


@pytest.mark.parametrize("text", FROM_INDEX)
def test_what_the_index_answers(store: Store, text: str) -> None:
    for name in KINDS if "{}" in text else ["plain"]:
        if name == "nanos" and "GROUP BY" in text:
            continue  # DuckDB rounds them to microseconds first, so a bucket does not begin where it says
        asked = text.replace("{}", name)
        result = store.sql(asked)
        assert repr(result.fetchall()) == repr(plain(asked)), name
        found, expected = result.arrow(), plain_table(asked)
        assert found.schema == expected.schema == result.schema
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), name
        assert all(each.startswith("the index") for each in way(result)), (asked, way(result))
        assert [each.readings for each in result._query.relations.values()] == [[]] * len(way(result))


TOLD = [
    "SELECT count(*), max(x) FROM {}",
    "SELECT count(*), max(x), min(s) FROM {} WHERE ts < '2000-01-01'",
    "SELECT count(*) AS n FROM {} LIMIT 0",
    "SELECT time_bucket(INTERVAL '1 day', ts) AS b, avg(x) FROM {} GROUP BY b ORDER BY b DESC LIMIT 5 OFFSET 1",
    "SELECT max(n), date_trunc('day', ts) FROM {} GROUP BY ALL ORDER BY 2",
    "SELECT max(n), date_trunc('day', ts) FROM {} GROUP BY 2 ORDER BY date_trunc('day', ts) LIMIT 3",
    "SELECT date_trunc('day', ts) AS b FROM {} WHERE ts < '2000-01-01' GROUP BY b",
]
COMPUTED = [
    "SELECT count(*) + 1 FROM {}",
    "SELECT count(*) AS a, max(x) AS A FROM {}",
    "SELECT DISTINCT max(x) FROM {}",
    "SELECT date_trunc('day', ts) AS b, count(*) AS c FROM {} GROUP BY b ORDER BY c, b",
    "SELECT date_trunc('day', ts) AS b, count(*) AS c FROM {} GROUP BY b HAVING c > 800 ORDER BY b",
    "SELECT date_trunc('day', ts) AS ts, count(*) FROM {} GROUP BY 1 ORDER BY max(x), 1",
    "SELECT date_trunc('day', ts) AS b, count(*) FROM {} GROUP BY b ORDER BY b LIMIT 10%",
    "SELECT max(m) FROM (SELECT date_trunc('day', ts) AS b, max(x) AS m FROM {} GROUP BY b)",
]


@pytest.mark.parametrize("text", [*TOLD, *COMPUTED])
def test_rows_that_the_index_tells_are_those_of_duckdb(
    store: Store, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    for name in ("plain", "zoned", "seconds"):
        asked = text.replace("{}", name)
        expected = plain_table(asked)
        result = store.sql(asked)
        with monkeypatch.context() as patched:
            if text in TOLD:
                patched.setattr(Query, "opened", None)  # DuckDB is not needed
            found = result.arrow()
            batches = list(result.reader(batch_rows=2))
            assert result.schema == found.schema
        assert repr(found.to_pylist()) == repr(expected.to_pylist()), name
        assert repr(pa.Table.from_batches(batches, found.schema).to_pylist()) == repr(expected.to_pylist())
        assert [str(each) for each in found.schema.types] == [str(each) for each in expected.schema.types]


def test_rows_that_the_index_tells_are_in_the_zone_of_the_session(store: Store) -> None:
    text = "SELECT max(ts) AS last, count(*) AS n FROM zoned"
    for timezone in ("UTC", "Asia/Kolkata", "UTC"):
        assert store.sql(text, timezone=timezone).arrow().equals(plain_table(text, timezone))


def test_rows_that_the_index_tells_end_with_the_store(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as opened:
        opened.create_stream("s", time="ts", data=table(KINDS["plain"]).slice(0, 100))
        result = opened.sql("SELECT count(*) AS n FROM s")
        assert result.arrow().to_pylist() == [{"n": 100}]
    with pytest.raises(ClosedError):
        result.arrow()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_buckets_of_a_fixed_length_are_those_of_duckdb(tmp_path: Path, unit: str) -> None:
    ticks = {"s": 1, "ms": 1000, "us": 1_000_000}[unit]
    times = np.sort(np.random.default_rng(8).integers(-700_000_000 * ticks, 1_500_000_000 * ticks, 4000))
    rows = pa.table({"ts": pa.array(times, pa.int64()).cast(pa.timestamp(unit))})
    widths = ["1000 days", "90 days 7 hours", "51 weeks", "86400007 seconds", "-3 days", "0 days"]
    texts = [f"time_bucket(INTERVAL '{width}', ts)" for width in widths]
    texts += ["time_bucket(INTERVAL 777 DAY, ts)", "time_bucket('400 days', ts)", "date_trunc('Weeks', ts)"]
    texts += ["date_trunc('day', ts)", "time_bucket(INTERVAL '1000 days', ts, INTERVAL '3 seconds')"]
    texts += ["time_bucket(INTERVAL '1000 days', ts + INTERVAL 1 DAY)", "time_bucket(NULL::INTERVAL, ts)"]
    with tidelog.open(tmp_path) as opened, duckdb.connect() as connection:
        opened.create_stream("s", time="ts", data=rows, leaf_rows=8)
        connection.register("s", rows)
        for text in texts:
            asked = f"SELECT {text} AS b, count(*) AS n FROM s GROUP BY b ORDER BY b"
            try:
                expected = connection.sql(asked).to_arrow_table()
            except duckdb.Error:
                with pytest.raises(SqlError):
                    opened.sql(asked).arrow()
                continue
            assert opened.sql(asked).arrow().equals(expected), text


def test_buckets_of_nanoseconds_are_those_of_duckdb(store: Store) -> None:
    text = "SELECT date_trunc('day', ts) AS d, sum(x) FROM nanos GROUP BY d ORDER BY d"
    result = store.sql(text)
    assert repr(result.fetchall()) == repr(plain(text))
    assert way(result)[0].startswith("the index")


def test_types_and_names_are_those_of_duckdb(store: Store) -> None:
    text = (
        "SELECT count(*), sum(n), avg(n), min(ts), time_bucket(INTERVAL '9 days', ts), sum(x) FROM plain GROUP BY ALL"
    )
    with duckdb.connect() as connection:
        connection.register("plain", table(KINDS["plain"]))
        expected = connection.sql(text).limit(0).to_arrow_table().schema
    result = store.sql(text)
    assert way(result)[0].startswith("the index")
    assert result.schema == expected
    assert result.arrow().schema == expected


ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]


@pytest.mark.parametrize("zone", ZONES)
def test_days_and_months_of_a_zone(store: Store, zone: str) -> None:
    for text in (
        "SELECT date_trunc('day', ts) AS d, count(*), sum(x) FROM zoned GROUP BY d ORDER BY d",
        "SELECT date_trunc('month', ts) AS d, count(*), sum(x) FROM zoned GROUP BY d ORDER BY d",
    ):
        result = store.sql(text, timezone=zone)
        assert repr(result.fetchall()) == repr(plain(text, zone))
        assert way(result)[0].startswith("the index"), result._query.relations
    text = f"SELECT time_bucket(INTERVAL '1 day', ts, '{zone}') AS d, sum(n) FROM zoned GROUP BY d ORDER BY d"
    result = store.sql(text)
    assert repr(result.fetchall()) == repr(plain(text))
    assert way(result)[0].startswith("the index"), result._query.relations


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*), min(ts) FROM plain WHERE ts > TIMESTAMPTZ '2026-01-05 00:00:00+00'",
        "SELECT ts FROM plain WHERE ts > TIMESTAMPTZ '2026-01-05 00:00:00+00' ORDER BY ts LIMIT 1",
        "SELECT ts FROM plain WHERE ts > CAST(TIMESTAMPTZ '2026-01-05 00:00:00+00' AS TIMESTAMP) ORDER BY ts LIMIT 1",
        "SELECT ts FROM plain WHERE CAST(ts AS TIMESTAMPTZ) > '2026-01-05 00:00:00+00' ORDER BY ts LIMIT 1",
    ],
)
def test_times_without_a_zone_are_of_the_session_next_to_such_with_one(store: Store, text: str) -> None:
    for zone in ("UTC", *ZONES):
        assert repr(store.sql(text, timezone=zone).fetchall()) == repr(plain(text, zone)), zone


def test_no_buckets_have_the_type_of_buckets(store: Store) -> None:
    for name in KINDS:
        text = f"SELECT date_trunc('day', ts) AS d, sum(n) FROM {name} WHERE ts < '2000-01-01' GROUP BY d"
        with duckdb.connect() as connection:
            connection.register(name, table(KINDS[name]))
            connection.execute("SET TimeZone = 'UTC'")
            assert store.sql(text).arrow().schema == connection.sql(text).to_arrow_table().schema


def test_means_of_decimals_are_rounded_as_by_duckdb(tmp_path_factory: pytest.TempPathFactory) -> None:
    random = np.random.default_rng(3)
    for seed in range(8):
        cents = pa.array(random.integers(-(10**17), 10**17, 20 + seed)).cast(pa.decimal128(19, 0))
        rows = pa.table({"ts": np.arange(len(cents)), "d": pc.multiply(cents, pa.scalar(Decimal("0.001")))})
        rows = rows.set_column(1, "d", rows["d"].cast(pa.decimal128(18, 3)))
        with tidelog.open(tmp_path_factory.mktemp("decimals")) as other, duckdb.connect() as connection:
            other.create_stream("t", time="ts", data=rows).flush()
            connection.register("t", rows)
            text = "SELECT avg(d), mean(d), sum(d), max(d) FROM t"
            assert other.sql(text).fetchall() == connection.sql(text).fetchall()


FROM_EVENTS = {
    "SELECT s, count(*) FROM plain GROUP BY s ORDER BY s": "rows are grouped by s",
    "SELECT count(*) FROM plain WHERE n > 5": "not about a range of ts alone",
    "SELECT last(n) FROM plain WHERE ts < '2026-01-05' OR ts > '2026-02-01'": "several streams, or ranges of time",
    "SELECT count(*) FILTER (WHERE ts < '2026-01-05' OR ts > '2026-02-01') FROM plain": "several ranges",
    "SELECT count(DISTINCT n) FROM plain": "takes the events",
    "SELECT sum(x) FILTER (WHERE n > 3) FROM plain": "takes the events",
    "SELECT median(x) FROM plain": "takes the events",
    "SELECT sum(x + 1) FROM plain": "not of a column alone",
    "SELECT date_trunc('minute', ts), count(*) FROM plain GROUP BY 1 ORDER BY 1": "read as fast",
    "SELECT count(*), (SELECT 1) FROM plain": "subquery",
    "SELECT n, sum(count(*)) OVER () FROM plain WHERE n < 2 GROUP BY n ORDER BY n": "rows are grouped by n",
    "SELECT count(*) FROM plain WHERE ts >= '2026-01-05' AND random() < 2": "computed by DuckDB",
    "SELECT time_bucket(INTERVAL '1 day', ts), s, sum(n) FROM plain GROUP BY ALL ORDER BY ALL": "rows are grouped by s",
    "SELECT count(*) FROM plain TABLESAMPLE 100%": "chosen after",
}


@pytest.mark.parametrize("text", FROM_EVENTS)
def test_what_takes_the_events(store: Store, text: str) -> None:
    result = store.sql(text)
    assert repr(result.fetchall()) == repr(plain(text))
    (relation,) = result._query.relations.values()
    assert relation.way.startswith("the events")
    assert FROM_EVENTS[text] in relation.reasons[0]


def test_a_past_version_takes_the_events(store: Store) -> None:
    result = store.sql("SELECT count(*), max(_seq) FROM plain AT (VERSION => 100)")
    assert result.fetchone() == (100, 99)
    assert way(result)[0].startswith("the events")


ENDS = {
    "SELECT * FROM plain ORDER BY ts DESC LIMIT 5": 5,
    "SELECT x, n FROM plain p ORDER BY p.ts LIMIT 3 OFFSET 4": 7,
    "SELECT n FROM plain WHERE s = 'a' AND x > 10 ORDER BY ts DESC LIMIT 2": 2,
    "SELECT n FROM plain WHERE ts >= '2026-01-05' ORDER BY ts LIMIT 2": 2,
    "SELECT n, _seq FROM plain ORDER BY ts DESC, _seq DESC LIMIT 3": 3,
    "WITH c AS (SELECT * FROM plain ORDER BY ts DESC LIMIT 10) SELECT sum(n) FROM c": 10,
}


@pytest.mark.parametrize("text", ENDS)
def test_one_end_is_read_where_that_is_enough(store: Store, text: str) -> None:
    result = store.sql(text)
    numbered = text.replace("_seq FROM plain", "_seq FROM (SELECT *, row_number() OVER () - 1 AS _seq FROM plain)")
    assert repr(result.fetchall()) == repr(plain(numbered))
    (relation,) = result._query.relations.values()
    assert [reading.rows for reading in relation.readings] == [ENDS[text]]


def test_a_bare_limit_reads_no_more(store: Store) -> None:
    result = store.sql("SELECT n FROM plain WHERE n > 500 LIMIT 7")
    rows = result.fetchall()
    assert len(rows) == 7
    assert all(n > 500 for (n,) in rows)
    (relation,) = result._query.relations.values()
    assert [reading.rows for reading in relation.readings] == [7]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n, x FROM plain ORDER BY ts DESC, n LIMIT 5",
        "SELECT DISTINCT s FROM plain ORDER BY s LIMIT 2",
        "SELECT x AS ts FROM plain WHERE x IS NOT NULL ORDER BY ts LIMIT 1",
        "SELECT unnest([n, n]) FROM plain ORDER BY ts LIMIT 3",
        "SELECT row_number() OVER (ORDER BY n, ts) FROM plain ORDER BY ts LIMIT 3",
        "SELECT s, max(n) FROM plain GROUP BY s ORDER BY s LIMIT 1",
    ],
)
def test_limits_that_take_all_events(store: Store, text: str) -> None:
    result = store.sql(text)
    assert repr(result.fetchall()) == repr(plain(text))
    (relation,) = result._query.relations.values()
    assert relation.end is None


def test_comparisons_of_floats_are_pruned_by(store: Store, tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = {"ts": np.arange(10_000), "x": np.arange(10_000) / 4}
    with tidelog.open(tmp_path_factory.mktemp("floats")) as other:
        stream = other.create_stream("f", time="ts", data=pa.table(rows), leaf_rows=100)
        stream.flush()
        for text in ("x > 2490.5", "2490.5 < x", "x BETWEEN 2490.75 AND 1e9", "x >= CAST(2490.75 AS DOUBLE)"):
            result = other.sql(f"SELECT count(*), min(ts) FROM f WHERE {text} AND ts >= 0")
            assert result.fetchone() == (37, 9963)
            (relation,) = result._query.relations.values()
            assert relation.readings[0].counters.leaves <= 2, text

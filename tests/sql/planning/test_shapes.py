"""The index answers whatever shape a statement has: every spelling of a range of time, every clause on top."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store

ROWS = 40_000
START = 1_773_000_000_000_000  # 2026-03-08 20:00, a day on which clocks change in New York
BERLIN = datetime.timezone(datetime.timedelta(hours=2))


def table(kind: pa.DataType) -> pa.Table:
    random = np.random.default_rng(3)
    times = START + np.arange(ROWS) * 60_000_000
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us")).cast(kind),
            "x": random.integers(-500, 500, ROWS) / 8,
            "n": random.integers(0, 1000, ROWS),
        }
    )


KINDS = {"p": pa.timestamp("us"), "z": pa.timestamp("us", "UTC"), "m": pa.timestamp("ms", "America/New_York")}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("shapes"), maintenance="manual") as opened:
        for name, kind in KINDS.items():
            opened.create_stream(name, time="ts", data=table(kind), leaf_rows=64).flush()
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, kind in KINDS.items():
            connection.register(f"given_{name}", table(kind))
            connection.execute(f"CREATE TABLE {name} AS FROM given_{name}")
        yield connection


def check(store: Store, plain: duckdb.DuckDBPyConnection, text: str, params: Any = None, zone: str = "UTC") -> None:
    cursor = plain.cursor()
    cursor.execute(f"SET TimeZone = '{zone}'")
    expected = cursor.sql(text, params=params).to_arrow_table()
    result = store.sql(text, params, timezone=zone)
    found = result.arrow()
    assert found.schema == expected.schema, text
    assert found.to_pylist() == expected.to_pylist(), text
    for relation in result._query.relations.values():
        assert relation.way.startswith("the index"), (text, relation.reasons)
        assert relation.readings == []
    cursor.close()


RANGES: list[tuple[str, Any]] = [
    ("ts BETWEEN '2026-03-10' AND '2026-03-20 12:34:56'", None),
    ("'2026-03-10' < ts AND NOT ts >= '2026-03-20'", None),
    ("ts > CAST('2026-03-10' AS TIMESTAMP) AND ts <= DATE '2026-03-20'", None),
    ("ts >= TIMESTAMP '2026-03-10' + INTERVAL 3 DAY", None),
    ("ts >= ? AND ts < ?", [datetime.datetime(2026, 3, 10, 3), datetime.date(2026, 3, 20)]),
    ("ts >= $a", {"a": "2026-03-12 01:02:03"}),
    ("CAST(ts AS DATE) = '2026-03-12'", None),
    ("ts::DATE BETWEEN '2026-03-12' AND '2026-03-14'", None),
    ("date_trunc('day', ts) = '2026-03-12'", None),
    ("time_bucket(INTERVAL '1 day', ts) >= '2026-03-12' AND time_bucket('1 day', ts) < '2026-03-15'", None),
    ("ts + INTERVAL 1 DAY > '2026-03-12'", None),
    ("year(ts) = 2026 AND epoch(ts) > 1773400000", None),
    ("ts = '2026-03-10 20:00'", None),
    ("ts < '2000-01-01' AND ts > '2010-01-01'", None),
    ("TRUE", None),
    ("ts >= '2026-03-12' AND ts >= '2026-03-10' AND 1 = 1", None),
]


@pytest.mark.parametrize(("condition", "params"), RANGES)
def test_a_range_of_time_in_every_spelling(
    store: Store, plain: duckdb.DuckDBPyConnection, condition: str, params: Any
) -> None:
    for name in KINDS:
        check(store, plain, f"SELECT count(*), sum(x), max(n), min(ts), max(ts) FROM {name} WHERE {condition}", params)
    text = f"SELECT date_trunc('day', ts) AS d, avg(x) FROM p WHERE {condition} GROUP BY d ORDER BY d"
    if "= '2026-03-10 20:00'" not in condition:
        check(store, plain, text, params)


SHAPES = [
    "WITH c AS (SELECT max(x) AS m FROM {} WHERE ts < '2026-03-20') SELECT m + 1 FROM c",
    "SELECT v.m FROM (SELECT max(q.x) AS m, min(q.ts) FROM {} AS q WHERE q.ts > '2026-03-20') v",
    "SELECT (SELECT max(x) FROM {}) - (SELECT min(x) FROM {} WHERE ts < '2026-03-12') AS v",
    "SELECT 'a' AS k, count(*) FROM {} UNION ALL SELECT 'b', count(n) FROM {} WHERE ts < '2026-03-12' ORDER BY k",
    "SELECT d.day, d.c FROM (SELECT date_trunc('day', ts) AS day, count(*) AS c FROM {} GROUP BY 1) d"
    " JOIN (SELECT date_trunc('day', ts) AS day, max(n) AS m FROM {} GROUP BY 1) e USING (day) WHERE m > 5 ORDER BY 1",
    "SELECT date_trunc('day', ts) AS d, sum(n) AS s FROM {} GROUP BY d HAVING sum(n) > 700000 AND max(x) > 3"
    " ORDER BY s DESC, d LIMIT 5 OFFSET 2",
    "SELECT date_trunc('week', t.ts) AS w, count(*) FILTER (WHERE ts >= '2026-03-15') AS c, max(x), max(x) FROM {} t"
    " GROUP BY date_trunc('week', ts) ORDER BY w",
    "SELECT time_bucket(INTERVAL '36 hours', ts, INTERVAL '5 hours') AS b, count(*), last(n) FROM {}"
    " WHERE ts BETWEEN '2026-03-09 03:04:05' AND '2026-03-21 01:02:03' GROUP BY b ORDER BY b",
    "SELECT strftime(date_trunc('day', ts), '%d') AS d, round(avg(x), 3) || '!' FROM {}"
    " GROUP BY date_trunc('day', ts) ORDER BY date_trunc('day', ts)",
    "SELECT max(ts) - min(ts), min(ts), max(ts), arg_max(n, ts) = last(n) FROM {} WHERE ts > '2026-03-09'",
    "SELECT count(*) FILTER (WHERE ts < '2026-03-12') AS a, count(*) FILTER (WHERE ts >= '2026-03-12') AS b FROM {}",
    "SELECT DISTINCT date_trunc('month', ts), min(n) FROM {} GROUP BY 1 ORDER BY 1",
    "SELECT CASE WHEN count(*) > 3 THEN max(x) ELSE min(x) END AS v FROM {} HAVING max(n) > 2",
]


@pytest.mark.parametrize("text", SHAPES)
def test_whatever_is_around_it(store: Store, plain: duckdb.DuckDBPyConnection, text: str) -> None:
    for name in ("p", "m"):
        check(store, plain, text.replace("{}", name))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_zones_with_daylight_saving(store: Store, plain: duckdb.DuckDBPyConnection, zone: str) -> None:
    for name in ("z", "m"):
        for bucket in (
            "date_trunc('day', ts)",
            "date_trunc('month', ts)",
            "time_bucket(INTERVAL '1 day', ts)",
            "time_bucket(INTERVAL '12 hours', ts)",
            f"time_bucket(INTERVAL '1 day', ts, '{zone}')",
            "time_bucket(INTERVAL '2 days', ts, TIMESTAMPTZ '2026-03-01 03:00:00')",
            f"date_trunc('day', ts AT TIME ZONE '{zone}')",
        ):
            where = "ts >= '2026-03-08 22:15' AND ts < TIMESTAMPTZ '2026-04-04 01:30:00+02'"
            text = f"SELECT {bucket} AS b, count(*), sum(x), first(n) FROM {name} WHERE {where} GROUP BY b ORDER BY b"
            check(store, plain, text, zone=zone)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Europe/Berlin"])
def test_clocks_that_are_put_forward(store: Store, plain: duckdb.DuckDBPyConnection, zone: str) -> None:
    """What grows with the time that clocks show does not grow with time when they change."""
    cursor = plain.cursor()
    cursor.execute(f"SET TimeZone = '{zone}'")
    for name in ("p", "m"):
        for left, kind in {
            "CAST(ts AS TIMESTAMPTZ)": "TIMESTAMPTZ",
            "ts AT TIME ZONE 'Europe/Berlin'": "VARCHAR",
            "time_bucket('1 hour', CAST(ts AS TIMESTAMPTZ), 'Europe/Berlin')": "TIMESTAMPTZ",
            "CAST(CAST(ts AS TIMESTAMPTZ) AS TIMESTAMP)": "TIMESTAMP",
        }.items():
            constant = "'2026-03-29 02:30'" if kind == "VARCHAR" else f"CAST('2026-03-29 02:30' AS {kind})"
            text = f"SELECT count(*), min(ts), max(n) FROM {name} WHERE {left} >= {constant}"
            expected = cursor.sql(text).fetchall()
            assert store.sql(text, timezone=zone).fetchall() == expected, text
            assert store.sql(f"{text} AND n >= 0", timezone=zone).fetchall() == expected, text
    cursor.close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT date_trunc('day', ts) AS d, n, count(*) FROM p GROUP BY ROLLUP (d, n) ORDER BY ALL", "several sets"),
        ("SELECT date_trunc('day', ts) AS d, count(*) FROM p GROUP BY CUBE (d) ORDER BY ALL", "several sets"),
        ("SELECT max(x) FROM p GROUP BY GROUPING SETS ((), ()) ORDER BY ALL", "several sets"),
        ("SELECT sum(x) FILTER (WHERE n > 5) FROM p", "takes the events"),
        ("SELECT count(*) FROM p WHERE ts < '2026-03-12' OR n = 3", "not about a range of ts alone"),
        ("SELECT hour(ts) AS h, count(*) FROM p GROUP BY h ORDER BY h", "grouped by"),
        ("SELECT max(x) OVER () AS m FROM p QUALIFY m > 3 LIMIT 1", "chosen after"),
        ("SELECT max(x) FROM p TABLESAMPLE 100%", "chosen after"),
    ],
)
def test_what_the_index_does_not_answer(store: Store, plain: duckdb.DuckDBPyConnection, text: str, reason: str) -> None:
    result = store.sql(text)
    assert result.fetchall() == plain.sql(text).fetchall()
    (relation,) = result._query.relations.values()
    assert relation.way.startswith("the events")
    assert any(reason in each for each in relation.reasons), relation.reasons

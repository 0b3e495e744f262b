"""Of a stream only what a statement needs is read: columns, times and leaves, however the statement is written."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.plan.reading import Reading

ROWS = 20_000
LEAF = 100
START = 1_767_225_600_000_000  # 2026-01-01
MINUTE = 60_000_000
SITES = pa.table({"n": [19_500, 19_501], "s": ["w195", "w196"]})


def rows(kind: pa.DataType) -> pa.Table:
    """An event every minute; all columns grow with time."""
    n = np.arange(ROWS)
    return pa.table(
        {
            "ts": pa.array(START + n * MINUTE, pa.int64()).cast(kind),
            "n": n,
            "i": pa.array(n, pa.int32()),
            "u": pa.array(n, pa.uint32()),
            "k": pa.array(n % 7, pa.int8()),
            "x": n / 4,
            "s": pa.array([f"w{each // LEAF:03d}" for each in n]),
            "d": pa.array(n // 1440 + 20_454, pa.int32()).cast(pa.date32()),
            "dec": pa.array(n).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
            "b": pa.array(n > 19_000),
            "t": pa.array(START + n * MINUTE, pa.int64()).cast(pa.timestamp("us")).cast(pa.timestamp("s")),
        }
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("pushed"), maintenance="manual") as opened:
        for name, kind in {"t": pa.timestamp("us"), "z": pa.timestamp("us", "UTC")}.items():
            opened.create_stream(name, time="ts", data=rows(kind), leaf_rows=LEAF).flush()
        yield opened


def readings(store: Store, text: str, params: object = None, timezone: str = "UTC") -> list[Reading]:
    result = store.sql(text, params, tables={"sites": SITES}, timezone=timezone)
    result.fetchall()
    return [each for relation in result._query.relations.values() for each in relation.readings]


LAST_DAY = 1280
"""Events from 2026-01-14 on."""

DAYS = [
    ("SELECT n FROM t WHERE ts >= '2026-01-14'", None),
    ("SELECT n FROM t WHERE TIMESTAMP '2026-01-14' <= ts", None),
    ("SELECT n FROM t AS other WHERE other.ts >= DATE '2026-01-14'", None),
    ("SELECT n FROM t WHERE NOT ts < '2026-01-14'", None),
    ("SELECT n FROM t WHERE ts BETWEEN '2026-01-14' AND '2026-01-15'", None),
    ("SELECT n FROM t WHERE ts >= CAST('2026-01-14' AS TIMESTAMP)", None),
    ("SELECT n FROM t WHERE ts >= TIMESTAMP '2026-01-13' + INTERVAL '1 day'", None),
    ("SELECT n FROM t WHERE ts >= ?", [datetime.datetime(2026, 1, 14)]),
    ("SELECT n FROM t WHERE ts >= $day", {"day": "2026-01-14"}),
    ("SELECT n FROM t WHERE ts >= $day", {"day": datetime.date(2026, 1, 14)}),
    ("SELECT n FROM t WHERE date_trunc('day', ts) = '2026-01-14'", None),
    ("SELECT n FROM t WHERE CAST(ts AS DATE) = '2026-01-14'", None),
    ("SELECT n FROM t WHERE ts >= '2026-01-14' ORDER BY n LIMIT 3", None),
    ("SELECT k, sum(n) FROM t WHERE ts >= '2026-01-14' GROUP BY k", None),
    ("SELECT n, sum(k) OVER (ORDER BY ts) FROM t WHERE ts >= '2026-01-14'", None),
    ("WITH c AS (FROM t) SELECT n FROM c WHERE ts >= '2026-01-14'", None),
    ("SELECT n FROM (SELECT ts AS moment, n FROM t) WHERE moment >= '2026-01-14'", None),
    ("SELECT n FROM (SELECT ts, n FROM t UNION ALL SELECT ts, n FROM t) WHERE ts >= '2026-01-14'", None),
    ("SELECT a.n FROM t a JOIN t b ON a.ts = b.ts WHERE a.ts >= '2026-01-14'", None),
    ("SELECT a.n FROM t a JOIN sites USING (s) WHERE a.ts >= '2026-01-14'", None),
    ("SELECT * FROM (SELECT ts, row_number() OVER (PARTITION BY ts) AS r FROM t) WHERE ts >= '2026-01-14'", None),
    ("SELECT n FROM z WHERE ts >= '2026-01-14'", None),
    ("SELECT n FROM z WHERE ts >= TIMESTAMPTZ '2026-01-14 01:00:00+01'", None),
    ("SELECT n FROM z WHERE ts >= ?", [datetime.datetime(2026, 1, 14, tzinfo=datetime.UTC)]),
    ("SELECT n FROM z WHERE date_trunc('day', ts) = '2026-01-14'", None),
]


@pytest.mark.parametrize(("text", "params"), DAYS)
def test_only_the_leaves_of_a_range_of_time_are_read(store: Store, text: str, params: object) -> None:
    found = readings(store, text, params)
    assert found
    for reading in found:
        assert reading.rows == LAST_DAY
        assert reading.counters.leaves <= LAST_DAY // LEAF + 2
        assert reading.where is not None


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_ranges_of_time_of_another_zone(store: Store, zone: str) -> None:
    for text in (
        "SELECT n FROM z WHERE ts >= '2026-01-14'",
        "SELECT n FROM z WHERE date_trunc('day', ts) > '2026-01-13'",
    ):
        (reading,) = readings(store, text, timezone=zone)
        assert abs(reading.rows - LAST_DAY) in (60, 300)
        assert reading.counters.leaves <= reading.rows // LEAF + 2


VALUES = {
    "n = 19000": 1,
    "19000 = n": 1,
    "n = '19000'": 1,
    "n IN (1, 19000)": 2,
    "n > 19000 AND n <= 19100": 2,
    "n BETWEEN 19001 AND 19100": 2,
    "n + 1 > 19900": 1,
    "(n > 19900 AND k = 3) OR n < 10": 2,
    "n IS NULL": 0,
    "i >= 19900": 1,
    "u > 19900": 1,
    "s = 'w195'": 1,
    "s >= 'w195'": 5,
    "s IN ('w195', 'w003')": 2,
    "d = '2026-01-02'": 16,
    "dec >= 19900.5": 1,
    "b = TRUE": 10,
    "t >= '2026-01-14 20:00'": 2,
    "x > 4975.5": 1,
    "x BETWEEN 1 AND 2": 1,
    "x > 4975.5 OR x < 1": 2,
    "x > 4975.5 OR n < 10": 2,
    "NOT (x <= 4975.5)": 1,
    "s LIKE 'w195%'": 1,
    "s LIKE 'w19_'": 10,
    "starts_with(s, 'w195')": 1,
    "b": 10,
    "b IS TRUE": 10,
    "b IS NOT FALSE": 10,
    "NOT b AND x > 4740": 2,
    "_seq > 19900": 1,
}


@pytest.mark.parametrize("condition", VALUES)
def test_only_leaves_that_may_have_wanted_values_are_read(store: Store, condition: str) -> None:
    for text in ("SELECT n FROM t WHERE {}", "SELECT n FROM t w WHERE k >= 0 AND ({})"):
        (reading,) = readings(store, text.format(condition))
        assert reading.counters.leaves <= VALUES[condition], text
    if not condition.startswith("_seq"):  # which c does not have
        (reading,) = readings(store, f"WITH c AS (FROM t) SELECT count(k), max(n) FROM c WHERE {condition}")
        assert reading.counters.leaves <= VALUES[condition]


COMPUTED = [
    "time_bucket(INTERVAL '1 day', ts) = '2026-01-14'",
    "time_bucket(INTERVAL '1 day', ts) >= TIMESTAMP '2026-01-14'",
    "time_bucket('12 hours', ts, TIMESTAMP '2026-01-01 12:00') BETWEEN '2026-01-14' AND '2026-01-15'",
    "'2026-01-14' <= date_trunc('day', ts)",
    "date_trunc('week', ts) + INTERVAL 2 DAY > '2026-01-13'",
    "CAST(ts AS DATE) >= '2026-01-14'",
    "ts::DATE IN ('2026-01-14', '2026-01-15')",
    "ts + INTERVAL '1 day' >= '2026-01-15'",
    "ts + INTERVAL 1 MONTH >= '2026-02-14'",
    "ts - INTERVAL '1 day' >= '2026-01-13'",
    "ts - TIMESTAMP '2026-01-14' >= INTERVAL '0 days'",
    "TIMESTAMP '2026-01-14' - ts <= INTERVAL '0 days'",
    "epoch(ts) >= 1768348800",
    "epoch_ms(ts) BETWEEN 1768348800000 AND 1868348800000",
    "extract('epoch' FROM ts) >= 1768348800",
    "year(ts) = 2026 AND epoch_us(ts) >= 1768348800000000",
]


@pytest.mark.parametrize("condition", COMPUTED)
def test_only_leaves_of_times_that_are_computed_are_read(store: Store, condition: str) -> None:
    for text in (
        "SELECT n FROM t WHERE {}",
        "WITH c AS (SELECT ts, n FROM t) SELECT max(n), min(k) FROM (SELECT n AS k, * FROM c) WHERE {}",
    ):
        (reading,) = readings(store, text.format(condition))
        assert reading.counters.leaves <= LAST_DAY // LEAF + 2 + 30 * ("week" in condition), text
    result = store.sql(f"SELECT count(*), min(ts) FROM t WHERE {condition}")
    assert result.fetchall()[0][0] >= LAST_DAY
    if not condition.startswith("ts::DATE IN"):
        (relation,) = result._query.relations.values()
        assert relation.way.startswith("the index"), relation.reasons


def test_a_year_that_is_not_there(store: Store) -> None:
    for condition in ("extract(year FROM ts) > 2026", "date_part('year', ts) <= 2025", "epoch(ts) < 0"):
        (reading,) = readings(store, f"SELECT n FROM t WHERE {condition}")
        assert reading.counters.leaves == 0, condition


THROUGH = {
    "SELECT a.n FROM t a JOIN sites USING (s) WHERE a.x > 4975.5": 1,
    "SELECT a.n FROM sites, t a WHERE a.n = sites.n AND x > 4975.5": 1,
    "SELECT a.n FROM t a LEFT JOIN sites b ON a.s = b.s WHERE a.x > 4975.5": 1,
    "SELECT a.n FROM t a JOIN sites b ON a.s = b.s AND a.x > 4975.5": 1,
    "SELECT a.n FROM sites b LEFT JOIN t a ON a.s = b.s AND a.x > 4975.5": 1,
    "SELECT b.n FROM sites b ANTI JOIN t a ON a.s = b.s AND a.x > 4975.5": 1,
    "SELECT a.n FROM sites b RIGHT JOIN t a ON a.s = b.s WHERE a.x > 4975.5": 1,
    "SELECT a.n FROM t a ANTI JOIN sites b ON a.s = b.s WHERE a.x > 4975.5": 1,
    "SELECT a.n FROM t a ASOF JOIN sites b ON a.n >= b.n WHERE a.x > 4975.5": 1,
    "WITH c AS MATERIALIZED (SELECT n, x AS y FROM t) SELECT n FROM c WHERE y > 4975.5": 1,
    "SELECT n FROM (SELECT n, x AS y FROM (SELECT * FROM t) u) v WHERE v.y BETWEEN 4975.5 AND 9e9": 1,
    "SELECT n FROM (SELECT n, x FROM t UNION ALL SELECT i, x + 1 FROM t) WHERE x > 4975.5": 201,
    "SELECT n FROM (SELECT n, x AS y FROM t UNION ALL SELECT n, x FROM t) WHERE y > 4975.5": 2,
    "SELECT (SELECT max(x) FROM t WHERE x > 4975.5), count(*) FROM sites": 1,
    "SELECT n FROM sites WHERE n IN (SELECT n FROM t WHERE NOT x < 4975.5)": 1,
    "SELECT max(n), median(k) FROM t WHERE x > 4975.5": 1,
}


@pytest.mark.parametrize("text", THROUGH)
def test_conditions_that_are_not_pushed_by_duckdb_are_followed(store: Store, text: str) -> None:
    assert sum(each.counters.leaves for each in readings(store, text)) <= THROUGH[text]


NOT_THROUGH = [
    "SELECT count(*) FROM sites b LEFT JOIN t a ON a.n = b.n + 480 WHERE a.x IS NULL OR a.x > 9e9",
    "SELECT count(*) FROM t a LEFT JOIN sites b ON a.n = b.n AND a.x > 9e9",
    "SELECT count(*) FROM t a ANTI JOIN sites b ON a.n = b.n AND a.x > 9e9",
    "SELECT count(*), count(b.n) FROM t a FULL JOIN sites b ON a.n = b.n AND a.x > 4870",
    "SELECT count(*) FROM t a FULL JOIN sites b ON a.n = b.n WHERE coalesce(a.x > 9e9, TRUE)",
    "SELECT n FROM (SELECT n, x FROM t ORDER BY n LIMIT 3) WHERE x > 0.25",
    "SELECT r FROM (SELECT x, row_number() OVER (ORDER BY n) AS r FROM t) WHERE x > 4999.5",
    "SELECT c FROM (SELECT max(x) AS x, count(*) AS c FROM t GROUP BY k) WHERE x > 4999.5",
    "SELECT n FROM (SELECT DISTINCT ON (k) n, x, k FROM t ORDER BY k, n DESC) WHERE x < 4999",
    "SELECT b.n FROM sites b ASOF JOIN t a ON b.n >= a.n WHERE a.x < 4870",
    "WITH c AS (FROM t) SELECT (SELECT count(*) FROM c), count(*) FROM c WHERE x > 4975.5",
    "SELECT count(*) FROM (SELECT x FROM t EXCEPT SELECT x + 1 FROM t) WHERE x > 1",
]
"""Where rows that a condition rejects matter nevertheless."""


@pytest.mark.parametrize("text", NOT_THROUGH)
def test_rows_that_matter_otherwise_are_read(store: Store, text: str) -> None:
    with duckdb.connect() as connection:
        connection.register("t", rows(pa.timestamp("us")))
        connection.register("sites", SITES)
        assert store.sql(text, tables={"sites": SITES}).fetchall() == connection.sql(text).fetchall()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_times_that_are_computed_in_another_zone(store: Store, zone: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.register("z", rows(pa.timestamp("us", "UTC")))
        for condition in (
            "CAST(ts AS DATE) = '2026-01-14'",
            "time_bucket('1 day', ts) > '2026-01-13'",
            "year(ts) > 2025",
        ):
            text = f"SELECT count(*), min(ts), max(n) FROM z WHERE {condition} AND n >= 0"
            result = store.sql(text, timezone=zone)
            assert result.fetchall() == connection.sql(text).fetchall()
            (relation,) = result._query.relations.values()
            assert relation.readings[0].counters.leaves <= (LAST_DAY + 2 * 1440) // LEAF + 2 or "year" in condition
        for condition in (
            "ts >= '2026-01-14'",
            "ts BETWEEN DATE '2026-01-10' AND TIMESTAMP '2026-01-12 03:04:05'",
            "NOT ts < TIMESTAMPTZ '2026-01-12 03:04:05' AND ts < TIMESTAMPTZ '2026-01-12 03:04:05-09'",
        ):
            text = f"SELECT count(*), min(ts), max(n) FROM z WHERE {condition}"
            result = store.sql(text, timezone=zone)
            assert result.fetchall() == connection.sql(text).fetchall()
            (relation,) = result._query.relations.values()
            assert relation.way.startswith("the index"), relation.reasons


def test_only_the_columns_that_are_needed_are_read(store: Store) -> None:
    wanted = {
        "SELECT k FROM t": {"k"},
        "SELECT k + 1 AS j FROM t WHERE n > 5 AND s <> 'a'": {"k"},
        "SELECT count(DISTINCT s) FROM t": {"s"},
        "SELECT u FROM (SELECT * FROM t) ORDER BY n LIMIT 1": {"u", "n"},
        "WITH c AS (SELECT *, _seq FROM t) SELECT max(k) FILTER (WHERE b) FROM c": {"k", "b"},
        "SELECT * EXCLUDE (ts, s, d, dec, b, t, x, u, i) FROM t": {"n", "k"},
    }
    for text, columns in wanted.items():
        (reading,) = readings(store, text)
        assert set(reading.columns) == columns, text
    assert [set(each.columns) for each in readings(store, "SELECT a.k FROM t a JOIN z b ON a.n = b.n")] == [
        {"k", "n"},
        {"n"},
    ]


def test_what_asks_for_nothing_reads_nothing(store: Store) -> None:
    for text in (
        "SELECT n FROM t WHERE ts < '2020-01-01'",
        "SELECT n FROM t WHERE n < 0",
        "SELECT n FROM t WHERE 1 = 2",
    ):
        assert sum(each.counters.leaves for each in readings(store, text)) == 0, text
    assert readings(store, "SELECT max(n), count(*) FROM t") == []
    (reading,) = readings(store, "SELECT * FROM t ORDER BY ts DESC LIMIT 3")
    assert (reading.rows, reading.counters.leaves <= 1) == (3, True)


def test_how_far_a_query_has_come(tmp_path: Path) -> None:
    times = pa.array(range(20_000), pa.timestamp("us"))
    with tidelog.open(tmp_path / "store") as store:
        store.create_stream("s", time="ts", leaf_rows=1024, data=pa.table({"ts": times, "x": times.cast(pa.int64())}))
        result = store.sql("SELECT x % 7 AS k, count(*) FROM s GROUP BY k")
        assert result.progress == (0, 20)
        result.arrow()
        read, total = result.progress
        assert 18 <= read <= 20 == total  # the newest rows may not be in a block yet
        assert store.sql("SELECT sum(x) FROM s").progress == (0, 0)  # no events are read for it

"""Groups of few events are put together without DuckDB, and are what DuckDB gives."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.model.errors import ClosedError
from tidelog.sql.planning import few
from tidelog.sql.query import Query

ROWS = 3000
FIRST = datetime(2026, 1, 1)


def events() -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([FIRST + timedelta(seconds=k // 2) for k in range(ROWS)], pa.timestamp("us")),
            "k": pa.array(range(ROWS), pa.int32()),
            "x": [None if k % 7 == 0 else float("nan") if k % 11 == 0 else k / 8 for k in range(ROWS)],
            "f": pa.array([k % 50 / 4 for k in range(ROWS)], pa.float32()),
            "Name": [None if k % 5 == 0 else f"n{k % 13}" for k in range(ROWS)],
            "flag": [None if k % 9 == 0 else k % 2 == 0 for k in range(ROWS)],
            "zoned": pa.array([FIRST + timedelta(minutes=k % 9) for k in range(ROWS)], pa.timestamp("us", "UTC")),
            "d": [date(2026, 1, 1 + k % 28) for k in range(ROWS)],
            "m": pa.array([Decimal(k) / 4 for k in range(ROWS)], pa.decimal128(12, 2)),
        }
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("few") / "store", maintenance="manual") as opened:
        stream = opened.create_stream("s", time="ts", data=events().slice(0, 2000), leaf_rows=128)
        stream.append(events().slice(2000))
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("given", events())
        connection.execute("CREATE TABLE s AS FROM given")
        yield connection


TOGETHER = [
    "SELECT name, count(*) AS n, avg(x) AS mean FROM s GROUP BY name",
    "SELECT max(k) AS most, min(ts), count(x), count(name) FROM s WHERE flag",
    "SELECT time_bucket(INTERVAL '1 minute', ts) AS b, max(k) AS m FROM s WHERE name = 'n3' GROUP BY b ORDER BY b",
    "SELECT max(f) AS m, date_trunc('minute', ts) AS b FROM s WHERE ts >= '2026-01-01 00:03:20' AND k % 2 = 0 "
    "GROUP BY ALL ORDER BY 2 DESC LIMIT 3 OFFSET 1",
    "SELECT date_trunc('minute', ts) AS b, name, flag, sum(f), avg(f) FILTER (WHERE k > 700) FROM s GROUP BY 1, 2, 3",
    "SELECT f, x, max(d) FROM s GROUP BY f, x",
    "SELECT t.zoned AS z, min(t.zoned), max(t.k) FROM s AS t WHERE t.k BETWEEN 100 AND 2900 GROUP BY t.zoned",
    "SELECT name, avg(x) AS mean FROM s WHERE x < 1e9 GROUP BY name HAVING avg(x) > 180 AND name <> 'n7'",
    "SELECT name FROM s GROUP BY name HAVING count(*) FILTER (WHERE flag) >= 80",
    "SELECT flag FROM s GROUP BY flag",
    "SELECT name, first(k ORDER BY ts, _seq) AS one, arg_max(x, ts) AS other, last(name) FROM s "
    "WHERE flag GROUP BY name",
    "SELECT name, max(k) FROM s WHERE k < 0 GROUP BY name",
    "SELECT max(x / 2 + 1) AS half FROM s WHERE k < 2000 AND flag",
]
BY_DUCKDB = [
    "SELECT name, sum(k) FROM s GROUP BY name",
    "SELECT name, count(DISTINCT k) FROM s GROUP BY name",
    "SELECT name, max(k) FROM s GROUP BY name ORDER BY name NULLS FIRST",
    "SELECT name, max(k) + 1 FROM s GROUP BY name",
    "SELECT name, max(k) AS most FROM s GROUP BY name HAVING most > 2990",
    "SELECT upper(name), max(k) FROM s GROUP BY ALL",
    "SELECT max(name) FROM s WHERE flag",
    "SELECT max(m) FROM s WHERE k > 10 AND flag",
    "SELECT name, flag, max(k) FROM s GROUP BY CUBE (name, flag)",
    'SELECT max(k), max(k) AS "MAX(k)" FROM s WHERE flag',
    "SELECT max(n) FROM (SELECT name, count(*) AS n FROM s GROUP BY name)",
    "SELECT max(k), count(*) FROM s WHERE k < 0",
]


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("timezone", ["UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("text", [*TOGETHER, *BY_DUCKDB])
def test_groups_are_those_of_duckdb(
    store: Store,
    plain: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    timezone: str,
) -> None:
    plain.execute(f"SET TimeZone = '{timezone}'")
    expected = plain.sql(text.replace(", _seq", ", k")).to_arrow_table()
    result = store.sql(text, timezone=timezone)
    with monkeypatch.context() as patched:
        if text in TOGETHER:
            assert result.schema == expected.schema
            patched.setattr(Query, "opened", None)  # DuckDB is not needed
        found = result.arrow()
    assert found.schema == expected.schema
    if "ORDER BY 2" in text or "ORDER BY b" in text:
        assert str(found.to_pylist()) == str(expected.to_pylist())
    assert rows_of(found) == rows_of(expected)
    assert sorted(map(str, result.fetchall())) == sorted(map(str, plain.sql(text.replace(", _seq", ", k")).fetchall()))


def test_what_is_read_is_told(store: Store) -> None:
    lines = [line for (line,) in store.sql("EXPLAIN ANALYZE SELECT flag, max(k) FROM s GROUP BY flag").fetchall()]
    assert lines[0] == "s: from the events, put together in groups by flag, without DuckDB"
    assert "read 3,000 events" in lines[1]


def test_more_events_than_were_expected_are_for_duckdb(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    at = [*np.repeat(np.arange(10), 50).tolist(), 1_000_000]
    store.create_stream("dense", time="ts", data=pa.table({"ts": at, "x": [k % 3 for k in range(len(at))]}))
    monkeypatch.setattr(few, "_MOST_ROWS", 100)
    text = "SELECT x, count(*) AS n FROM dense WHERE ts < 10 GROUP BY x"
    result = store.sql(text)
    assert any("without DuckDB" in each.way for each in result._query.relations.values())
    assert sorted(result.arrow().to_pylist(), key=str) == [{"x": 0, "n": 167}, {"x": 1, "n": 167}, {"x": 2, "n": 166}]


def test_keys_that_are_nearly_all_different_are_for_duckdb(store: Store) -> None:
    count = 20_000
    keys = [k * 100_003 % 1_000_000_007 for k in range(count)]
    store.create_stream("keyed", time="ts", data=pa.table({"ts": range(count), "key": keys}))
    found = store.sql("SELECT key, count(*) AS n FROM keyed GROUP BY key").arrow()
    assert sorted(found["key"].to_pylist()) == sorted(keys)
    assert set(found["n"].to_pylist()) == {1}


def test_each_fetch_is_of_the_moment_of_the_call(store: Store) -> None:
    stream = store.create_stream("growing", time="ts", data=pa.table({"ts": [1, 2], "x": ["a", "b"]}))
    result = store.sql("SELECT x, count(*) AS n FROM growing GROUP BY x")
    stream.append(pa.table({"ts": [3], "x": ["c"]}))
    assert result.arrow().num_rows == result.arrow().num_rows == len(result.fetchall()) == 2


def test_groups_end_with_the_store(tmp_path_factory: pytest.TempPathFactory) -> None:
    with tidelog.open(tmp_path_factory.mktemp("ended")) as opened:
        opened.create_stream("s", time="ts", data=pa.table({"ts": [1, 2], "x": ["a", "b"]}))
        result = opened.sql("SELECT x, count(*) AS n FROM s GROUP BY x")
    with pytest.raises(ClosedError):
        result.arrow()

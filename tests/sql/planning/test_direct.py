"""Plain columns of one stream are read without DuckDB, and are what DuckDB gives."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.model.errors import ClosedError
from tidelog.sql.errors import SqlError

ROWS = 3000
FIRST = datetime(2026, 1, 1)


def events() -> pa.Table:
    return pa.table(
        {
            "ts": pa.array([FIRST + timedelta(seconds=k // 2) for k in range(ROWS)], pa.timestamp("us")),
            "k": pa.array(range(ROWS), pa.int32()),
            "x": [None if k % 7 == 0 else float("nan") if k % 11 == 0 else k / 8 for k in range(ROWS)],
            "Name": [None if k % 5 == 0 else f"n{k % 13}" for k in range(ROWS)],
            "flag": [None if k % 9 == 0 else k % 2 == 0 for k in range(ROWS)],
            "zoned": pa.array([FIRST + timedelta(minutes=k) for k in range(ROWS)], pa.timestamp("us", "UTC")),
            "ns": pa.array([1_700_000_000_000_000_000 + k for k in range(ROWS)], pa.timestamp("ns")),
            "d": [date(2026, 1, 1 + k % 28) for k in range(ROWS)],
            "m": pa.array([Decimal(k) / 4 for k in range(ROWS)], pa.decimal128(12, 2)),
            "blob": [bytes([k % 256]) for k in range(ROWS)],
            "small": pa.array([k % 100 for k in range(ROWS)], pa.uint8()),
        }
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("direct") / "store", maintenance="manual") as opened:
        stream = opened.create_stream("s", time="ts", data=events().slice(0, 2000), leaf_rows=128)
        stream.append(events().slice(2000))
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("given", events())
        connection.execute("CREATE TABLE s AS FROM given")
        yield connection


DIRECT = [
    "SELECT * FROM s",
    "SELECT * FROM s ORDER BY ts",
    "SELECT k, x, name, flag FROM s WHERE k BETWEEN 100 AND 2500 AND x > 20",
    "SELECT k AS a, a.NAME AS b FROM s AS a WHERE a.name = 'n3' OR a.flag",
    "SELECT ts, k FROM s WHERE ts >= '2026-01-01 00:10:00' AND name IN ('n1', 'n2') AND x IS NOT NULL",
    "SELECT ts, k FROM s WHERE x <> 4 AND NOT flag",
    "SELECT k FROM s WHERE k < 0",
    "SELECT k FROM s WHERE name LIKE 'n1%'",
    "SELECT zoned, ns, d, m FROM s WHERE d = DATE '2026-01-05'",
    "SELECT ts, zoned FROM s WHERE zoned >= '2026-01-02 00:00:00' AND zoned < '2026-01-02 02:00:00'",
]
ENDS = [
    ("SELECT k, ts FROM s ORDER BY ts DESC LIMIT 10", [2999 - n for n in range(10)]),
    ("SELECT k, ts FROM s ORDER BY ts DESC, _seq DESC LIMIT 3", [2999, 2998, 2997]),
    ("SELECT k FROM s ORDER BY ts LIMIT 4", [0, 1, 2, 3]),
    ("SELECT k FROM s WHERE name = 'n4' ORDER BY ts DESC LIMIT 2", [2994 - 13, 2994 - 26]),
    ("SELECT k FROM s LIMIT 0", []),
]
BY_DUCKDB = [
    "SELECT k + 1 FROM s",
    "SELECT k, k FROM s",
    "SELECT * EXCLUDE (k) FROM s",
    "SELECT DISTINCT flag FROM s",
    "SELECT k FROM s ORDER BY k LIMIT 5",
    "SELECT k FROM s ORDER BY ts DESC",
    "SELECT k FROM s ORDER BY ts LIMIT 5 OFFSET 3",
    "SELECT k FROM s WHERE round(x) = 5",
    "SELECT count(*) FROM s",
    "SELECT k FROM s UNION ALL SELECT k FROM s",
    "SELECT k FROM (SELECT DISTINCT k FROM s)",
    "SELECT a.k FROM s AS a, s AS b WHERE a.k = b.k",
    "SELECT k AS ts FROM s ORDER BY ts LIMIT 5",
    "SELECT k FROM s USING SAMPLE 10%",
]


def is_direct(store: Store, text: str) -> bool:
    return "without DuckDB" in store.sql(f"EXPLAIN {text}").fetchall()[0][0]


@pytest.mark.parametrize("timezone", ["UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("text", DIRECT)
def test_rows_are_those_of_duckdb(store: Store, plain: duckdb.DuckDBPyConnection, text: str, timezone: str) -> None:
    assert is_direct(store, text)
    plain.execute(f"SET TimeZone = '{timezone}'")
    expected = plain.sql(text).to_arrow_table()
    result = store.sql(text, timezone=timezone)
    found = result.arrow()
    assert found.schema == expected.schema == result.schema
    assert str(found.to_pylist()) == str(expected.to_pylist())
    batches = list(result.reader(batch_rows=100))
    assert max((batch.num_rows for batch in batches), default=0) <= 100
    assert str(pa.Table.from_batches(batches, found.schema).to_pylist()) == str(expected.to_pylist())
    assert str(result.fetchall()) == str(plain.sql(text).fetchall())


@pytest.mark.parametrize(("text", "expected"), ENDS)
def test_rows_of_one_end(store: Store, text: str, expected: list[int]) -> None:
    if "name = 'n4'" in text:
        table = events()
        kept = [k for k, name in zip(table["k"].to_pylist(), table["Name"].to_pylist(), strict=True) if name == "n4"]
        expected = kept[:-3:-1]
    assert is_direct(store, text)
    assert store.sql(text).arrow()["k"].to_pylist() == expected


@pytest.mark.parametrize("text", BY_DUCKDB)
def test_what_is_more_than_a_scan_is_for_duckdb(store: Store, text: str) -> None:
    assert not is_direct(store, text)


def test_rows_are_those_of_the_moment(store: Store) -> None:
    version = store.sql("SELECT max(_seq) FROM s").fetchall()[0][0]
    text = f"SELECT k FROM s AT (VERSION => {version}) ORDER BY ts DESC LIMIT 1"
    assert is_direct(store, text)
    assert store.sql(text).arrow()["k"].to_pylist() == [ROWS - 2]


def test_what_was_read_is_told(store: Store) -> None:
    lines = [line for (line,) in store.sql("EXPLAIN ANALYZE SELECT k FROM s ORDER BY ts DESC LIMIT 5").fetchall()]
    assert lines[0] == "s: from the last 5 events, without DuckDB"
    assert "read 5 events" in lines[1]
    assert lines[-1].startswith("5 rows in ")


def test_a_result_of_a_closed_store(tmp_path: object) -> None:
    with tidelog.open(str(tmp_path)) as opened:
        opened.create_stream("s", time="ts", data=events())
        result = opened.sql("SELECT k FROM s LIMIT 5")
        assert result.arrow().num_rows == 5
    with pytest.raises(ClosedError, match="fetch results before the store is closed"):
        result.arrow()


def test_what_duckdb_refuses_is_refused_whatever_was_asked_before(tmp_path: Path) -> None:
    moments = pa.array([1_700_000_000_000_000_000 + k for k in range(10)], pa.timestamp("ns", "UTC"))
    rows = pa.table({"ts": moments, "only_here": range(10)})
    asked = (
        "SELECT * FROM s WHERE ts = TIMESTAMPTZ '2023-11-14 22:13:20+00' OR ts > TIMESTAMPTZ '2023-11-14 22:13:20+00'"
    )
    with duckdb.connect() as plain:
        plain.register("given", rows)
        plain.execute("CREATE TABLE s AS FROM given")
        with pytest.raises(duckdb.BinderException, match="Cannot compare"):
            plain.sql(asked)
    with tidelog.open(tmp_path / "store") as store:
        store.create_stream("s", time="ts", data=rows)
        assert store.sql("SELECT * FROM s WHERE only_here > 3").arrow().num_rows == 6
        for text in (asked, asked.replace("*", "count(*), sum(only_here / 2.0)")):
            with pytest.raises(SqlError, match="Cannot compare"):
                store.sql(text).arrow()

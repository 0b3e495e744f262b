"""Queries inside of expressions of row patterns, against DuckDB, which computes them as columns of the input."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tidelog
from tidelog.sql.errors import SqlError

MOMENT = datetime.datetime(2026, 1, 1, 12)
ROWS = pa.table(
    {
        "n": range(10),
        "v": [5, 3, None, 9, 2, 7, 1, 8, 7, 7],
        "s": ["a", "it's", None, "b", "a", "c", "", "a", "b", "c"],
        "d": pa.array([Decimal(at) / 4 for at in range(10)], pa.decimal128(10, 2)),
        "ns": pa.array([MOMENT + datetime.timedelta(microseconds=at) for at in range(10)], pa.timestamp("ns")),
        "f": [0.1, 0.2, 0.3, None, float("inf"), -0.0, 0.1, 0.30000000000000004, 1e300, 2.0],
    }
)
OTHERS = pa.table({"k": [2, 7, None], "s": ["a", "it's", None], "w": [3, 1, 2]})
TABLES = {"t": ROWS, "o": OTHERS, "none": OTHERS.slice(0, 0)}

CONDITIONS = [
    "v > (SELECT avg(v) FROM t)",
    "v > (SELECT k FROM none)",
    "v > (SELECT NULL)",
    "v IN (SELECT k FROM o)",
    "v NOT IN (SELECT k FROM o)",
    "v NOT IN (SELECT k FROM o WHERE k > 0)",
    "v IN (SELECT k FROM none)",
    "v NOT IN (SELECT k FROM none)",
    "v IN (SELECT CAST(NULL AS BIGINT))",
    "s IN (SELECT s FROM o)",
    "d IN (SELECT d + 0.25 FROM t WHERE n > 5)",
    "f IN (SELECT f FROM t WHERE n % 2 = 0)",
    "ns > (SELECT ns FROM t WHERE n = 3)",
    "ns IN (SELECT ns FROM t WHERE v = 7)",
    "EXISTS (SELECT 1 FROM o WHERE k = 2)",
    "NOT EXISTS (FROM o WHERE k = 2)",
    "(SELECT max(k) FROM o) IN (SELECT k FROM o) AND v > 2",
    "v > (SELECT last(k ORDER BY w DESC) FROM o)",
    "v > (WITH z AS (SELECT k FROM o) SELECT min(k) FROM z)",
    "v > (SELECT min(k) FROM o WHERE k IN (SELECT v FROM t))",
    *(f"v {sign} {word} ({rows})" for sign in ("=", "<>", "<", "<=", ">", ">=") for word in ("ANY", "ALL")
      for rows in ("SELECT k FROM o", "SELECT k FROM o WHERE k > 0", "SELECT 7", "SELECT k FROM none")),
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_condition_with_a_query(condition: str) -> None:
    """As if the condition was a column of the input; unknown is told from false."""
    clause = "MATCH_RECOGNIZE (ORDER BY n MEASURES ({}) AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A) {})"
    direct = f"SELECT n, m FROM t {clause.format(condition, f'DEFINE A AS {condition}')} ORDER BY n"
    assert tidelog.sql(direct, tables=TABLES).fetchall() == [
        (n, True if truth else None)
        for n, truth in tidelog.sql(f"SELECT n, ({condition}) FROM t ORDER BY n", tables=TABLES).fetchall()
    ]
    measured = f"SELECT n, m FROM t {clause.format(condition, '')} ORDER BY n"
    expected = tidelog.sql(f"SELECT n, ({condition}) FROM t ORDER BY n", tables=TABLES).fetchall()
    assert tidelog.sql(measured, tables=TABLES).fetchall() == expected


def test_queries_beside_what_depends_on_the_match() -> None:
    """In and around aggregates and navigations, of parameters and CTEs, with an event clause, and of no row."""
    text = """WITH c AS (SELECT k FROM o) SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n
        MEASURES (SELECT count(*) FROM c) AS three, sum(A.v + (SELECT min(k) FROM c)) AS sums, FIRST(n) AS begins,
            (SELECT max(m) FROM t MATCH_RECOGNIZE (
                ORDER BY n MEASURES RUNNING count(*) AS m PATTERN (X Y+) DEFINE Y AS v < PREV(v))) AS falls
        PATTERN (A*)
        DEFINE A AS sum(v) < (SELECT sum(k) FROM c) + $1 AND PREV(v) IS DISTINCT FROM (SELECT $1 + 3))"""
    assert tidelog.sql(text, [4], tables=TABLES).fetchall() == [
        (3, 12, 0, 2),
        (3, 15, 3, 2),
        (3, 9, 5, 2),
        (3, None, None, 2),
        (3, 10, 7, 2),
        (3, 9, 8, 2),
        (3, None, None, 2),
    ]


def test_moments_of_old_offsets_are_what_they_were() -> None:
    """Before there were zones, clocks were ahead by seconds as well."""
    days = [datetime.datetime(1850, 1, day, tzinfo=datetime.UTC) for day in (1, 2, 3)]
    tables = {"t": pa.table({"n": range(3), "moment": pa.array(days, pa.timestamp("us", "UTC"))})}
    text = """SELECT m FROM t MATCH_RECOGNIZE (ORDER BY n MEASURES moment - (SELECT moment FROM t WHERE n = 1) AS m
        PATTERN (A) DEFINE A AS moment IN (SELECT moment FROM t WHERE n > 0))"""
    found = tidelog.sql(text, tables=tables, timezone="Europe/Berlin").fetchall()
    assert found == [(datetime.timedelta(0),), (datetime.timedelta(days=1),)]


def test_values_that_only_duckdb_computes_need_no_column() -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY n
        MEASURES (SELECT TIME '01:02:03') AS time, [1, 2] AS list PATTERN (A) DEFINE A AS n > 7)"""
    assert tidelog.sql(text, tables=TABLES).fetchall() == 2 * [(datetime.time(1, 2, 3), [1, 2])]


def test_query_in_a_window() -> None:
    """Patterns of windows have them too."""
    text = """SELECT n, top OVER w, count(*) OVER w FROM t WINDOW w AS (ORDER BY n
        MEASURES (SELECT max(k) FROM o) AS top
        ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A+) DEFINE A AS v IN (SELECT k FROM o)) ORDER BY n"""
    found = tidelog.sql(text, tables=TABLES).fetchall()
    assert [row for row in found if row[2]] == [(4, 7, 2), (8, 7, 2)]


def test_stream_is_asked_at_the_moment_of_the_statement(tmp_path: Path) -> None:
    """Rows that come later are in neither; what arrives is not asked at all; the index prunes by the answer."""
    schema = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("v", pa.int64())])
    condition = "DEFINE A AS v > (SELECT avg(v) + 1000 FROM s)"
    clause = f"FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES A.ts AS a PATTERN (A X) WITHIN 5 {condition})"
    with tidelog.open(tmp_path) as store:
        stream = store.create_stream("s", schema, "ts")
        stream.append({"ts": range(50_000), "v": [5000 if at == 40_000 else at % 3 for at in range(50_000)]})
        result = store.sql(f"SELECT a {clause}")
        plan = "\n".join(row[0] for row in store.sql(f"EXPLAIN SELECT a {clause}").fetchall())
        assert "1 stretches of time" in plan
        stream.append({"ts": [60_000, 60_001], "v": [10**9, 10**9]})
        assert result.fetchall() == [(40_000,)]
        with pytest.raises(SqlError, match="its answer would change") as caught:
            store.subscribe(f"SELECT * {clause} AS m")
        assert caught.value.position == f"SELECT * {clause}".index("(SELECT avg")

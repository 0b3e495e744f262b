"""Event clauses give on Spark the rows that ``store.sql`` gives."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
import tidelog.spark as tl
from tidelog.sql.errors import SqlError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us")), ("k", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("small", pa.uint8())]
)
BEGIN = 1_700_000_000_000_000

STATEMENTS = [
    "SELECT k, window_start, window_end, count(*) AS rows, sum(x) AS s, first(n) AS f, max(small) AS m FROM a "
    "GROUP BY k, window(ts, '1 minute', '20 seconds')",
    "SELECT window_start, count(*) AS rows, last(k) AS l FROM a WHERE x > 3 GROUP BY window(ts, '1 minute') "
    "HAVING count(*) > 3 ORDER BY 1",
    "SELECT window_end, sum(n) AS s FROM a GROUP BY window(ts, '1 minute', empty := true)",
    "SELECT k, window_start, window_end, sum(x) AS s, first(small) AS f FROM a GROUP BY k, count_window(20, 7)",
    "SELECT upper(k) AS u, window_start, window_end, sum(x + n) AS s FROM a "
    "GROUP BY upper(k), session_window(ts, '2 seconds')",
    "SELECT rows, count(*) AS windows FROM (SELECT k, count(*) AS rows FROM a GROUP BY k, window(ts, '1 minute')) w "
    "JOIN given USING (k) GROUP BY rows",
    "SELECT a.k, v, w, rows, s FROM (SELECT k, second_largest(n) AS v, count(*) AS rows FROM a WHERE x > 1 GROUP BY k) "
    "AS a JOIN (SELECT upper(k) AS u, second_largest(x + n) AS w, sum(n) AS s FROM a GROUP BY ALL HAVING s > 5) "
    "ON upper(a.k) = u",
    "SELECT epoch_ns(window_start) AS w, sum(n) AS s FROM exact GROUP BY window(ts, '1 minute')",
    "SELECT l.k, l.x, r.x AS y, l.ts, r.ts AS other FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => l.k = r.k, "
    "LEFT => '2 seconds', RIGHT => 5 ROWS)",
    "SELECT l.n, r.n AS m FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => l.n < r.n, LEFT => '1 second', "
    "RIGHT => '1 second') WHERE r.n > 3",
    "SELECT m.k, count(*) AS rows, sum(n) AS s FROM LOGICAL_MERGE((SELECT ts, k, n FROM a WHERE n > 1), "
    "TABLE (SELECT ts, k, n FROM b), (SELECT ts, k, n FROM a WHERE n < 4)) AS m GROUP BY m.k",
    "SELECT * FROM LOGICAL_MERGE(TABLE (SELECT ts, k FROM a), TABLE (SELECT k, ts FROM b), KEY => *)",
    "SELECT a.ts, a.k, b.x FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts",
    "SELECT a.ts, b.ts AS other FROM a ASOF LEFT JOIN b ON a.ts >= b.ts NEAREST TOLERANCE '1 second'",
    "SELECT window_start, window_end, k, n FROM HOP(TABLE a, DESCRIPTOR(ts), INTERVAL '30 seconds', "
    "INTERVAL '1 minute') WHERE n > 2",
    "SELECT count(*) AS rows, sum(x) AS s FROM given GROUP BY window(ts, '5 minutes')",
    "SELECT * FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES match_number() AS m, first(ts) AS f, "
    "last(D.x) AS x, count(D.*) AS n PATTERN (S D+ U) DEFINE D AS x < PREV(x), U AS x > PREV(x))",
    "SELECT k, sum(n) AS s FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY x DESC, n NULLS FIRST, ts, _seq "
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW PATTERN (A B{2}) DEFINE B AS n > A.n) "
    "JOIN (SELECT DISTINCT k FROM given) USING (k) GROUP BY k",
    "SELECT * FROM (SELECT ts, n, x FROM a WHERE n IS NOT NULL) MATCH_RECOGNIZE (ORDER BY ts, n, x MEASURES sum(B.n) "
    "AS s, classifier() AS c PATTERN (A B*? C) WITHIN INTERVAL '5 seconds' DEFINE A AS n > 2, C AS n = A.n)",
    "SELECT * FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, _seq MEASURES first(ts) AS f, count(*) AS rows "
    "PATTERN (A B C) SKIP TILL NEXT WITHIN '3 seconds' EMIT TIMEOUTS DEFINE B AS n > A.n, C AS n > B.n)",
    "SELECT * FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, _seq MEASURES (SELECT max(n) FROM b) AS top, "
    "count(*) AS rows PATTERN (A B+) DEFINE A AS x > (SELECT avg(x) FROM a), B AS n NOT IN (SELECT n FROM b WHERE n "
    "> 2) OR EXISTS (FROM b WHERE n > 1000))",
    "SELECT * FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts, _seq MEASURES (SELECT min(n) FROM given) AS top, "
    "count(*) AS rows PATTERN (A B+) DEFINE A AS k IN (SELECT k FROM given WHERE n > 1), B AS x > (SELECT avg(n) FROM "
    "given))",
    "SELECT * FROM a SITUATIONS (PARTITION BY upper(k), n > 100 DEFINE H AS n > 1, L AS x < 4 AT LEAST 2s PATTERN H "
    "overlaps | during | contains L WITHIN 2 minutes RETURN sum(H.n) AS s, L.end_time - H.start_time AS d, "
    "L.duration AS e, first(L.x) AS x, median(H.n) AS m, list(DISTINCT L.x ORDER BY L.x) AS l)",
    "SELECT h_is_open, count(*) AS matches, max(late) AS late FROM (SELECT ts, max(n) AS n, min(x) AS x FROM a "
    "GROUP BY ts) SITUATIONS (DEFINE H AS n > 1, L AS x < 4 PATTERN H before | meets L WITHIN 9s RETURN median(L.x) AS "
    "late MODE early) GROUP BY h_is_open",
    "SELECT * FROM (FROM a DEFINE H AS n > 4, L AS x < 2 BETWEEN 1s AND 1 minute RETURN count(*) AS rows) AS s",
    "SELECT * FROM exact MATCH_RECOGNIZE (ORDER BY ts MEASURES epoch_ns(B.ts) AS b PATTERN (A B) "
    "DEFINE A AS n % 7 = 1)",
    "SELECT *, count(*) OVER w AS rows, m OVER w, sum(n) OVER w AS s, first_value(x) OVER w AS f, c OVER seek, "
    "row_number() OVER seek AS number, list(a.n) OVER seek AS l FROM a WHERE x > 1 WINDOW w AS (PARTITION BY k "
    "ORDER BY ts, _seq MEASURES LAST(ts) AS m ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (S D+ U) "
    "DEFINE D AS x < PREV(x), U AS x > PREV(x)), seek AS (PARTITION BY k ORDER BY x, n NULLS FIRST, ts, _seq "
    "MEASURES classifier() AS c ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING AFTER MATCH SKIP TO NEXT ROW SEEK "
    "PATTERN (A B) DEFINE B AS n > A.n) QUALIFY f < 4 OR c OVER seek IS NULL",
    "SELECT max(n) AS n, count(m) AS matches, sum(rows) AS rows FROM (SELECT n, m OVER w, count(*) OVER w AS rows FROM "
    "exact WINDOW w AS (ORDER BY ts MEASURES epoch_ns(LAST(ts)) AS m ROWS BETWEEN CURRENT ROW AND n % 5 FOLLOWING "
    "PATTERN (A+)))",
    "SELECT time_bucket_gapfill('2 seconds', ts) AS t, k, locf(max(x)) AS m, interpolate(avg(x)) AS i, "
    "count(*) AS rows FROM a WHERE ts < TIMESTAMP '2023-11-14 22:15:00' GROUP BY 1, 2",
    "SELECT time_bucket_gapfill('3 seconds', ts) AS t, locf(min(n), INTERVAL '6 seconds') AS m FROM a "
    "WHERE ts BETWEEN '2023-11-14 22:13:00' AND '2023-11-14 22:15:00' GROUP BY 1 ORDER BY 1",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clauses") / "store"
    dice = np.random.default_rng(30)
    with tidelog.open(folder) as store:
        for name in ("a", "b"):
            store.create_stream(name, SCHEMA, time="ts").append(rows(dice, 400))
        exact = store.create_stream("exact", pa.schema([("ts", pa.timestamp("ns")), ("n", pa.int64())]), time="ts")
        exact.append({"ts": pa.array(np.arange(100) * 10**10 + 7, pa.timestamp("ns")), "n": np.arange(100)})
    return folder


def rows(dice: np.random.Generator, count: int) -> pa.Table:
    """Rows of ten minutes, with ties and nulls, in seconds."""
    return pa.table(
        {
            "ts": pa.array(np.sort(dice.integers(0, 600, count)) * 1_000_000 + BEGIN, pa.timestamp("us")),
            "k": pa.array([["a", "b", None][each] for each in dice.integers(0, 3, count)], pa.string()),
            "n": pa.array(dice.integers(-5, 6, count), pa.int64(), mask=dice.random(count) < 0.2),
            "x": pa.array(dice.integers(0, 60, count) / 8, pa.float64()),
            "small": pa.array(dice.integers(0, 200, count), pa.uint8()),
        },
        schema=SCHEMA,
    )


def values(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(map(plain, row.values()))) for row in table.to_pylist())


def plain(value: Any) -> Any:
    """Lengths of time as one kind of value."""
    if not isinstance(value, pa.MonthDayNano):
        return value
    assert not value.months
    return datetime.timedelta(days=value.days, microseconds=value.nanoseconds / 1000)


def asked(session: SparkSession, path: Path, text: str, **given: Any) -> DataFrame:
    return tl.sql(session, text, store=path, tables={"given": session.createDataFrame(given["given"])})


@pytest.mark.parametrize("text", STATEMENTS)
def test_clauses_give_what_a_store_gives(text: str, session: SparkSession, path: Path) -> None:
    given = rows(np.random.default_rng(31), 30).drop_columns("small")
    with tidelog.open(path, read_only=True) as store:
        expected = store.sql(text, tables={"given": given}).arrow()
    found = asked(session, path, text, given=given).toArrow()
    assert found.column_names == expected.column_names
    assert values(found) == values(expected)
    assert expected.num_rows > 0


def test_what_the_index_knows_needs_no_tasks(session: SparkSession, tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "store") as store:
        stream = store.create_stream("s", pa.schema([("ts", pa.int64()), ("n", pa.int64())]), time="ts")
        stream.append({"ts": np.arange(200_000), "n": np.arange(200_000) % 7})
        stream.flush()
        text = "SELECT window_start, sum(n) AS s FROM s GROUP BY window(ts, 50000)"
        expected = store.sql(text).arrow()
    found = tl.sql(session, text, store=tmp_path / "store")
    assert "MapInArrow" not in str(found._jdf.queryExecution().toString())
    assert values(found.toArrow()) == values(expected)


def test_row_patterns_of_a_data_frame(session: SparkSession) -> None:
    given = rows(np.random.default_rng(33), 200).drop_columns("small")
    clause = """PARTITION BY k ORDER BY ts, n, x MEASURES first(A.x) AS x, count(*) AS rows
        PATTERN (A B+) DEFINE B AS x >= $least"""
    statement = f"SELECT * FROM given MATCH_RECOGNIZE ({clause})"
    expected = tidelog.sql(statement, {"least": 2.5}, tables={"given": given}).arrow()
    frame = session.createDataFrame(given)
    assert values(tl.row_pattern(frame, clause, {"least": 2.5}).toArrow()) == values(expected)
    assert expected.num_rows > 5
    with pytest.raises(SqlError, match="Z"):
        tl.row_pattern(frame, "ORDER BY ts PATTERN (A) DEFINE A AS Z.x > 1")


def test_situations_of_a_data_frame(session: SparkSession) -> None:
    given = rows(np.random.default_rng(35), 200).drop_columns("small")
    seconds = pa.array(np.arange(200) * 1_000_000, pa.timestamp("us", "UTC"))  # which put rows in an order
    given = given.set_column(0, "ts", seconds)
    frame = session.createDataFrame(given)
    parts: dict[str, Any] = {"define": {"H": "n > 1", "L": "x < 4"}, "pattern": "H overlaps | during L", "within": "2m"}
    expected = tidelog.situations(given, **parts, partition_by="k", returns={"rows": "count(H.*)"}).arrow()
    found = tl.situations(frame, **parts, partition_by="k", returns={"rows": "count(H.*)"})
    assert values(found.toArrow()) == values(expected) != []
    text = "FROM t DEFINE H AS n > 1 AT MOST 9s, L AS x < 4 PATTERN H starts; overlaps; before L WITHIN 40s"
    by_text = tl.situations(frame, text, tasks=3)
    assert values(by_text.toArrow()) == values(tidelog.situations(given, text).arrow()) != []
    with pytest.raises(SqlError, match="did you mean 'n'") as raised:
        tl.situations(frame, "FROM t DEFINE H AS nn > 1")
    assert raised.value.position == 19
    with pytest.raises(tidelog.InputError, match="neither a query nor define"):
        tl.situations(frame)


def test_errors_are_those_of_the_clause(session: SparkSession, path: Path) -> None:
    with pytest.raises(SqlError, match="length below zero") as raised:
        tl.sql(session, "SELECT count(*) FROM a GROUP BY window(ts, '-1 hour')", store=path)
    assert raised.value.position == 32

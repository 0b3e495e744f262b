"""Statements that say the same in other forms read as little: subqueries and CTEs, names and places in ORDER BY, dates
as groups, and conditions whose other side the index tells."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tidelog.engine.store import Store
from tidelog.sql.errors import SqlError

ROWS = 20_000
LEAF = 100
START = 1_774_000_000_000_000
"""2026-03-20 09:46:40; in Berlin clocks are put forward on the 29th."""


def table(kind: pa.DataType) -> pa.Table:
    n = np.arange(ROWS)
    ticks = START + n * 60_000_000
    if kind.unit == "ns":  # some of which are rounded to the next day
        ticks = (ticks - START % 60_000_000) * 1000 + n // 1440 * 250 - 1000
    return pa.table({"ts": pa.array(ticks, pa.int64()).cast(kind), "n": n, "k": n % 7, "day": n % 3, "x": n / 4})


STREAMS = {
    "t": table(pa.timestamp("us")),
    "z": table(pa.timestamp("us", "UTC")),
    "ns": table(pa.timestamp("ns")),
    "nothing": table(pa.timestamp("us")).slice(0, 0),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with tidelog.open(tmp_path_factory.mktemp("forms"), maintenance="manual") as opened:
        for name, rows in STREAMS.items():
            opened.create_stream(name, rows.schema, time="ts", data=rows, leaf_rows=LEAF).flush()
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, rows in STREAMS.items():
            connection.register(f"given_{name}", rows)
            connection.execute(f"CREATE TABLE {name} AS FROM given_{name}")
        yield connection


def read(store: Store, plain: duckdb.DuckDBPyConnection, text: str, zone: str = "UTC") -> int:
    """Blocks of events that a statement reads, which has to give what DuckDB gives."""
    plain.execute(f"SET TimeZone = '{zone}'")
    expected = plain.sql(text).to_arrow_table()
    result = store.sql(text, timezone=zone)
    found = result.arrow()
    assert (found.schema, found.to_pylist()) == (expected.schema, expected.to_pylist()), text
    assert result.fetchall() == plain.sql(text).fetchall()
    relations = result._query.relations.values()
    return sum(reading.counters.leaves for relation in relations for reading in relation.readings)


FEW = [
    # one end of a stream
    "SELECT ts, n FROM (SELECT * FROM t) ORDER BY ts DESC LIMIT 5",
    "SELECT * FROM (FROM t) AS a ORDER BY a.ts DESC LIMIT 5",
    "WITH c AS (FROM t) SELECT * FROM c ORDER BY ts DESC LIMIT 5",
    "WITH c AS (FROM t), d AS (SELECT * FROM c) SELECT d.n, upper('a') FROM d ORDER BY d.ts DESC LIMIT 5",
    "SELECT n FROM (SELECT n, ts FROM (SELECT ts, n, x FROM t)) ORDER BY ts LIMIT 5",
    "SELECT n, ts FROM t ORDER BY 2 DESC LIMIT 5",
    "SELECT n, ts AS moment FROM t ORDER BY moment DESC LIMIT 5 OFFSET 3",
    # conditions
    "SELECT n FROM (SELECT * FROM t AS u WHERE u.x > 4990) WHERE k = 3 ORDER BY n",
    "SELECT count(n), median(x) FROM (SELECT * FROM t WHERE n > 19900) AS a WHERE a.x > 4000",
    "SELECT unnamed_subquery.n FROM (SELECT * FROM t) WHERE n > 19900 ORDER BY ALL",
    # what the index tells
    "SELECT * FROM t WHERE ts = (SELECT max(ts) FROM t)",
    "SELECT n FROM t WHERE ts > (SELECT max(ts) FROM t) - INTERVAL 1 HOUR ORDER BY n",
    "SELECT n FROM t WHERE ts >= (SELECT max(ts) - INTERVAL 1 HOUR FROM z)::TIMESTAMP ORDER BY n",
    "SELECT n FROM z WHERE ts >= (SELECT max(ts) - INTERVAL 1 HOUR FROM z) ORDER BY n",
    "SELECT n FROM ns WHERE ts >= (SELECT max(ts) FROM ns) - INTERVAL 1 HOUR ORDER BY n",
    "SELECT n FROM t WHERE x > (SELECT max(x) - 5 FROM t WHERE ts < (SELECT max(ts) FROM t)) ORDER BY n",
    "SELECT n FROM t WHERE ts > (SELECT max(ts) FROM nothing)",
    "SELECT a.n FROM t AS a WHERE a.ts > (SELECT max(ts) FROM t) - INTERVAL 1 HOUR "
    "AND a.k IN (SELECT k FROM t WHERE n > 19950) ORDER BY n",
]


@pytest.mark.parametrize("text", FEW)
def test_few_blocks_are_read(store: Store, plain: duckdb.DuckDBPyConnection, text: str) -> None:
    assert read(store, plain, text) <= 3


INDEXED = [
    "SELECT count(*), max(x) FROM (SELECT * FROM t)",
    "WITH c AS (SELECT n, ts FROM t WHERE ts >= '2026-03-21') SELECT max(n), count(*) FROM c WHERE c.ts < '2026-03-25'",
    "SELECT count(*) FROM t WHERE ts > (SELECT max(ts) FROM t) - INTERVAL 3 DAY",
    "SELECT ts::DATE AS d, count(*), max(x) FROM t GROUP BY d ORDER BY 2 DESC, 1 LIMIT 3",
    "SELECT ts::DATE, sum(n) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT CAST(t.ts AS DATE) AS ts, count(*) FROM t GROUP BY t.ts::DATE HAVING ts::DATE > '2026-03-22' ORDER BY 1",
    "SELECT strftime(ts::DATE, '%d'), min(n) FROM t GROUP BY ts::DATE ORDER BY ts::DATE DESC",
    "SELECT date_trunc('week', ts)::DATE AS w, avg(n) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT ts::DATE AS d, count(*), max(n) FROM z GROUP BY d ORDER BY d",
    "SELECT ts::DATE AS d, count(*), max(n) FROM ns GROUP BY d ORDER BY d",
    "SELECT date_trunc('day', ts) AS d, count(*), max(n) FROM ns GROUP BY d ORDER BY d",
    "SELECT time_bucket('1 month', ts) AS d, count(*), max(n), min(n) FROM ns GROUP BY d ORDER BY d",
    "SELECT time_bucket('12 hours', ts) AS d, count(*), sum(n) FROM ns GROUP BY d ORDER BY d",
    "SELECT date_trunc('day', ts) AS d, sum(sum(n)) OVER (ORDER BY date_trunc('day', ts)) AS so_far FROM t GROUP BY d "
    "ORDER BY d",
    "SELECT ts::DATE, count(*) - lag(count(*)) OVER (ORDER BY ts::DATE) AS more, rank() OVER (ORDER BY max(x) DESC), "
    "avg(n) FROM t WHERE ts >= '2026-03-21 05:00' GROUP BY ts::DATE HAVING count(*) > 3 ORDER BY more NULLS LAST, 1",
    "SELECT max(n), row_number() OVER (), sum(count(*)) OVER () FROM t",
    "SELECT date_trunc('week', ts) AS w, sum(n), 100 * sum(n) / sum(sum(n)) OVER () FROM z GROUP BY w ORDER BY w",
    "SELECT d, c - lag(c) OVER (ORDER BY d) FROM (SELECT ts::DATE AS d, count(*) AS c FROM t GROUP BY d) ORDER BY d",
]


@pytest.mark.parametrize("text", INDEXED)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_no_block_is_read(store: Store, plain: duckdb.DuckDBPyConnection, text: str, zone: str) -> None:
    assert read(store, plain, text, zone) == 0


OTHERS = [
    "SELECT day, count(*) FROM (SELECT ts::DATE AS day, n FROM t) GROUP BY day ORDER BY day",
    "SELECT day, count(*) FROM t GROUP BY day ORDER BY day",
    "SELECT k AS ts FROM t ORDER BY ts, n LIMIT 5",
    "SELECT n, k FROM t ORDER BY 2, 1 LIMIT 5",
    "SELECT max(n) FROM (SELECT n FROM t ORDER BY x LIMIT 10)",
    "SELECT max(n) FROM (SELECT DISTINCT n FROM t)",
    "SELECT max(k) FROM (SELECT n AS k, k AS n FROM t)",
    "SELECT max(k) FROM (SELECT k, n AS x, x AS n FROM t)",
    "SELECT count(*) FROM (SELECT n, ts FROM t) AS a, (SELECT n FROM t WHERE n < 2) AS b WHERE a.n = b.n",
    "WITH t AS (SELECT n + 1 AS n FROM t) SELECT max(n) FROM t",
    "WITH c AS (FROM t) SELECT (SELECT max(n) FROM c), min(x) FROM c WHERE n > 5",
    "WITH c AS MATERIALIZED (FROM t) SELECT max(n) FROM c WHERE x > 7",
    "WITH c AS (FROM t WHERE n < 10) SELECT n FROM (WITH c AS (FROM t WHERE n < 3) FROM c) UNION ALL FROM "
    "(SELECT n FROM c) ORDER BY 1",
    "SELECT x + 1 AS n FROM (SELECT * FROM t WHERE n > 19990) ORDER BY n",
    "SELECT n FROM t AS a WHERE n < 4 AND x = (SELECT max(b.x) FROM t AS b WHERE b.n = a.n) ORDER BY n",
    "SELECT n FROM t WHERE n < (SELECT min(n) + 3 FROM t WHERE x > 5) ORDER BY n",
    "SELECT count(*) FROM t WHERE x > (SELECT x FROM t WHERE n = 19990)",
    "SELECT a FROM (SELECT n, k FROM t WHERE n < 3) AS a ORDER BY a.n",
    "SELECT * FROM (SELECT x, n, ts, k, day FROM t) WHERE n < 3 ORDER BY n",
    "SELECT * FROM (SELECT TS, N, k, day, x FROM t) AS a WHERE n < 3 ORDER BY n",
    "SELECT a.* EXCLUDE (n) FROM (FROM t) AS a WHERE n < 3 ORDER BY n",
    "SELECT n FROM (SELECT n AS N FROM t WHERE n < 3) ORDER BY n",
    "SELECT N FROM (SELECT n FROM t WHERE n < 3) ORDER BY n",
    "SELECT max(COLUMNS('[nx]')) FROM (SELECT n, k FROM t) WHERE n < 3",
    "SELECT ts::DATE AS d, max(n) FROM t GROUP BY d QUALIFY row_number() OVER (ORDER BY d DESC) < 3 ORDER BY d",
    "SELECT ts::DATE AS d, median(x), sum(median(x)) OVER (ORDER BY ts::DATE), max(n), max(k), max(day) FROM t "
    "GROUP BY d ORDER BY d",
    "SELECT TRY_CAST(ts AS DATE) AS d, count(*) FROM t GROUP BY d ORDER BY d",
    "SELECT ts::DATE AS d, max(n) FROM t GROUP BY GROUPING SETS ((ts::DATE), ()) ORDER BY ALL",
    "SELECT ts::DATE AS d, k, max(n) FROM t GROUP BY ROLLUP (ts::DATE, k) ORDER BY ALL",
    "SELECT date_trunc('hour', ts)::DATE AS d, count(*) FROM t GROUP BY d ORDER BY d",
    "SELECT ts::DATE AS d, k, count(*) FROM t WHERE n > 19000 GROUP BY ALL ORDER BY ALL",
    "SELECT ts::DATE AS d, x::DATE IS NULL FROM (SELECT ts, ts AS x FROM t LIMIT 3) GROUP BY ALL",
]
"""What looks like one of these forms and is none, or gains nothing."""


@pytest.mark.parametrize("text", OTHERS)
def test_the_rows_of_other_forms(store: Store, plain: duckdb.DuckDBPyConnection, text: str) -> None:
    read(store, plain, text)
    read(store, plain, text, "Europe/Berlin")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x FROM (SELECT n FROM t)",
        "SELECT n FROM (SELECT n FROM t) WHERE x > 3",
        "SELECT t.n FROM (SELECT * FROM t) AS a",
        "SELECT n FROM (SELECT n, ts FROM t) ORDER BY k LIMIT 3",
        "SELECT n FROM t WHERE ts > (SELECT max(ts), 1 FROM t)",
    ],
)
def test_what_is_wrong_stays_wrong(store: Store, plain: duckdb.DuckDBPyConnection, text: str) -> None:
    with pytest.raises(duckdb.Error):
        plain.sql(text).fetchall()
    with pytest.raises(SqlError):
        store.sql(text).fetchall()

"""Continuous queries over streaming DataFrames give the rows of subscriptions, as far as time has come."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
import tidelog.spark as tl
from tidelog.sql.errors import SqlError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("n", pa.int64())])
LATENESS = 2_000_000
END = 10_000_000_000
"""When the last row comes, long after all others."""

QUERIES = [
    "SELECT k, window_start, window_end, count(*) AS rows, sum(n) AS s FROM a WHERE n > -4 "
    "GROUP BY k, window(ts, '1 minute', '20 seconds') HAVING count(*) > 1",
    "SELECT upper(k) AS u, window_end, count(*) AS rows, sum(n) AS s FROM a WHERE n <> 2 "
    "GROUP BY n % 2, upper(k), session_window(ts, '2 seconds') HAVING count(*) > 1",
    "SELECT l.k, l.n, r.n AS m, time FROM WINDOW_JOIN(TABLE a AS l, TABLE b AS r, ON => l.k = r.k, "
    "LEFT => '1 second', RIGHT => '2 seconds')",
    "SELECT k, window_end, count(*) AS rows, sum(n) AS s FROM LOGICAL_MERGE((SELECT ts, k, n FROM a), "
    "(SELECT ts, k, n FROM b), TABLE dead, KEY => *, DELAY => '1 minute') GROUP BY k, window(ts, '20 seconds')",
    "SELECT window_end, title, count(*) AS rows FROM (SELECT ts, k FROM a UNION ALL SELECT ts, k FROM b) AS u "
    "JOIN titles USING (k) GROUP BY title, window(ts, '1 minute')",
    "SELECT k, m, rows, match_time FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES match_number() AS m, "
    "count(*) AS rows PATTERN (A B+ C) WITHIN INTERVAL '20 seconds' DEFINE B AS n < A.n, C AS n > last(B.n))",
    'SELECT "upper(k)" AS k, s, m, match_time FROM a SITUATIONS (PARTITION BY upper(k) DEFINE H AS n > 1, L AS n < 4 '
    "AT LEAST 2s PATTERN H overlaps | during | meets L WITHIN 1 minute RETURN sum(H.n) AS s, median(L.n) AS m) WHERE "
    "s > 1",
    "SELECT situation, rows, start_time, end_time FROM (SELECT * FROM a WHERE n <> 0) DERIVE (DEFINE H AS n > 1, L AS "
    "n < 3 RETURN count(*) AS rows)",
    "SELECT k, rows, timed_out, match_time FROM a MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES count(*) AS "
    "rows PATTERN (A B C) SKIP TILL NEXT WITHIN '5 seconds' EMIT TIMEOUTS DEFINE B AS n < A.n, C AS n > B.n)",
]


def arriving(dice: np.random.Generator, count: int) -> pa.Table:
    """Rows of ten minutes, some of them late by less than the lateness, and one at the end."""
    times = np.sort(dice.integers(0, 600, count)) * 1_000_000
    times -= dice.integers(0, LATENESS, count) * (dice.random(count) < 0.3)
    times[-1] = END
    columns = {
        "ts": pa.array(times, SCHEMA.field("ts").type),
        "k": pa.array([["a", "b", None][each] for each in dice.integers(0, 3, count)], pa.string()),
        "n": pa.array(dice.integers(-5, 6, count), pa.int64(), mask=dice.random(count) < 0.2),
    }
    return pa.table(columns, schema=SCHEMA)


def streaming(session: SparkSession, folder: Path, table: pa.Table, parts: int = 2) -> DataFrame:
    """A stream of some micro-batches."""
    folder.mkdir()
    cuts = np.linspace(0, table.num_rows, parts + 1).astype(int).tolist()
    for number, (first, last) in enumerate(pairwise(cuts)):
        path = folder / f"{number}.parquet"
        pq.write_table(table.slice(first, last - first), path)
        os.utime(path, (1_000_000_000 + number,) * 2)
    source = session.readStream.schema("ts timestamp, k string, n bigint").option("maxFilesPerTrigger", 1)
    return source.parquet(str(folder)).withWatermark("ts", "2 seconds")


def ran(frame: DataFrame, folder: Path) -> tuple[pa.Table, Any]:
    """What a query gives for all that is there, and the query."""
    name = f"result_{folder.parent.name}_{folder.name}".replace("-", "_")
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return frame.sparkSession.table(name).toArrow(), query


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_queries_give_the_rows_of_subscriptions(number: int, session: SparkSession, tmp_path: Path) -> None:
    dice = np.random.default_rng(32)
    tables = {name: arriving(dice, 300) for name in ("a", "b")}
    tables["dead"] = tables["a"].slice(0, 10)
    titles = pa.table({"k": ["a", "b"], "title": ["one", "two"]})
    text = QUERIES[number]
    with tidelog.open(tmp_path / "store") as store:
        for name, table in tables.items():
            store.create_stream(name, SCHEMA, time="ts").append(table)
        with store.subscribe(text, follow=False, lateness="2s", tables={"titles": titles}) as rows:
            expected = pa.Table.from_batches(rows)
    frames = {name: streaming(session, tmp_path / name, own, 2 - (name == "dead")) for name, own in tables.items()}
    found, query = ran(tl.sql(session, text, tables={**frames, "titles": titles}), tmp_path / "checkpoint")
    times = [each for each in expected.column_names if pa.types.is_timestamp(expected.schema.field(each).type)]
    done = [row for row in expected.to_pylist() if row[times[-1]].timestamp() * 1e6 < END - LATENESS]
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, done))
    assert len(done) > 10
    told = [each.observedMetrics["tidelog"] for each in query.recentProgress if each.observedMetrics]
    assert sum(each["rows"] for each in told) >= 300
    assert not sum(each["late_rows"] for each in told)


def test_what_is_no_continuous_query_is_an_error(session: SparkSession, tmp_path: Path) -> None:
    frame = streaming(session, tmp_path / "in", arriving(np.random.default_rng(33), 10), 1)
    with pytest.raises(SqlError, match="found ORDER BY; a continuous query is") as raised:
        tl.sql(session, "SELECT window_end FROM t GROUP BY window(ts, '1 hour') ORDER BY 1", tables={"t": frame})
    assert raised.value.position is not None
    window = "(ORDER BY ts ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING PATTERN (A))"
    with pytest.raises(SqlError, match="found a row pattern in a window, instead of MATCH_RECOGNIZE") as raised:
        tl.sql(session, f"SELECT ts, count(*) OVER w AS n FROM t WINDOW w AS {window}", tables={"t": frame})
    assert raised.value.position == 51
    with pytest.raises(tidelog.SchemaError, match="no timestamp among its columns"):
        tl.sql(session, "SELECT count(*) FROM t GROUP BY window(n, 5)", tables={"t": frame.select("k", "n")})
    text = "SELECT window_end FROM t GROUP BY window(ts, '1 hour')"
    with pytest.raises(tidelog.InputError, match="did you mean 't'"):
        tl.sql(session, text, tables={"t": frame}, lateness={"tt": "5m"})

"""Windows over DataFrames, compared with Spark's own."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tidelog.spark as tl
from support.spark.arriving import CALLS, arriving

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OWN = "count(*) AS rows, sum(n) AS total, min(x) AS low"


@pytest.fixture(scope="module")
def rows(session: SparkSession) -> DataFrame:
    frame = session.createDataFrame(arriving(np.random.default_rng(45), 3000, jitter=0)).repartition(3)
    frame.createOrReplaceTempView("rows_of_windows")
    return frame


def values(frame: DataFrame) -> list[str]:
    columns = ["window_start", "window_end", "rows", "total", "low"]
    names = [name for name in frame.columns if name not in columns] + columns
    found = frame.selectExpr(*["CAST(total AS BIGINT) AS total" if name == "total" else name for name in names])
    return sorted(repr(tuple(row.values())) for row in found.toArrow().to_pylist())


ORIGIN = datetime.datetime(1970, 1, 1, 0, 0, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("window(ts, '1 minute')", {"size": "1m", "by": "k"}),
        ("window(ts, '1 minute', '20 seconds')", {"size": "1m", "slide": "20s", "by": "k"}),
        ("window(ts, '1 minute', '20 seconds', '5 seconds')", {"size": "1m", "slide": "20s", "origin": ORIGIN}),
        ("session_window(ts, '2 seconds')", {"gap": "2s", "by": "k"}),
        ("session_window(ts, '1 second')", {"gap": "1s"}),
    ],
)
def test_windows_are_those_of_spark(theirs: str, ours: dict[str, Any], session: SparkSession, rows: DataFrame) -> None:
    keys = "k, " if "by" in ours else ""
    name = theirs.partition("(")[0]
    expected = session.sql(
        f"SELECT {keys}{name}.start AS window_start, {name}.end AS window_end, {OWN} FROM rows_of_windows "
        f"GROUP BY {keys}{theirs}"
    )
    found = values(tl.window_aggregate(rows, CALLS, tasks=3, **ours))
    assert found == values(expected)
    assert len(found) > 5


def test_windows_of_a_calendar_and_of_rows(session: SparkSession, rows: DataFrame) -> None:
    days = tl.window_aggregate(rows, {"n": "count(*)"}, size="1d", zone="Europe/Berlin").collect()
    assert [(row.window_start.hour, row.n) for row in days] == [(23, 3000)]
    months = tl.window_aggregate(rows, {"n": "count(*)"}, size="1 month").collect()
    assert [(row.window_start.month, row.window_end.month, row.n) for row in months] == [(1, 2, 3000)]
    counted = tl.window_aggregate(rows, {"n": "count(*)"}, rows=100, slide=50, by="k")
    assert {row.n for row in counted.collect()} == {100}

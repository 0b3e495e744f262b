"""Operators over streams of Spark: late rows, what is told of them, how much state is written, and what goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidelog
import tidelog.spark as tl
from support.spark.arriving import CALLS, SECOND, arriving
from support.spark.micro_batches import put, run
from tidelog.operators.base import Shape
from tidelog.operators.conformance import in_time
from tidelog.operators.replaying import replay
from tidelog.operators.waiting import Waiting
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.timed import TimeWindows
from tidelog.spark.operators.columns import shape_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


COLUMNS = "ts timestamp, k string, n bigint, x double"


def stream(session: SparkSession, folder: Path) -> DataFrame:
    return session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))


def told(query: Any) -> dict[str, int]:
    found = [each.observedMetrics["tidelog"].asDict() for each in query.recentProgress if each.observedMetrics]
    return {name: sum(each[name] for each in found) for name in ("rows", "late_rows", "state_bytes")}


def ordered(shape: Shape, table: pa.Table) -> pa.RecordBatch:
    waiting = Waiting(shape)
    for batch in table.to_batches():
        waiting.add(pa.RecordBatch.from_arrays(batch.columns, schema=shape.schema))
    found = waiting.take(1 << 62)
    assert found is not None
    return found


def values(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in rows)


def test_late_rows_are_left_out_counted_and_handed_out(session: SparkSession, tmp_path: Path) -> None:
    """Without keys a row is late exactly where it is late everywhere; state outlives a query."""
    table = arriving(np.random.default_rng(40), 900, jitter=12)
    put(tmp_path / "in", [table.slice(0, 300), table.slice(300, 300)])
    frame = stream(session, tmp_path / "in")
    out = tl.window_aggregate(frame, CALLS, size="20s", slide="10s", lateness="5s", late="keep")
    first = told(run(out, tmp_path))
    put(tmp_path / "in", [table.slice(600)])
    second = told(run(out, tmp_path))  # another query, of the same checkpoint
    shape = shape_of(frame.schema, "ts")
    rows = pa.RecordBatch.from_arrays(table.combine_chunks().to_batches()[0].columns, schema=shape.schema)
    kept = pa.array(in_time(shape, rows, 5 * SECOND))
    late = table.num_rows - kept.true_count
    assert late > 20
    assert first["rows"] + second["rows"] == 900
    assert first["late_rows"] + second["late_rows"] == late
    windows = TimeWindows(shape, FixedFrames(20 * SECOND, 10 * SECOND), CALLS)
    found = session.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    expected = pa.Table.from_batches(replay(windows, [[ordered(shape, table.filter(kept))]])).to_pylist()
    over = max(table["ts"].cast(pa.int64()).to_pylist()) / SECOND - 5
    done = [row for row in expected if row["window_end"].timestamp() <= over]
    handed = [row["_late"]["input"] for row in found if row["_late"] is not None]
    assert values([row for row in found if row.pop("_late") is None]) == values(done)
    assert values(handed) == values(table.filter(pc.invert(kept)).to_pylist())


def test_windows_are_those_of_spark(session: SparkSession, tmp_path: Path) -> None:
    """Spark's own windows and sessions of the same stream, once rows of another day have ended all of them."""
    table = arriving(np.random.default_rng(46), 600, jitter=4)
    type_ = table["ts"].type
    # Windows that end by 1970 are over for Spark before they have begun.
    times = pc.add(table["ts"].cast(pa.int64()), 1000 * SECOND).cast(type_)
    table = table.set_column(0, "ts", times)
    far = table.slice(0, 1).set_column(0, "ts", pa.array([1 << 50]).cast(type_))
    put(tmp_path / "in", [table.slice(0, 300), table.slice(300), far])
    frame = stream(session, tmp_path / "in")
    for number, (theirs, ours) in enumerate(
        (
            ("window(ts, '20 seconds', '10 seconds')", {"size": "20s", "slide": "10s"}),
            ("session_window(ts, '2 seconds')", {"gap": "2s"}),
        )
    ):
        found = tl.window_aggregate(frame, CALLS, by="k", lateness="5s", tasks=2, **ours)
        frame.withWatermark("ts", "5 seconds").createOrReplaceTempView("arriving_rows")
        grouped = session.sql(
            f"SELECT k, {theirs} AS w, count(*) AS rows, sum(n) AS total, min(x) AS low FROM arriving_rows "
            "GROUP BY 1, 2"
        )
        own = grouped.selectExpr("k", "w.start AS window_start", "w.end AS window_end", "rows", "total", "low")
        both = []
        for name, each in (("ours", found), ("own", own)):
            run(each, tmp_path / f"{name}{number}")
            rows = session.read.parquet(str(tmp_path / f"{name}{number}" / "out")).where("year(window_start) < 2000")
            columns = ["k", "window_start", "window_end", "rows", "CAST(total AS BIGINT) AS total", "low"]
            both.append(values(rows.selectExpr(*columns).toArrow().to_pylist()))
        assert both[0] == both[1]
        assert len(both[0]) > 30


def test_state_is_written_once(session: SparkSession, tmp_path: Path) -> None:
    """Of each micro-batch at most four times its bytes are written, however much is waiting."""
    table = arriving(np.random.default_rng(41), 40_000, jitter=3)
    put(tmp_path / "in", [table.slice(first, 10_000) for first in range(0, 40_000, 10_000)])
    out = tl.window_aggregate(stream(session, tmp_path / "in"), CALLS, size="5m", slide="10s", by="k", lateness="4m")
    query = run(out, tmp_path)
    written = [each.observedMetrics["tidelog"]["state_bytes"] for each in query.recentProgress if each.numInputRows]
    assert len(written) == 4
    assert all(each <= 4 * table.nbytes / 4 for each in written), (written, table.nbytes / 4)
    assert told(query)["late_rows"] == 0


def test_another_query_cannot_go_on_with_a_state(session: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    put(tmp_path / "in", [arriving(np.random.default_rng(42), 50, jitter=0)])
    frame = stream(session, tmp_path / "in")
    run(tl.window_aggregate(frame, CALLS, size="20s", by="k", tasks=2), tmp_path)
    put(tmp_path / "in", [arriving(np.random.default_rng(43), 50, jitter=0)])
    with pytest.raises(StreamingQueryException, match="the checkpoint has the state of another query"):
        run(tl.window_aggregate(frame, CALLS, size="20s", by="k", tasks=3), tmp_path)
    with pytest.raises(
        StreamingQueryException, match=r"of another query, window_aggregate.*size='20s'.*; found .*'30s'"
    ):
        run(tl.window_aggregate(frame, CALLS, size="30s", by="k", tasks=2), tmp_path)
    asked = "SELECT k, window_end, {}(n) AS n FROM t GROUP BY k, window(ts, '20 seconds')"
    run(tl.sql(session, asked.format("max"), tables={"t": frame}, tasks=2), tmp_path / "text")
    put(tmp_path / "in", [arriving(np.random.default_rng(44), 50, jitter=0)])
    with pytest.raises(StreamingQueryException, match=r"of another query, SELECT .*max.*; found SELECT .*min\("):
        run(tl.sql(session, asked.format("min"), tables={"t": frame}, tasks=2), tmp_path / "text")


def test_what_cannot_be_run_is_refused(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    frame = stream(session, tmp_path / "in")
    table = session.createDataFrame(arriving(np.random.default_rng(44), 5, jitter=0))
    windows = partial(TimeWindows, frames=FixedFrames(5, 5), aggregates=CALLS)
    with pytest.raises(tidelog.SchemaError, match="has no column 'tz' for time; known are 'ts'"):
        tl.run_operator(table, windows, time="tz")
    with pytest.raises(tidelog.SchemaError, match="has no timestamp among its columns"):
        tl.run_operator(table.select("k", "n"), windows)
    with pytest.raises(tidelog.InputError, match="some inputs are streams, and others are not"):
        tl.run_operator([frame, table], lambda one, other: TimeWindows(one, FixedFrames(5, 5), CALLS))
    with pytest.raises(tidelog.InputError, match=r"expected one of size, .* gap, .* or rows"):
        tl.window_aggregate(table, CALLS)
    with pytest.raises(tidelog.InputError, match="found zone, which only windows of time have"):
        tl.window_aggregate(table, CALLS, gap="5s", zone="Europe/Berlin")
    with pytest.raises(tidelog.TidelogError, match="there is no column 'nope'"):
        tl.window_aggregate(table, "sum(nope)", size="5s")
    with pytest.raises(tidelog.SchemaError, match="the DataFrame has two columns 'K'"):
        tl.window_aggregate(table.selectExpr("*", "k AS K"), CALLS, size="5s", by="k")
    asked = "SELECT window_end FROM t GROUP BY window(ts, '5 seconds')"
    with pytest.raises(tidelog.SchemaError, match="table 't' has two columns 'K'"):
        tl.sql(session, asked, tables={"t": frame.selectExpr("*", "k AS K")})
    provider = "spark.sql.streaming.stateStore.providerClass"
    rocks = session.conf.get(provider)
    session.conf.unset(provider)
    try:
        with pytest.raises(tidelog.InputError, match="expected RocksDB"):
            tl.window_aggregate(frame, CALLS, size="5s")
    finally:
        session.conf.set(provider, str(rocks))

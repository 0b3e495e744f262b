"""Pipelines on Spark: every row once, in order, through restarts; what was dropped and what was late is counted."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tidelog
from tidelog.spark import pipeline as pl

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def drop_csv(folder: Path, name: str, rows: Sequence[tuple[float, int, float]]) -> None:
    """Put a file into a directory, complete from the moment it has its name."""
    lines = [f"{at(minute).isoformat()},{number},TIDE,{price}" for minute, number, price in rows]
    draft = folder / f".{name}"
    draft.write_text("\n".join(["at,id,symbol,price", *lines, ""]))
    draft.rename(folder / name)


def rows_of(folder: Path, stream: str) -> list[dict[str, Any]]:
    with tidelog.open(folder / "events") as store:
        assert store.check() == []
        found: list[dict[str, Any]] = store.stream(stream).scan().read_all().to_pylist()
        return found


def test_files_become_a_stream(session: SparkSession, good: pl.Pipeline, folder: Path) -> None:
    (folder / "incoming" / "a.csv").unlink()
    drop_csv(folder / "incoming", "1.csv", [(30, 1, 1.5), (31, 2, -1.0), (31, 3, 2.5)])
    drop_csv(folder / "incoming", "2.csv", [(30, 1, 1.5), (29, 4, 3.5)])  # a duplicate, and one out of order
    shown: list[Sequence[pl.Progress]] = []
    done = pl.run(good, session=session, once=True, watch=shown.append)
    assert not done.was_stopped
    trades, archive = done.sinks
    assert (trades.state, trades.rows_read, trades.duplicates) == ("done", 4, 1), (
        "Spark's CSV reader applies the filter"
    )
    assert archive.rows_read == 4
    assert shown[-1] == list(done.sinks)
    expected = [(29, 4, 3.5), (30, 1, 1.5), (31, 3, 2.5)]
    rows = rows_of(folder, "trades")
    assert [(row["at"], row["id"], row["price"]) for row in rows] == [(at(m), n, p) for m, n, p in expected]
    assert {row["name"] for row in rows} == {"Tide Ltd"}
    with tidelog.open(folder / "events") as store:
        assert store.stream("trades").options.retention == "30d"
    assert pq.read_table(folder / "archive").num_rows == 4

    # More arrives: too late for the watermark, late, and in time. The rest was read before, and is not read again.
    drop_csv(folder / "incoming", "3.csv", [(5, 5, 1.0), (25, 6, 1.0), (32, 7, 1.0)])
    again = pl.run(good, session=session, once=True).sinks[0]
    assert (again.rows_read, again.dropped, again.late) == (3, 1, 0)
    assert [row["id"] for row in rows_of(folder, "trades")] == [6, 4, 1, 3, 7]


def test_late_rows_are_counted(session: SparkSession, good: pl.Pipeline, folder: Path) -> None:
    sink = replace(good.sinks[0], input="valid", compaction="commit")
    plain = replace(good, sinks=[sink])
    drop_csv(folder / "incoming", "1.csv", [(100, 1, 1.0)])
    pl.run(plain, session=session, once=True)
    drop_csv(folder / "incoming", "2.csv", [(89, 2, 1.0), (91, 3, 1.0), (80, 4, 1.0), (120, 5, 1.0)])
    assert pl.run(plain, session=session, once=True).sinks[0].late == 2, "by more than ten minutes"


def views(session: SparkSession) -> set[str]:
    """The temporary views of a session."""
    return {view.name for view in session.catalog.listTables() if view.isTemporary}


def test_a_pipeline_is_stopped_between_batches(session: SparkSession, good: pl.Pipeline, folder: Path) -> None:
    """Rows keep coming while it runs; stopped, and started again, it has missed none."""
    before = views(session)
    stop = threading.Event()
    dropped = 0

    def watch(sinks: Sequence[pl.Progress]) -> None:
        nonlocal dropped
        if dropped < 3 and all(each.rows_read >= dropped + 1 for each in sinks):
            dropped += 1
            drop_csv(folder / "incoming", f"{dropped}.csv", [(dropped, dropped + 1, 1.0)])
        elif dropped == 3:
            stop.set()

    fast = replace(good, trigger="0s", sinks=[replace(each, trigger=None) for each in good.sinks])
    done = pl.run(fast, session=session, watch=watch, stop=stop)
    assert done.was_stopped
    assert {each.state for each in done.sinks} == {"done"}
    pl.run(fast, session=session, once=True)
    assert [row["id"] for row in rows_of(folder, "trades")] == [1, 2, 3, 4]
    assert views(session) == before


def stream_to_stream(folder: Path, **changes: Any) -> pl.Pipeline:
    sources = [
        pl.Source(
            name="readings",
            format="tidelog",
            path="events",
            stream="readings",
            watermark=pl.Watermark(column="at", delay="1s"),
            options={"maxRowsPerBatch": 50},
        )
    ]
    sql = """
        SELECT window(at, '10 seconds').start AS at, place, count(*) AS n, sum(v) AS total
        FROM readings GROUP BY window(at, '10 seconds'), place
    """
    sinks = [pl.Sink(name="sums", input="sums", path="events", stream="sums", time="at")]
    given = {"sources": sources, "steps": [pl.Sql(name="sums", sql=sql)], "sinks": sinks, **changes}
    return pl.Pipeline(name="sums", checkpoint="state", base=str(folder), **given)


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "events") as store:
        schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("place", pa.string()), ("v", pa.int64())])
        store.create_stream("readings", schema, "at").append(
            {"at": [at(n / 60) for n in range(120)], "place": [f"p{n % 2}" for n in range(120)], "v": list(range(120))}
        )
    return tmp_path


def test_windows_over_a_stream_equal_a_recount(session: SparkSession, readings: Path) -> None:
    done = pl.run(stream_to_stream(readings), session=session, once=True).sinks[0]
    assert (done.batches, done.rows_read, done.behind, done.dropped) == (3, 120, 0, 0)
    found = {(row["at"], row["place"]): (row["n"], row["total"]) for row in rows_of(readings, "sums")}
    expected: dict[Any, tuple[int, int]] = {}
    for n in range(120):
        key = (at(n // 10 / 6), f"p{n % 2}")
        count, total = expected.get(key, (0, 0))
        expected[key] = (count + 1, total + n)
    # The newest event is of second 119, so everything that ends before second 118 is final.
    assert found == {key: value for key, value in expected.items() if key[0] < at(110 / 60)}


def test_tables_are_written_by_one_job_a_run(session: SparkSession, readings: Path) -> None:
    """Rows that do not keep arriving: a run that was killed behind its commit writes nothing the second time."""
    table = replace(stream_to_stream(readings).sources[0], streaming=False, watermark=None, options={})
    sql = "SELECT at, place, v FROM readings WHERE v < 5"
    sink = pl.Sink(name="copy", input="sums", path="events", stream="copy", time="at")
    made = stream_to_stream(readings, sources=[table], steps=[pl.Sql(name="sums", sql=sql)], sinks=[sink])
    assert pl.run(made, session=session).sinks[0].state == "done"
    assert len(rows_of(readings, "copy")) == 5
    (readings / "state/jobs/copy.json").write_text(json.dumps({"started": 1, "done": 0}))
    pl.run(made, session=session)
    assert len(rows_of(readings, "copy")) == 5
    pl.run(made, session=session)
    assert len(rows_of(readings, "copy")) == 10, "a run of its own adds its rows"


def test_what_spark_refuses_is_told_at_its_step(session: SparkSession, readings: Path) -> None:
    made = stream_to_stream(readings, steps=[pl.Sql(name="sums", sql="SELECT at, v / place.x AS q FROM readings")])
    with pytest.raises(pl.PipelineError, match=r"^steps.sums: Spark refuses this: .*place"):
        pl.run(made, session=session)


def test_a_query_that_fails_is_told_with_its_sink(session: SparkSession, readings: Path) -> None:
    step = pl.Sql(name="sums", sql="SELECT at, CAST(raise_error('boom') AS bigint) AS v FROM readings")
    made = stream_to_stream(readings, steps=[step])
    with pytest.raises(pl.PipelineFailedError, match=r"sink 'sums' failed: .*boom"):
        pl.run(made, session=session, once=True)
    assert rows_of(readings, "sums") == []

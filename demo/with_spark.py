"""The same store in Spark: a job reads what an embedded writer wrote, and writes what an embedded reader reads."""

from __future__ import annotations

import datetime
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import Progress

import tidelog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES = "minutes"


def show_spark(directory: Path, stream: str, events: int, progress: Progress) -> dict[str, str]:
    """Have Spark sum the stream up by minutes into a new one, and compare; returns what to say about it."""
    if find_spec("pyspark") is None:
        return {"Spark": "not shown, for PySpark is not installed: pip install 'tidelog[spark]'"}
    from tidelog import spark as ts

    task = progress.add_task("starting Spark", total=None)
    try:
        session = _quiet_session()
    except ts.JavaNotFoundError as error:
        return {"Spark": f"not shown: {error}"}
    try:
        progress.update(task, description="Spark reads, sums up by minutes and writes")
        began = time.perf_counter()
        readings = ts.read(session, directory, stream, columns=["ts", "s0"])
        in_minutes = readings.selectExpr("CAST(date_trunc('minute', ts) AS timestamp_ntz) AS minute", "s0").groupBy(
            "minute"
        )
        sums = in_minutes.agg({"*": "count", "s0": "max"}).toDF("minute", "events", "highest")
        ts.write(sums, directory, MINUTES, time="minute", partitions=2)
        spent = time.perf_counter() - began
    finally:
        session.stop()
    progress.update(task, description="comparing what Spark wrote")
    minutes = _compare(directory, stream, events)
    return {
        "read, summed up and written by a Spark job": f"{events:,} events into {minutes} minutes, {spent:.1f} s",
        "its stream, read without Spark": "each minute equal to what the index says",
    }


def _compare(directory: Path, stream: str, events: int) -> int:
    """Compare the minutes with aggregates of the stream they were made of; returns how many there are."""
    with tidelog.open(directory) as store:
        source = store.stream(stream)
        rows = store.stream(MINUTES).scan().read_all().to_pylist()
        for row in rows:
            start = row["minute"]
            expected = source.aggregate(start, start + datetime.timedelta(minutes=1), ["count(*)", "max(s0)"])
            if (row["events"], row["highest"]) != (expected["count(*)"], expected["max(s0)"]):
                raise SystemExit(f"Spark says {row}, the index says {expected}")
        if sum(row["events"] for row in rows) != events:
            raise SystemExit(f"the minutes have {sum(row['events'] for row in rows)} events, {events} were written")
        findings = store.check()
        if findings:
            raise SystemExit("\n".join(map(str, findings)))
    return len(rows)


def _quiet_session() -> SparkSession:
    """A session that writes nothing to the terminal, unless it cannot be started."""
    from tidelog import spark as ts

    with tempfile.TemporaryFile() as log:
        try:
            with _errors_to(log.fileno()):
                return ts.session(master="local[2]", app_name="tidelog demo", config={"spark.log.level": "OFF"})
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            raise


@contextmanager
def _errors_to(descriptor: int) -> Iterator[None]:
    """Have what this process, and those started meanwhile, write to standard error go elsewhere."""
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)

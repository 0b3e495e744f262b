"""A table there and back, and a few rows as a stream: ``python round_trip.py STORE FOLDER KIND``.

``KIND`` is ``cluster``, executors in processes of their own, or ``connect``, a client of a Spark Connect server. A
session of either kind needs a process of its own.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.core import DefaultChannelBuilder

import tidelog
from support.spark.session import SETTINGS
from tidelog import spark as ts
from tidelog.spark import pipeline as pl

KINDS: dict[str, dict[str, Any]] = {
    "cluster": {"master": "local-cluster[2,1,1024]"},
    "connect": {"remote": "local[2]"},
}


def refuse_relative_paths(session: SparkSession, folder: str) -> None:
    """They would lead into a directory that is removed with the session."""
    os.chdir(folder)
    frame = session.range(3).selectExpr("id AS t")
    calls: list[Callable[[], object]] = [
        lambda: ts.read(session, "store", "there"),
        lambda: ts.write(frame, "store", "there"),
        lambda: ts.aggregate(session, "store", "there", [(0, 1)], "count(*)"),
        lambda: ts.compact(session, "store", "there"),
        lambda: ts.rebuild(session, "store", "there"),
    ]
    for call in calls:
        with pytest.raises(tidelog.InputError, match=f"relative.*expected an absolute path, such as {folder}/store"):
            call()
    options = {"stream": "there", "checkpointLocation": f"{folder}/none"}
    rows = session.readStream.format("tidelog").options(stream="there").load(f"{folder}/store")
    plain: list[Callable[[], object]] = [
        lambda: session.read.format("tidelog").options(stream="there").load("store").count(),
        lambda: session.readStream.format("tidelog").options(stream="there").load("store").schema,
        lambda: frame.write.format("tidelog").options(stream="there").mode("append").save("store"),
        lambda: rows.writeStream.format("tidelog").options(**options).start("store").awaitTermination(600),
    ]
    for call in plain:
        with pytest.raises(PySparkException, match="the path 'store' is relative"):
            call()
    moved = replace(pipeline_of("store", "."), base=folder)
    with pytest.raises(pl.PipelineError) as caught:
        pl.run(moved, session=session)
    assert [each.path[-1] for each in caught.value.problems] == ["checkpoint", "path", "path"]
    with pytest.raises(pl.PipelineError, match="a Spark Connect server does not know to what"):
        pl.check(replace(moved, master="sc://localhost"))


def pipeline_of(path: str, folder: str) -> pl.Pipeline:
    """Copies the stream, duplicates dropped."""
    return pl.Pipeline(
        name="copy",
        checkpoint=f"{folder}/state",
        sources=[
            pl.Source(name="there", format="tidelog", path=path, stream="there", options={"maxRowsPerBatch": 600})
        ],
        steps=[pl.Sql(name="evens", sql="SELECT t, a FROM there WHERE t % 2 = 0")],
        sinks=[pl.Sink(name="evens", input="evens", path=path, stream="evens", time="t")],
        config={"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.shuffle.partitions": 3},
    )


def run_pipeline(session: SparkSession, path: str, folder: str) -> None:
    """Counted as without Connect; and the session is as it was afterwards."""
    before = {key: session.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")}
    done = pl.run(pipeline_of(path, folder), session=session, once=True)
    (sink,) = done.sinks
    assert (sink.state, sink.batches, sink.rows_read, sink.late) == ("done", 2, 1_000, 0), sink
    assert sink.busy_seconds > 0
    assert before == {key: session.conf.get(key) for key in before}
    assert "there" not in [table.name for table in session.catalog.listTables()]


def listen_elsewhere() -> int:
    """A port for the server that is free; its client asks there, too, instead of at the one that Spark always takes."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    return port


def main() -> None:
    path, folder, kind = sys.argv[1:]
    places = {
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
    if kind == "connect":
        places["spark.connect.grpc.binding.port"] = str(listen_elsewhere())
    session = ts.session(**KINDS[kind], config=SETTINGS | places)
    try:
        frame = session.range(0, 1_000, 1, 4).selectExpr("id AS t", "id % 7 AS a", "CAST(id AS string) AS name")
        ts.write(frame, path, "there", time="t", partitions=4)
        back = ts.read(session, path, "there", start=100, where="a = 3", columns=["name", "t"], partition_size=100)
        assert [(row.t, row.name) for row in back.orderBy("t").collect()] == [
            (number, str(number)) for number in range(100, 1_000) if number % 7 == 3
        ]
        answers = ts.aggregate(session, path, "there", [(0, 500), (None, None)], {"n": "count(*)", "top": "max(a)"})
        assert [tuple(row) for row in answers.collect()] == [(None, None, 1_000, 6), (0, 500, 500, 6)]
        asked = session.createDataFrame([(1, 5), (900, 2_000)], "lo bigint, hi bigint")
        answers = ts.aggregate(session, path, "there", asked, "sum(a)", start="lo", end="hi")
        assert sorted(row[2] for row in answers.collect()) == [10, sum(number % 7 for number in range(900, 1_000))]
        text = "SELECT a, count(*), (SELECT max(t) FROM there) FROM there JOIN odd USING (a) WHERE t < ? GROUP BY a"
        odd = session.createDataFrame([(1,), (3,)], "a bigint")
        found = ts.sql(session, text, [70], store=path, tables={"odd": odd}).collect()
        assert sorted(map(tuple, found)) == [(1, 10, 999), (3, 10, 999)]
        merged = ts.compact(session, path, "there")
        assert (merged.splits_before, merged.splits_after, merged.is_done) == (4, 1, True)
        assert ts.rebuild(session, path, "there", "second_largest(a)").splits == 1
        reading = session.readStream.format("tidelog").options(stream="there", maxRowsPerBatch=600, columns="t, a")
        writing = reading.load(path).writeStream.format("tidelog").trigger(availableNow=True)
        query = writing.options(stream="copy", time="t", checkpointLocation=f"{folder}/checkpoint").start(path)
        assert query.awaitTermination(600)
        with pytest.raises(tidelog.NotFoundError, match=r"did you mean 'there'\?"):
            ts.read(session, path, "their")
        if kind == "connect":
            refuse_relative_paths(session, folder)
            run_pipeline(session, path, folder)
    finally:
        session.stop()
    with tidelog.open(path) as store:
        copied = store.stream("copy").scan(columns=["t", "a"]).read_all()
        assert copied["t"].to_pylist() == list(range(1_000))
        assert copied["a"].to_pylist() == [number % 7 for number in range(1_000)]
        assert store.check() == []
        assert store.orphans() == []


if __name__ == "__main__":
    main()

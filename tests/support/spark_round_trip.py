"""A table there and back, and a few rows as a stream: ``python spark_round_trip.py STORE FOLDER KIND``.

``KIND`` is ``cluster``, executors in processes of their own, or ``connect``, a client of a Spark Connect server. A
session of either kind needs a process of its own.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

import tidelog
from support.spark import SETTINGS
from tidelog import spark as ts

KINDS: dict[str, dict[str, Any]] = {
    "cluster": {"master": "local-cluster[2,1,1024]"},
    "connect": {"remote": "local[2]"},
}


def main() -> None:
    path, folder, kind = sys.argv[1:]
    places = {
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
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
        merged = ts.compact(session, path, "there")
        assert (merged.splits_before, merged.splits_after, merged.is_done) == (4, 1, True)
        assert ts.rebuild(session, path, "there", "second_largest(a)").splits == 1
        reading = session.readStream.format("tidelog").options(stream="there", maxRowsPerBatch=600, columns="t, a")
        writing = reading.load(path).writeStream.format("tidelog").trigger(availableNow=True)
        query = writing.options(stream="copy", time="t", checkpointLocation=f"{folder}/checkpoint").start(path)
        assert query.awaitTermination(120)
        with pytest.raises(tidelog.NotFoundError, match=r"did you mean 'there'\?"):
            ts.read(session, path, "their")
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

"""How many events there are, without sending any of them to Spark."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidelog.spark.datasource.source import read
from tidelog.spark.jobs.aggregating import aggregate
from tidelog.store.manifest.sequence_set import SeqSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def count(
    spark: SparkSession,
    path: str | os.PathLike[str],
    stream: str,
    *,
    start: Any = None,
    end: Any = None,
    where: str | None = None,
    as_of: int | SeqSet | None = None,
) -> int:
    """How many events a stream has, or all streams of a pattern together; arguments are as for ``tidelog.spark.read``.

    What ``read(...).count()`` says too, but that one has every column of every row sent to Spark. Without ``where`` the
    index tells; with it, tasks read the columns that the condition is about.
    """
    if where is None:
        answers = aggregate(spark, path, stream, [(start, end)], {"n": "count(*)"}, as_of=as_of, ns="long")
        return sum(int(row.n) for row in answers.select("n").collect())
    frame = read(spark, path, stream, start=start, end=end, where=where, as_of=as_of, columns=[])
    return int(frame.count())

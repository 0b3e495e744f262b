"""Streams as tables of Spark against Spark's own Parquet and against what its interface for Python allows at best.

Full scans, one day out of a year, writing a frame, and the sink of a streaming query.
``python benchmarks/spark.py --help`` tells the options.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness import Bench, Bound, main
from questions.spark import reading, writing
from questions.spark.reading import ReadBounds
from questions.spark.writing import WriteBounds
from questions.spark.year import Year, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MILLION = 1_000_000
FULL, QUICK = 50 * MILLION, MILLION // 10
QUICK_REPETITIONS = 2

SCAN = ReadBounds(Bound(0.8, 0.9, FULL))
ONE_DAY = ReadBounds(Bound(0.9, 1.0, FULL), Bound(1.0, 1.0, FULL))
WRITE = WriteBounds(Bound(0.7, 1.0, FULL), Bound(0.8, 0.9, FULL))
STREAMING = WriteBounds(Bound(0.7, 1.0, FULL))


def ask(bench: Bench) -> None:
    """All questions about Spark, in one session and over the same readings."""
    if not any(map(bench.wants, (reading.SCAN, reading.ONE_DAY, writing.WRITE, writing.STREAMING))):
        return
    scratch = bench.workspace.fresh()
    bench.on_progress("starting Spark")
    with session(scratch) as spark:
        ask_in(bench, spark)
    bench.workspace.remove(scratch)


def ask_in(bench: Bench, spark: SparkSession) -> None:
    """All questions, in a session that is there."""
    year = Year.make(bench, spark, bench.size(FULL, QUICK))
    if bench.wants(reading.SCAN):
        reading.ask_scan(bench, year, SCAN)
    if bench.wants(reading.ONE_DAY):
        reading.ask_one_day(bench, year, ONE_DAY)
    if bench.wants(writing.WRITE):
        writing.ask_write(bench, year, WRITE)
    if bench.wants(writing.STREAMING):
        writing.ask_streaming(bench, year, STREAMING)
    year.remove(bench)


if __name__ == "__main__":
    sys.exit(main("spark", ask, quick_repetitions=QUICK_REPETITIONS))

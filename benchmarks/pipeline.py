"""Streams that Spark asks, keeps in order and feeds, against the same by Spark's own means over Parquet.

Aggregates of a thousand time ranges, the compaction of a thousand small splits, and pipelines from end to end; and a
thousand streams against one with a column for the key. ``python benchmarks/pipeline.py --help`` tells the options.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness import Bench, Bound, main
from questions.pipeline import compacting, many, ranges
from questions.spark import writing
from questions.spark.writing import WriteBounds
from questions.spark.year import Year, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MILLION = 1_000_000
FULL, FULL_PIPELINE = 50 * MILLION, 10 * MILLION
QUICK, QUICK_RANGES = MILLION // 5, 12 * MILLION
"""Joins take as much longer as there are more events; ranges are judged in a quick run too."""
QUICK_REPETITIONS = 2
MANY, QUICK_MANY = 1_000 * many.ROWS, 20 * many.ROWS

RANGES, RANGES_IN_SHORT = Bound(20, 40, FULL), Bound(8, 16, QUICK_RANGES)
COMPACTION = Bound(0.7, 1.0, FULL)
PIPELINE = WriteBounds(Bound(0.6, 0.9, FULL_PIPELINE))


def ask(bench: Bench) -> None:
    """All questions, in one session."""
    if not any(map(bench.wants, (ranges.RANGES, compacting.COMPACTION, writing.PIPELINE, many.MANY))):
        return
    scratch = bench.workspace.fresh()
    bench.on_progress("starting Spark")
    with session(scratch) as spark:
        ask_in(bench, spark)
    bench.workspace.remove(scratch)


def ask_in(bench: Bench, spark: SparkSession) -> None:
    """All questions, in a session that is there."""
    if bench.wants(ranges.RANGES):
        readings = ranges.Readings.make(bench, spark, bench.size(FULL, QUICK_RANGES))
        ranges.ask_ranges(bench, readings, RANGES_IN_SHORT if bench.quick else RANGES)
        bench.workspace.remove(readings.root)
    if bench.wants(compacting.COMPACTION):
        compacting.ask_compaction(bench, spark, bench.size(FULL, QUICK), COMPACTION)
    if bench.wants(writing.PIPELINE):
        year = Year.make(bench, spark, bench.size(FULL_PIPELINE, QUICK))
        writing.ask_pipeline(bench, year, PIPELINE)
        year.remove(bench)
    # Nothing of it is judged, and a quick run has a minute for the rest: there, only if it is asked for.
    if bench.wants(many.MANY) and (bench.only or not bench.quick):
        many.ask_many(bench, spark, bench.size(MANY, QUICK_MANY))


if __name__ == "__main__":
    sys.exit(main("pipeline", ask, quick_repetitions=QUICK_REPETITIONS))

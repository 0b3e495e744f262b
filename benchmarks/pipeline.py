"""Streams that Spark asks, keeps in order and feeds, against the same by Spark's own means over Parquet.

Aggregates of a thousand time ranges, the compaction of a thousand small splits, and pipelines from end to end.
``python benchmarks/pipeline.py --help`` tells the options.
"""

from __future__ import annotations

import sys

from harness import Bench, Bound, main
from questions.pipeline import compacting, ranges
from questions.spark import writing
from questions.spark.writing import WriteBounds
from questions.spark.year import Year, session

MILLION = 1_000_000
FULL, QUICK = 50 * MILLION, MILLION // 2
FULL_PIPELINE = 10 * MILLION

RANGES, QUICK_RANGES = Bound(20, 40, FULL), Bound(8, 16, QUICK)
COMPACTION = Bound(0.7, 1.0, FULL)
PIPELINE = WriteBounds(Bound(0.6, 0.9, FULL_PIPELINE))


def ask(bench: Bench) -> None:
    """All questions, in one session."""
    if not any(map(bench.wants, (ranges.RANGES, compacting.COMPACTION, writing.PIPELINE))):
        return
    scratch = bench.workspace.fresh()
    bench.on_progress("starting Spark")
    with session(scratch) as spark:
        if bench.wants(ranges.RANGES):
            readings = ranges.Readings.make(bench, spark, bench.size(FULL, QUICK))
            ranges.ask_ranges(bench, readings, QUICK_RANGES if bench.quick else RANGES)
            bench.workspace.remove(readings.root)
        if bench.wants(compacting.COMPACTION):
            compacting.ask_compaction(bench, spark, bench.size(FULL, QUICK), COMPACTION)
        if bench.wants(writing.PIPELINE):
            year = Year.make(bench, spark, bench.size(FULL_PIPELINE, QUICK))
            writing.ask_pipeline(bench, year, PIPELINE)
            year.remove(bench)
    bench.workspace.remove(scratch)


if __name__ == "__main__":
    sys.exit(main("pipeline", ask))

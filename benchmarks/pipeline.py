"""Pipelines on Spark from end to end, against the same by hand into Parquet.

``python benchmarks/pipeline.py --help`` tells the options.
"""

from __future__ import annotations

import sys

from harness import Bench, Bound, main
from questions.spark import writing
from questions.spark.writing import WriteBounds
from questions.spark.year import Year, session

MILLION = 1_000_000
FULL, QUICK = 10 * MILLION, MILLION // 2

PIPELINE = WriteBounds(Bound(0.6, 0.9, FULL))


def ask(bench: Bench) -> None:
    """All questions, in one session and over the same readings."""
    if not bench.wants(writing.PIPELINE):
        return
    scratch = bench.workspace.fresh()
    bench.on_progress("starting Spark")
    with session(scratch) as spark:
        year = Year.make(bench, spark, bench.size(FULL, QUICK))
        writing.ask_pipeline(bench, year, PIPELINE)
        year.remove(bench)
    bench.workspace.remove(scratch)


if __name__ == "__main__":
    sys.exit(main("pipeline", ask))

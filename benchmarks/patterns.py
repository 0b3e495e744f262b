"""Row patterns: what the search for them costs, in one sequence and many, skipping rows, with an index, on Spark.

``python benchmarks/patterns.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from formats.base import THREADS
from harness import Bench, Bound, main
from questions.patterns import clauses, engines, on_spark, partitions, sequences, stored, strategies

MILLION = 1_000_000
FULL, QUICK = 20 * MILLION, MILLION // 2
SKIPPING = MILLION // 5
ENGINES = MILLION

CONDITIONS = Bound(1 / 8, 1 / 3, FULL)
"""The rate of the search, against that of NumPy's evaluation of the conditions and copies of the measures' columns."""
REFERENCES = Bound(1 / 40, 1 / 20, FULL)
"""The same where conditions refer to earlier rows of the match."""
PARTITIONS = Bound(1 / 2, 1.0, FULL)
"""The rate of a statement with partitions, against Polars' stable sort and the search in one sequence."""
SELECTIVE = Bound(15, 50, FULL)
"""The rate of a selective pattern on a stored stream, against that over all rows."""
ON_SPARK = Bound(1 / 1.5, 1.0, FULL)
"""The rate of a pattern with partitions on Spark, against the same shuffle and sort."""

BESIDE = {engines.FLINK: Bound(50, 100, ENGINES), engines.SIDDHI: Bound(5, 10, ENGINES)}
"""The rate of the search, against engines that know sequences."""


def ask(bench: Bench) -> None:
    """All questions about row patterns."""
    pa.set_cpu_count(THREADS)
    events = bench.size(FULL, QUICK)
    wanted = [title for title in sequences.QUESTIONS if bench.wants(title)]
    if wanted or bench.wants(partitions.TITLE):
        table = clauses.rows(events)
        for title in wanted:
            sequences.ask(bench, table, title, REFERENCES if "references" in title else CONDITIONS)
        if bench.wants(partitions.TITLE):
            partitions.ask(bench, table, PARTITIONS)
        del table
    for strategy in clauses.STRATEGIES:
        for power in strategies.SIZES[:1] if bench.quick else strategies.SIZES:
            if bench.wants(strategies.title(strategy, power)):
                strategies.ask(bench, min(bench.size(SKIPPING, SKIPPING // 10), SKIPPING), strategy, power)
    if bench.wants(stored.TITLE):
        stored.ask(bench, events, SELECTIVE)
    if bench.wants(on_spark.TITLE):
        on_spark.ask(bench, events, ON_SPARK)
    for engine, bound in BESIDE.items():
        if bench.wants(engines.TITLES[engine]):
            engines.ask(bench, min(bench.size(ENGINES, ENGINES // 10), ENGINES), engine, bound)


if __name__ == "__main__":
    sys.exit(main("patterns", ask))

"""User-defined aggregates: what they cost when events are written, and how fast ranges are answered.

``python benchmarks/aggregates.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import data
from formats.base import THREADS
from harness import Bench, Bound, main
from questions.store import userdefined
from questions.store.archive import Archive

MILLION = 1_000_000
FULL, QUICK = 10 * MILLION, MILLION // 2

INGEST = Bound(0.5, 0.7, FULL)
"""With ten aggregates against without."""
GROWTH = Bound(1 / 1.5, 1 / 1.5, FULL)
"""Speed of range queries over the stream, against that over one of a tenth of its length."""
AGAINST_DUCKDB = Bound(10, 30, FULL)


def ask(bench: Bench) -> None:
    """All questions about user-defined aggregates."""
    pa.set_cpu_count(THREADS)
    events = bench.size(FULL, QUICK)
    if bench.wants(userdefined.INGEST):
        userdefined.ask_ingest(bench, data.table("sensor", events), INGEST)
    sizes = [max(1, events // 10), events]
    if any(bench.wants(userdefined.range_question(size)) for size in sizes):
        archive = Archive(bench)
        userdefined.ask_ranges(bench, archive, sizes, AGAINST_DUCKDB, GROWTH)
        archive.remove()


if __name__ == "__main__":
    sys.exit(main("aggregates", ask))

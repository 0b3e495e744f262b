"""Events that come late: how much that slows ingest down, and what it leaves behind for readers.

``python benchmarks/late.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import data
from formats.base import THREADS
from harness import Bench, Bound, main
from questions.late import arrivals, readers, strategies, writers

MILLION = 1_000_000
FULL, QUICK = 10 * MILLION, MILLION // 5

SHARES = (0.01, 0.05, 0.10, 0.50)
JUDGED_SHARE = 0.10
KINDS = (writers.INGEST, readers.SCAN, readers.AGGREGATES)
INGEST = Bound(0.5, 0.8, FULL)
"""The rate of ingest with a tenth of the events late, against that of the same events in order."""
READING = Bound(1 / 1.2, 1.0, FULL)
"""The speed of scans and aggregates afterwards, however many were late, against a store that was filled in order."""
DENSE = Bound(1.0, 1.5, FULL)
"""The rate of ingest with the densest regions merged first, against merging everything."""


def ask(bench: Bench) -> None:
    """All questions about late events."""
    pa.set_cpu_count(THREADS)
    events = bench.size(FULL, QUICK)
    wanted = [
        (shape, share)
        for shape in arrivals.SHAPES
        for share in ((JUDGED_SHARE,) if bench.quick else SHARES)
        if any(bench.wants(arrivals.title(kind, shape, share)) for kind in KINDS)
    ]
    if not wanted and not bench.wants(strategies.TITLE):
        return
    in_order = data.table("sensor", events).combine_chunks()
    for shape, share in wanted:
        late = arrivals.arrange(in_order, shape, share)
        kept = writers.ask(bench, in_order, late, shape, share, INGEST if share == JUDGED_SHARE else None)
        readers.ask(bench, kept, events, shape, share, READING)
    if bench.wants(strategies.TITLE):
        strategies.ask(bench, arrivals.arrange_in_bulks(in_order, 0.10), DENSE)


if __name__ == "__main__":
    sys.exit(main("late", ask))

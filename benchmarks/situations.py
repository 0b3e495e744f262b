"""Situations: what the search for patterns of them costs, when matches are known, in which order it is done.

``python benchmarks/situations.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from formats.base import THREADS
from harness import Bench, Bound, main
from questions.situations import latency, matching, orders, parallel, queries, rows, sequences

MILLION = 1_000_000
DRIVERS, STREAM, LONG, FEW = 20 * MILLION, 4 * MILLION, MILLION, MILLION // 4
QUICK = MILLION // 10

CONDITIONS = Bound(1.0, 2.0, 2 * DRIVERS)
"""The rate of the query with a thousand keys, against 5x NumPy's conditions and 1.5x Polars' sort by key."""
EARLY = Bound(1 / 1.5, 1.0, LONG)
"""The rate of early matches, against that of completed ones."""
SCANNING = Bound(2.0, 3.0, LONG)
"""The rate at a window of 100,000 s, against that of ISEQ."""
MORE_STREAMS = Bound(1 / 3, 1 / 2, FEW)
"""The rate with ten situations, against that with four."""
LATENCY = Bound(0.05, 0.02, LONG)
"""The greatest difference of shares of the detection latency from those of the table."""
SUGGESTED = {"Q1": Bound(1 / 1.15, 1.0, LONG), "Q2": Bound(1 / 1.15, 1.0, LONG), "Q3": Bound(1 / 1.15, 1.0, FEW)}
"""The rate of the order that is suggested, against the best one."""
ADAPTIVE = Bound(1 / 1.1, 1.0, STREAM)
"""The rate of orders that follow what is measured, against those that are known to be right."""
LOSES = Bound(1.05, 1.3, STREAM)
"""How much longer a fixed order takes than ours in some phase."""
TWO_THREADS = Bound(1.3, 1.6, LONG)
FLAT = Bound(1.5, 1.1, LONG)
"""What buffers take at the end, over a quarter of the way."""

PUBLISHED = {"full": "published 20x and 4.3x", "simplified": "published 8x and 2x"}


def ask(bench: Bench) -> None:
    """All questions about situations."""
    pa.set_cpu_count(THREADS)
    _drivers(bench)
    for within in matching.WINDOWS:
        if bench.wants(matching.window_title(within)) or bench.wants(f"{matching.window_title(within)}, early"):
            bound = SCANNING if within == matching.WINDOWS[-1] else None
            matching.ask_window(bench, bench.size(LONG, QUICK), within, bound, EARLY)
    for shape in matching.SHAPES:
        if bench.wants(matching.streams_title(shape)):
            matching.ask_streams(bench, bench.size(FEW, QUICK), shape, MORE_STREAMS)
    for name in sequences.PATTERNS:
        if bench.wants(sequences.title(name)):
            sequences.ask(bench, bench.size(LONG, QUICK), name, PUBLISHED[name])
    if bench.wants(sequences.DETECTION):
        sequences.ask_detection(bench, bench.size(LONG, QUICK))
    for ratio in latency.EXPECTED:
        if bench.wants(latency.title(ratio)):
            latency.ask(bench, bench.size(STREAM, LONG), ratio, LATENCY)
    for name in queries.THREE:
        if bench.wants(orders.title(name)):
            orders.ask(bench, bench.size(SUGGESTED[name].judged_at, QUICK), name, SUGGESTED[name])
    if bench.wants(orders.ADAPTIVE) or bench.wants(orders.LOST):
        orders.ask_adaptive(bench, bench.size(STREAM, QUICK), ADAPTIVE, LOSES)
    for within in parallel.WINDOWS:
        if bench.wants(parallel.title(within)):
            bound = TWO_THREADS if within >= 20_000 else None
            parallel.ask_unpartitioned(bench, bench.size(LONG, QUICK), within, bound)
    if bench.wants(parallel.MEMORY):
        parallel.ask_memory(bench, bench.size(STREAM, QUICK), FLAT)


def _drivers(bench: Bench) -> None:
    wanted = (matching.DRIVERS, f"{matching.DRIVERS}, early", parallel.PARTITIONED)
    if any(map(bench.wants, wanted)):
        table = rows.cars(bench.size(DRIVERS, QUICK), 1_000)
        matching.ask_drivers(bench, table, CONDITIONS, EARLY)
        if bench.wants(parallel.PARTITIONED):
            parallel.ask_partitioned(bench, table, TWO_THREADS)


if __name__ == "__main__":
    sys.exit(main("situations", ask))

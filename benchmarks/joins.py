"""Joins of streams: AS-OF joins, joins by a band of values, and by the distance of points.

``python benchmarks/joins.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from formats.base import THREADS
from harness import Bench, Bound, main
from questions.joins.asof import ask_asof
from questions.joins.windows import ask_band, ask_distance

MILLION = 1_000_000

ASOF, ASOF_QUICK = 2 * MILLION, MILLION // 5
BAND, BAND_QUICK = 2 * MILLION // 5, MILLION // 50
ARRIVALS, ARRIVALS_QUICK = {1 << 12: 1 << 14, 1 << 16: 1 << 13}, {1 << 12: 1 << 10, 1 << 16: 0}
"""Events of both streams that arrive once windows are full, by the size of these."""


def ask(bench: Bench) -> None:
    """All questions about joins."""
    pa.set_cpu_count(THREADS)
    ask_asof(bench, bench.size(ASOF, ASOF_QUICK), Bound(0.8, 1.0, ASOF))
    ask_band(bench, bench.size(BAND, BAND_QUICK), Bound(1.5, 3.0, BAND))
    for window, arrivals in ARRIVALS.items():
        size = bench.size(arrivals, ARRIVALS_QUICK[window])
        least = 2 * window + arrivals
        if bench.quick and not size:
            window, size = window >> 3, 1 << 9
        ask_distance(bench, window, size, Bound(5.0, 10.0, least))


if __name__ == "__main__":
    sys.exit(main("joins", ask))

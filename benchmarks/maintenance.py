"""Compaction: thousands of small commits, merged, against a stream that was loaded at once.

``python benchmarks/maintenance.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from formats.base import THREADS
from harness import Bench, Bound, main
from questions.store import compaction

FULL, QUICK = 10_000_000, 200_000

COST = Bound(1 / 1.2, 1.0, FULL)
"""Speed of scans and range aggregates after compaction, against a stream that was loaded at once."""


def ask(bench: Bench) -> None:
    """All questions about compaction."""
    pa.set_cpu_count(THREADS)
    if any(map(bench.wants, compaction.QUESTIONS)):
        compaction.ask(bench, bench.size(FULL, QUICK), COST)


if __name__ == "__main__":
    sys.exit(main("maintenance", ask))

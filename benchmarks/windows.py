"""Windows: from the index and by replay as they slide, by NumPy, as rows arrive, and by DuckDB.

Events come a hundred a second, of 16 and of 80 bytes; windows are a day long and slide by one event to a day. Two days
of events, or with ``--events 60_480_000`` seven. ``python benchmarks/windows.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from formats.base import THREADS
from harness import Bench, main
from questions.windows import flink, operating, slides
from questions.windows.stream import DAY, MILLIS, Ticks

FULL, QUICK = slides.TWO_DAYS, 500_000
KINDS = {"16 B events": "ticks", "80 B events": "wide_ticks"}


def ask(bench: Bench) -> None:
    """All questions about windows."""
    pa.set_cpu_count(THREADS)
    events = bench.size(FULL, QUICK)
    size = DAY if events > DAY // 10 else events * 10 // 4 // (3600 * MILLIS) * 3600 * MILLIS or 600 * MILLIS
    for title, kind in KINDS.items():
        place = bench.workspace.fresh()
        bench.on_progress(f"{title}: writing {events:,}")
        ticks = Ticks(place, kind, events)
        try:
            is_narrow = kind == "ticks"
            slides.ask(bench, title, ticks, size, slides.SLIDES if is_narrow else slides.FEW_SLIDES)
            if is_narrow:
                operating.ask_sliding(bench, ticks)
                operating.ask_replay(bench, ticks)
                operating.ask_online(bench, ticks)
                operating.ask_workers(bench, ticks)
        finally:
            ticks.close()
            bench.workspace.remove(place)
    flink.ask(bench)


if __name__ == "__main__":
    sys.exit(main("windows", ask, quick_repetitions=2))

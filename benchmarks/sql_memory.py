"""How much private memory SQL takes over a long stream, with the memory that it is given by default.

A narrow stream, so that many rows are built soon: a scan of all columns, groups by few keys and by ten million, and an
order, each fetched in batches by a process of its own. What does not fit is spilled into the store, from which it must
be gone at the end. ``python benchmarks/sql_memory.py --help`` tells the options.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidelog
from harness import Bench, Bound, Comparison, Figures, Question, main
from questions.store.archive import run_watched

FULL, QUICK = 100_000_000, 3_000_000
LIMIT = Bound(1000, 900)
"""Megabytes of the whole process, its libraries included."""
KEYS = 10_000_000
_ROWS = 1_000_000
_STATEMENTS = {
    "scan": "SELECT * FROM events",
    "few keys": "SELECT key % 100 AS key, count(*), sum(value) FROM events GROUP BY ALL",
    "ten million keys": "SELECT key, count(*), sum(value) FROM events GROUP BY key",
    "order": "SELECT * FROM events ORDER BY value, key",
}


def ask(bench: Bench) -> None:
    """Watch a process for each statement; one run, for peaks hardly vary."""
    events = bench.size(FULL, QUICK)
    place = bench.workspace.fresh() / "store"
    bench.on_progress(f"building {events:,} events")
    distinct = _build(place, events)
    expected = {"scan": events, "order": events, "few keys": min(events, 100), "ten million keys": distinct}
    for name, statement in _STATEMENTS.items():
        if not bench.wants(name):
            continue
        bench.on_progress(f"{name} of {events:,} events")
        peak, printed = run_watched("sql_fetch.py", str(place), statement)
        if int(printed) != expected[name]:
            raise AssertionError(f"{name}: {int(printed):,} rows came; expected {expected[name]:,}")
        if (place / "tmp").exists():
            raise AssertionError(f"{name}: left {sorted((place / 'tmp').rglob('*'))} behind")
        figures = Figures((peak / 1e6,), peak_memory=peak)
        unit = "MB private (RssAnon) at the peak"
        bench.answer(
            Question(name, unit, events, figures, {}, [Comparison("limit", (), LIMIT)], higher_is_better=False)
        )


def _build(place: Path, events: int) -> int:
    """Make the stream; returns how many keys there are."""
    seen = np.zeros(KEYS, bool)
    with tidelog.open(place, maintenance="manual") as store:
        schema = pa.schema([("ts", pa.timestamp("us")), ("key", pa.int32()), ("value", pa.float32())])
        stream = store.create_stream("events", schema, "ts")
        for first in range(0, events, _ROWS):
            rows = min(_ROWS, events - first)
            keys = np.random.default_rng(first).integers(0, KEYS, rows, dtype=np.int32)
            seen[keys] = True
            times = (np.arange(first, first + rows) * 1000).view("datetime64[us]")
            stream.append(pa.table({"ts": times, "key": keys, "value": (keys % 1000).astype(np.float32)}))
    return int(seen.sum())


if __name__ == "__main__":
    sys.exit(main("sql_memory", ask))

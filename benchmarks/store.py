"""The event store against the bare container, DuckDB, Parquet, ArcticDB and RocksDB.

Ingest with aggregates, appends of all sizes and of single events, range aggregates, filters, scans, recovery after a
kill, and memory. ``python benchmarks/store.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import data
from formats.arctic import ArcticDB
from formats.base import THREADS, Format
from formats.duckdb_file import DuckDB
from formats.event_store import BareContainer, EventStore
from formats.parquet import Parquet
from formats.rocks import RocksDB
from harness import Bench, Bound, main
from questions import scan
from questions.contest import Contest, present
from questions.scan import ScanBounds
from questions.store import aggregates, appends, filters, ingest, memory, recovery
from questions.store.archive import Archive
from questions.store.filters import Filter
from questions.store.ingest import IngestBounds

MILLION = 1_000_000
FULL, QUICK = 10 * MILLION, MILLION // 5
"""Events of the streams that are written, scanned and filtered."""
LONG, QUICK_LONG = 100 * MILLION, 10 * MILLION
"""Events of the stream that is aggregated, recovered, and written and scanned in little memory."""

_CONTAINER = Bound(0.8, 0.9, FULL)
INGEST = {
    "sensor": IngestBounds(Bound(1.5, 2.5, FULL), _CONTAINER),
    "stock_strings": IngestBounds(Bound(1.5, 2.5, FULL), _CONTAINER),
    "sine": IngestBounds(Bound(1.0, 1.0, FULL)),
}
SCAN = ScanBounds(Bound(1.0, 1.0, FULL))
COLUMN = {"sensor": "temperature", "stock_strings": "price", "sine": "s0"}
"""The column scanned alone."""

ONE_EVENT_AGAINST_ROCKSDB = Bound(1.0, 2.0, appends.MOST_EVENTS)
ONE_EVENT_AGAINST_DUCKDB = Bound(100, 100, appends.MOST_EVENTS)
ONE_DURABLE = Bound(1.5, 1.5)
SCAN_OF_SMALL_APPENDS = Bound(0.9, 1.0, appends.MOST_ROWS)

AGGREGATES = {LONG: Bound(300, 1000, LONG), FULL: Bound(30, 30, FULL)}
GROWTH = Bound(1 / 1.5, 1 / 1.5, LONG)
"""Speed of aggregates over the long stream, against that over one of a hundredth of its length."""

COUNT = Bound(2.0, 4.0, FULL)
FILTERS = [
    # The speed walks through its range about once: the rows of a band lie close together.
    Filter("clustered", "speed", 0.5, Bound(1.0, 2.0, FULL), COUNT),
    # The voltage comes back to the end of its range every few thousand rows.
    Filter("crossed often", "voltage", 0.0, Bound(0.8, 1.2, FULL), COUNT),
]

RECOVERY_MILLISECONDS = Bound(50, 50, QUICK_LONG)
MEMORY_MEGABYTES = Bound(500, 500, QUICK_LONG)


def ask(bench: Bench) -> None:
    """All questions about the event store."""
    pa.set_cpu_count(THREADS)
    _ask_streams(bench)
    _ask_appends(bench)
    _ask_long_stream(bench)


def _ask_streams(bench: Bench) -> None:
    stores = present(bench, [EventStore(), DuckDB(), Parquet("lz4"), Parquet("lz4", split=True), ArcticDB()])
    writers: list[Format] = [*stores, *present(bench, [BareContainer(), RocksDB()])]
    for stream, bounds in INGEST.items():
        asked = FILTERS if stream == "sensor" else []
        asked = [each for each in asked if any(map(bench.wants, each.questions()))]
        writing = bench.wants(f"ingest {stream}") or bench.wants(f"size {stream}")
        scanning = bench.wants(f"scan {stream}, all columns") or bench.wants(f"scan {stream}, one column")
        # The sines are told apart by full precision, which matters at full size; a quick run does without them.
        if not (writing or scanning or asked) or (bench.quick and stream == "sine"):
            continue
        bench.on_progress(f"{stream}: making events")
        contest = Contest(stream, data.table(stream, bench.size(FULL, QUICK)), writers)
        if writing:
            ingest.ask(bench, contest, bounds)
        if scanning:
            scan.ask(bench, contest, stores, COLUMN[stream], SCAN)
        if asked:
            filters.ask(bench, contest, stores, asked)
        contest.remove(bench)


def _ask_appends(bench: Bench) -> None:
    appends.ask_sizes(bench)
    if bench.wants(appends.ONE_EVENT):
        appends.ask_one_event(bench, ONE_EVENT_AGAINST_ROCKSDB, ONE_EVENT_AGAINST_DUCKDB)
    if bench.wants(appends.ONE_DURABLE):
        appends.ask_one_durable(bench, ONE_DURABLE)
    if bench.wants(appends.SCAN):
        appends.ask_scan(bench, SCAN_OF_SMALL_APPENDS)


def _ask_long_stream(bench: Bench) -> None:
    longest = bench.size(LONG, QUICK_LONG)
    sizes = [max(1, longest // part) for part in ((10, 1) if bench.quick else (100, 10, 1))]
    archive = Archive(bench)
    names = [
        question(events) for events in sizes for question in (aggregates.latency_question, aggregates.visits_question)
    ]
    if any(map(bench.wants, names)):
        aggregates.ask(bench, archive, sizes, AGGREGATES, GROWTH)
    if bench.wants(memory.INGEST) or bench.wants(memory.SCAN):
        memory.ask(bench, archive, longest, MEMORY_MEGABYTES)
    if bench.wants(recovery.NAME):
        recovery.ask(bench, archive, longest, RECOVERY_MILLISECONDS)  # last, for it changes the store
    archive.remove()


if __name__ == "__main__":
    sys.exit(main("store", ask))

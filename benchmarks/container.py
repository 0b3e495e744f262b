"""The block container against raw writes, Parquet, DuckDB and ArcticDB.

Speed and size of ingest, scans of all and of single columns, reads of single blocks, recovery after a kill, and the
time from a fresh process to the first event. ``python benchmarks/container.py --help`` tells the options.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import data
from formats.arctic import ArcticDB
from formats.base import THREADS, Format
from formats.duckdb_file import DuckDB
from formats.ours import Tidelog
from formats.parquet import Parquet
from formats.raw import LZ4Blocks, Raw
from harness import Bench, Bound, main
from questions import blocks, ingest, recovery, scan, startup
from questions.contest import Contest, present
from questions.ingest import IngestBounds
from questions.scan import ScanBounds

MILLION = 1_000_000
FULL, QUICK = 10 * MILLION, MILLION // 5
FULL_LOG, QUICK_LOG = 2 * MILLION, MILLION // 25

RECOVERY_SIZES = [MILLION, 10 * MILLION, 50 * MILLION]
QUICK_RECOVERY_SIZES = [MILLION // 2]

INGEST = {
    # against raw, against the fastest store, size against the smallest
    "sensor": IngestBounds(Bound(1.0, 1.8, FULL), Bound(2.0, 3.0, FULL), Bound(0.8, 0.6, FULL)),
    "stock_strings": IngestBounds(Bound(0.7, 1.2, FULL), Bound(2.0, 3.0, FULL), Bound(1.15, 1.0, FULL)),
    "sine": IngestBounds(Bound(0.6, 1.2, FULL), Bound(1.0, 1.5, FULL), Bound(0.6, 0.4, FULL)),
    "log": IngestBounds(Bound(0.3, 0.5, FULL_LOG), Bound(1.0, 1.5, FULL_LOG), Bound(1.2, 1.05, FULL_LOG)),
}
_SEVEN = ScanBounds(Bound(1.0, 1.8, FULL), Bound(0.8, 0.8, FULL), Bound(3.0, 3.0, FULL))
SCAN = {
    "sensor": _SEVEN,
    "stock_strings": ScanBounds(Bound(1.0, 1.8, FULL), Bound(0.8, 0.8, FULL)),
    "sine": _SEVEN,
    "log": ScanBounds(Bound(1.0, 1.8, FULL_LOG), Bound(0.8, 0.8, FULL_LOG), Bound(3.0, 3.0, FULL_LOG)),
}
COLUMN = {
    "sensor": "temperature",
    "stock": "price",
    "stock_strings": "price",
    "sine": "s0",
    "log": "latency",
}
"""The column scanned alone."""


def ask(bench: Bench) -> None:
    """All questions about the container."""
    pa.set_cpu_count(THREADS)
    stores: list[Format] = [
        Tidelog(),
        Parquet("lz4"),
        Parquet("zstd"),
        Parquet("lz4", split=True),
        Parquet("zstd", split=True),
        DuckDB(),
        ArcticDB(),
    ]
    stores = present(bench, stores)
    writers = present(bench, [Raw(), LZ4Blocks()])
    small_groups = Parquet("lz4", row_group_rows=blocks.BLOCK_ROWS)
    for stream in data.STREAMS:
        wanted = {kind for kind in ("ingest", "scan", "random block") if bench.wants(f"{kind} {stream}")}
        # The trades with string symbols are the ones that are judged; a quick run does without the others.
        if not wanted or (bench.quick and stream == "stock"):
            continue
        full, quick = (FULL_LOG, QUICK_LOG) if stream == "log" else (FULL, QUICK)
        bench.on_progress(f"{stream}: making events")
        contest = Contest(stream, data.table(stream, bench.size(full, quick)), [*stores, *writers])
        if "ingest" in wanted:
            ingest.ask(bench, contest, INGEST.get(stream))
        if "scan" in wanted:
            scan.ask(bench, contest, stores, COLUMN[stream], SCAN.get(stream))
        if "random block" in wanted:
            others = [format for format in stores if not isinstance(format, Parquet)]
            blocks.ask(bench, contest, others, [small_groups])
        contest.remove(bench)
    if bench.wants("recovery"):
        sizes = QUICK_RECOVERY_SIZES if bench.quick else RECOVERY_SIZES
        recovery.ask(bench, sizes if bench.events is None else [bench.events], limit_milliseconds=50)
    if bench.wants("import kernels startup"):
        startup.ask(bench, import_limit=0.4, compile_limit=60, cached_limit=1)


if __name__ == "__main__":
    sys.exit(main("container", ask))

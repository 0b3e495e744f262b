"""How much private memory does a process need that writes, or reads, a long stream?"""

from __future__ import annotations

from harness import Bench, Bound, Comparison, Figures, Question
from questions.store.archive import Archive, run_watched

INGEST, SCAN = "memory of an ingest", "memory of a scan"


def ask(bench: Bench, archive: Archive, events: int, limit: Bound) -> None:
    """Watch a process that writes a stream, and one that scans all of it; one run each, for peaks hardly vary."""
    if bench.wants(INGEST):
        _answer(bench, INGEST, events, archive.ingest_memory(events), limit)
    if bench.wants(SCAN):
        directory = archive.ours(events)
        bench.on_progress(f"{SCAN} of {events:,} events")
        peak, printed = run_watched("store_scan.py", str(directory))
        if int(printed) != events:
            raise AssertionError(f"the scan gave {int(printed)} events, expected {events}")
        _answer(bench, SCAN, events, peak, limit)


def _answer(bench: Bench, name: str, events: int, peak: int, limit: Bound) -> None:
    bench.answer(
        Question(
            name,
            "MB private (RssAnon) at the peak",
            events,
            Figures((peak / 1e6,), peak_memory=peak),
            {},
            [Comparison("limit", (), limit)],
            higher_is_better=False,
            note=f"the whole process: its libraries{' and the making of events' if name == INGEST else ''} included",
        )
    )

"""What do thousands of small commits cost readers, before, during and after they are merged?"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import data
from formats.event_store import STREAM, TIME
from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Question
from harness.measuring import measure
from questions.store.aggregates import QUERIES, Queries
from questions.store.archive import start_child
from tidelog.engine.store import manifests_of
from tidelog.engine.stream import writer_of

ROWS_PER_COMMIT = 1000
SCAN = "scan after compaction"
AGGREGATE = "range aggregates after compaction"
COMPACT = "compaction"
QUESTIONS = (SCAN, AGGREGATE, COMPACT)

LOADED = f"{OURS}, loaded at once"


class _Reader:
    """Reads a stream as another process than its writer does."""

    def __init__(self, directory: Path) -> None:
        import tidelog

        self._store = tidelog.open(directory, read_only=True)
        self._stream = self._store.stream(STREAM)

    def aggregate(self, start: int, end: int, column: str) -> Any:
        """Count, sum, minimum and maximum of a column."""
        texts = ["count(*)", f"sum({column})", f"min({column})", f"max({column})"]
        return tuple(self._stream.aggregate(start, end, texts).values())

    def scan(self) -> int:
        """Read all events; returns how many there are."""
        return sum(batch.num_rows for batch in self._stream.scan())

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class _DuringCompaction:
    """Another process, which asks the same question again and again."""

    def __init__(self, directory: Path, events: int) -> None:
        self._arguments = (str(directory), str(events))
        self.asked = 0
        self.longest = 0.0
        """Seconds that one question took at most."""

    def __enter__(self) -> _DuringCompaction:
        self._child = start_child("aggregate_until_told.py", *self._arguments)
        assert self._child.stdout is not None
        self._child.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        out, _ = self._child.communicate()
        if self._child.returncode:
            raise AssertionError("a reader failed while splits were merged; its standard error says why")
        asked, longest = out.split()
        self.asked, self.longest = int(asked), float(longest)


def _committed(
    directory: Path, events: int, rows_per_commit: int, on_progress: Callable[[str], None]
) -> tuple[int, list[float]]:
    """Make a stream of so many events, by commits as Spark makes them; returns how many, and what the last took."""
    import tidelog
    from tidelog.store.bulk import BulkWriter, commit_bulk

    commits = 0
    seconds: deque[float] = deque(maxlen=500)
    with tidelog.open(directory, maintenance="manual") as store:
        stream = store.create_stream(STREAM, data.Sensor.schema, TIME)
        for batch in data.batches("sensor", events):
            for first in range(0, batch.num_rows, rows_per_commit):
                writer = BulkWriter(writer_of(stream).context)
                writer.append(_fitting(stream.schema.arrow, batch.slice(first, rows_per_commit)))
                infos = writer.finish()
                began = time.perf_counter()
                commit_bulk(writer_of(stream).manifests, infos)
                seconds.append(time.perf_counter() - began)
                commits += 1
                if commits % 1000 == 0:
                    on_progress(f"{commits:,} commits")
    return commits, list(seconds)


def _load_seconds(directory: Path) -> float:
    """What it takes to open a store and its stream, with nothing known of it."""
    began = time.perf_counter()
    reader = _Reader(directory)
    seconds = time.perf_counter() - began
    reader.close()
    return seconds


def _loaded(directory: Path, events: int) -> None:
    """Make a stream of so many events by one commit."""
    import tidelog
    from tidelog.store.bulk import BulkWriter, commit_bulk

    with tidelog.open(directory, maintenance="manual") as store:
        stream = store.create_stream(STREAM, data.Sensor.schema, TIME)
        writer = BulkWriter(writer_of(stream).context)
        for batch in data.batches("sensor", events):
            writer.append(_fitting(stream.schema.arrow, batch))
        commit_bulk(writer_of(stream).manifests, writer.finish())


def _fitting(schema: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def ask(bench: Bench, events: int, bound: Bound) -> None:
    """Commit events a thousand at a time, merge them while somebody reads, and race what came of it."""
    import tidelog

    small, large = bench.workspace.fresh(), bench.workspace.fresh()
    commits, seconds = _committed(small, events, ROWS_PER_COMMIT, bench.on_progress)
    _loaded(large, events)
    load = _load_seconds(small)
    reader = _Reader(small)
    before = _median_seconds(reader, events)
    with tidelog.open(small, maintenance="manual") as store, _DuringCompaction(small, events) as during:
        done, sample = measure(lambda: store.stream(STREAM).compact())
        splits = len(manifests_of(store, STREAM).load().splits)
    if not done.is_done or splits != 1:
        raise AssertionError(f"{splits} splits are left of {commits}; expected one")
    reader.close()
    note = (
        f"{commits:,} commits, the last ones in {statistics.median(seconds) * 1e3:.1f} ms, opened in "
        f"{load * 1e3:,.0f} ms; an aggregate of all of them took {before * 1e3:,.1f} ms before, at most "
        f"{during.longest * 1e3:,.0f} ms of {during.asked:,} meanwhile in another process, none of which failed"
    )
    figures = Figures((events / sample.wall / 1e6,), (sample,), 0)
    bench.answer(Question(COMPACT, "million events/s, durable", events, figures, {}, [], note=note))
    readers = {OURS: _Reader(small), LOADED: _Reader(large)}
    _race_scans(bench, readers, events, bound)
    _race_aggregates(bench, readers, events, bound)
    for each in readers.values():
        each.close()
    for directory in (small, large):
        bench.workspace.remove(directory)


def _median_seconds(reader: _Reader, events: int, times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        reader.aggregate(-(1 << 62), 1 << 62, data.Sensor.schema.names[1])
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _race_scans(bench: Bench, readers: dict[str, _Reader], events: int, bound: Bound) -> None:
    def check(found: int) -> None:
        if found != events:
            raise AssertionError(f"{found} events were read, expected {events}")

    cases = [Case(name, lambda _, reader=reader: reader.scan(), check=check) for name, reader in readers.items()]  # type: ignore[misc]
    outcomes = bench.race(SCAN, cases)
    figures = {name: Figures.of(found, lambda sample: events / sample.wall / 1e6) for name, found in outcomes.items()}
    _answer(bench, SCAN, "million events/s", figures, events, bound)


def _race_aggregates(bench: Bench, readers: dict[str, _Reader], events: int, bound: Bound) -> None:
    runs = {
        name: Queries(name, events, reader, QUERIES, readers[LOADED] if name == OURS else None)
        for name, reader in readers.items()
    }
    outcomes = bench.race(AGGREGATE, [run.case() for run in runs.values()])
    figures = {name: run.figures(outcomes[run.name]) for name, run in runs.items()}
    _answer(bench, AGGREGATE, "queries/s by median latency", figures, events, bound)


def _answer(bench: Bench, name: str, unit: str, figures: dict[str, Figures], events: int, bound: Bound) -> None:
    others = {LOADED: figures[LOADED]}
    bench.answer(Question(name, unit, events, figures[OURS], others, [Comparison(LOADED, (LOADED,), bound)]))

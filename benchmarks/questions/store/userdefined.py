"""What do user-defined aggregates cost when events are written, and what do they bring when ranges are asked for?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import data
from formats import event_store
from formats.duckdb_file import DuckDB
from formats.event_store import EventStore
from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.contest import present
from questions.store.aggregates import QUERIES, SLOW_QUERIES, Queries, short
from questions.store.archive import Archive

INGEST = "ingest with ten aggregates"
WITHOUT = f"{OURS}, without"

TEN = (
    "second_largest(temperature)",
    "second_smallest(humidity)",
    "stddev(temperature)",
    "last(pressure)",
    "first(voltage)",
    "bounding_box(temperature, humidity)",
    "sum_of_squares(current)",
    "sum_of_products(voltage, current)",
    "largest(speed)",
    "smallest(speed)",
)
"""Ten aggregates of the sensor's columns; with those that they depend on fourteen states are kept."""

ASKED = ("second_largest(temperature)", "second_smallest(humidity)", "stddev(temperature)")
_IN_DUCKDB = "max(temperature, 2)[2], min(humidity, 2)[2], stddev_samp(temperature)"


class WithAggregates(EventStore):
    """A stream that keeps :data:`TEN`."""

    def write(self, directory: Path, prepared: Any) -> None:
        """Append all batches, flush, close."""
        schema, batches = prepared
        event_store.fill(directory, schema, batches, user_aggregates=TEN)


def ask_ingest(bench: Bench, table: pa.Table, bound: Bound) -> None:
    """Race writing a stream with ten user-defined aggregates against writing it without."""
    formats = {OURS: WithAggregates(), WITHOUT: EventStore()}
    prepared = {name: format.prepare(table) for name, format in formats.items()}
    cases = [
        Case(name, lambda directory, name=name, format=format: format.write(directory, prepared[name]))  # type: ignore[misc]
        for name, format in formats.items()
    ]
    outcomes = bench.race("ten aggregates: write", cases, writes=True)
    figures = {
        name: Figures.of(outcome, lambda sample: table.nbytes / sample.wall / 1e9) for name, outcome in outcomes.items()
    }
    bench.answer(
        Question(
            INGEST,
            "GB/s of Arrow bytes, durable",
            table.num_rows,
            figures[OURS],
            {WITHOUT: figures[WITHOUT]},
            [Comparison(WITHOUT, (WITHOUT,), bound)],
            note=f"{len(TEN)} user-defined aggregates",
        )
    )


def range_question(events: int) -> str:
    """The name of the question about range queries over so many events."""
    return f"user-defined aggregates of ranges {short(events)}"


class _Ours:
    """Asks a stream for :data:`ASKED`."""

    def __init__(self, directory: Path) -> None:
        import tidelog

        self._store = tidelog.open(directory, read_only=True)
        self._stream = self._store.stream(event_store.STREAM)

    def aggregate(self, start: int, end: int, column: str) -> Any:
        """One call for all of them, whatever the column."""
        return tuple(self._stream.aggregate(start, end, ASKED).values())

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class _Peer:
    """Asks DuckDB for the same."""

    def __init__(self, directory: Path) -> None:
        self._reader = DuckDB().open(directory)

    def aggregate(self, start: int, end: int, column: str) -> Any:
        """One query for all of them, whatever the column."""
        query = f"SELECT {_IN_DUCKDB} FROM events WHERE ts >= {start} AND ts < {end}"
        (found,) = self._reader.query(query)
        return found

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()


def ask_ranges(bench: Bench, archive: Archive, sizes: Sequence[int], against_duckdb: Bound, growth: Bound) -> None:
    """Race random range queries over streams of all sizes, smallest first.

    ``growth`` bounds the speed at the largest size against that at the smallest, ``against_duckdb`` at the largest.
    """
    directories = {events: bench.workspace.fresh() for events in sizes}
    for events, directory in directories.items():
        bench.on_progress(f"writing {events:,} events with aggregates")
        event_store.fill(directory, data.Sensor.schema, data.batches("sensor", events), user_aggregates=TEN)
    ours = {events: _Ours(directory) for events, directory in directories.items()}
    peers = {}
    if present(bench, [DuckDB()]):
        peers = {events: _Peer(archive.duckdb(events)) for events in sizes}
    runs = [Queries(OURS, events, reader, QUERIES, peers.get(events)) for events, reader in ours.items()]
    runs += [Queries(DuckDB.name, events, reader, SLOW_QUERIES) for events, reader in peers.items()]
    outcomes = bench.race("user-defined aggregates", [run.case() for run in runs])
    figures = {(run.contestant, run.events): run.figures(outcomes[run.name]) for run in runs}
    for events in sizes:
        _answer(bench, figures, events, sizes, against_duckdb, growth)
    for reader in (*ours.values(), *peers.values()):
        reader.close()
    for directory in directories.values():
        bench.workspace.remove(directory)


def _answer(
    bench: Bench,
    figures: dict[tuple[str, int], Figures],
    events: int,
    sizes: Sequence[int],
    against_duckdb: Bound,
    growth: Bound,
) -> None:
    mine = figures[OURS, events]
    others = {name: found for (name, size), found in figures.items() if name != OURS and size == events}
    is_largest = events == sizes[-1]
    comparisons = [Comparison(DuckDB.name, (DuckDB.name,), against_duckdb if is_largest else None)]
    if events != sizes[0]:
        own = f"{OURS}, {short(sizes[0])} events"
        others[own] = figures[OURS, sizes[0]]
        comparisons.append(Comparison(own, (own,), growth if is_largest else None))
    note = f"median {1e6 / mine.median:,.0f} us: {', '.join(ASKED)} at random ranges"
    bench.answer(
        Question(range_question(events), "queries/s by median latency", events, mine, others, comparisons, note=note)
    )

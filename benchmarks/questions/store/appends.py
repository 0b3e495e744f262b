"""What does an append cost: of a few rows or of many, of a single event, with and without a sync behind it?"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import data
from formats import event_store, rocks
from formats.duckdb_file import DuckDB
from formats.event_store import EventStore
from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.contest import present, split

SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
"""Rows of an append."""

MOST_ROWS, MOST_EVENTS = 2_000_000, 200_000
"""Rows, and single events, of one run, however many were asked for: more would take long and change no rate."""

ONE_EVENT = "append one event"
ONE_DURABLE = "append and flush one event"
SCAN = "scan after appends of 10 rows"

_MOST_APPENDS, _MOST_SYNCED_APPENDS = 20_000, 500
"""Appends of one run at most, without and with a sync behind each."""
_SLOW_EVENTS = 1_000
"""Single events of one run for those that need a millisecond for each."""
_PAGE = 4096
_SYNCS = 50
"""Durable appends of one run."""
_IN_PLACE, _GROWING = "pwrite + fdatasync", "the same, file grows"
_PUT, _PUT_NO_WAL, _SYNCED_PUT = "RocksDB put", "RocksDB put, no WAL", "RocksDB put, synced"


def size_question(size: int) -> str:
    """The name of the question about appends of ``size`` rows."""
    return f"append of {size:,} rows"


def ask_sizes(bench: Bench) -> None:
    """Rates of appends of each size, durable at the end or after each append; for information."""
    most = _size(bench, MOST_ROWS, 200_000)
    table = data.table("sensor", most).combine_chunks()
    fewer = 20 if bench.quick else 1
    for size in SIZES:
        name = size_question(size)
        if size > most or not bench.wants(name):
            continue
        figures = {}
        cases, rows = [], {}
        for durability, appends in (("flush", _MOST_APPENDS // fewer), ("batch", _MOST_SYNCED_APPENDS // fewer)):
            count = max(1, min(most // size, appends))
            slices = [table.slice(n * size, size).to_batches()[0] for n in range(count)]
            rows[durability] = count * size
            cases.append(_Appending(durability, table.schema, slices, {"durability": durability}).case())
        for durability, outcome in bench.race(name, cases, writes=True).items():
            figures[durability] = Figures.of(outcome, lambda sample, count=rows[durability]: count / sample.wall)
        batch = 'durability="batch"'
        bench.answer(
            Question(
                name,
                "rows/s, record batches",
                rows["flush"],
                figures["flush"],
                {batch: figures["batch"]},
                [Comparison(batch, (batch,))],
                note=f"durable at the end; with {batch} after every append, {rows['batch']:,} rows",
            )
        )


def ask_one_event(bench: Bench, against_rocks: Bound, against_duckdb: Bound) -> None:
    """Rates of single events: our dicts against RocksDB's keys and values and DuckDB's INSERT within a transaction.

    The bound is on RocksDB's ``put`` as it comes, with its log; without one is told beside it.
    """
    events = _size(bench, MOST_EVENTS, MOST_EVENTS // 10)
    table = data.table("sensor", events)
    few = table.slice(0, max(1, min(events, _SLOW_EVENTS // (5 if bench.quick else 1))))
    cases, rows = [_Appending(OURS, table.schema, table.to_pylist()).case()], {OURS: events}
    if present(bench, [rocks.RocksDB()]):
        pairs = rocks.pairs(table)
        for name, wal in ((_PUT, True), (_PUT_NO_WAL, False)):
            cases.append(_Putting(name, pairs, wal).case())
            rows[name] = events
    if present(bench, [DuckDB()]):
        cases.append(_Inserting(DuckDB.name, few).case())
        rows[DuckDB.name] = few.num_rows
    outcomes = bench.race(ONE_EVENT, cases, writes=True)
    ours, peers = split(
        {
            name: Figures.of(outcome, lambda sample, count=rows[name]: count / sample.wall)
            for name, outcome in outcomes.items()
        }
    )
    bench.answer(
        Question(
            ONE_EVENT,
            "events/s, a dict each, durable at the end",
            events,
            ours,
            peers,
            [
                Comparison(_PUT, (_PUT,), against_rocks),
                Comparison(_PUT_NO_WAL, (_PUT_NO_WAL,)),
                Comparison(DuckDB.name, (DuckDB.name,), against_duckdb),
            ],
            note=f"DuckDB: {few.num_rows:,} INSERTs in one transaction",
        )
    )


def ask_one_durable(bench: Bench, limit: Bound) -> None:
    """The time of an append and a flush of one event, against what the disk needs to make one page durable."""
    count = _SYNCS // (5 if bench.quick else 1)
    directory = bench.workspace.fresh()
    rows = data.table("sensor", 1).to_pylist()
    store, stream = event_store.create(directory, data.Sensor.schema)

    def append_and_flush(_: Path) -> None:
        row = rows[0]
        for _ in range(count):
            row["ts"] += 1
            stream.append(row)
            stream.flush()

    cases = [Case(OURS, append_and_flush)]
    files = []
    for name, grows in ((_IN_PLACE, False), (_GROWING, True)):
        files.append(_Pages(directory / name.replace(" ", "-"), count, grows))
        cases.append(Case(name, files[-1].write))
    database = None
    if present(bench, [rocks.RocksDB()]):
        database = rocks.connect(directory, sync=True)
        key, value = rocks.pairs(data.table("sensor", 1))[0]

        def put(_: Path) -> None:
            for _ in range(count):
                database.put(key, value)

        cases.append(Case(_SYNCED_PUT, put))
    outcomes = bench.race(ONE_DURABLE, cases)
    store.close()
    for file in files:
        file.close()
    if database is not None:
        database.close()
    bench.workspace.remove(directory)
    ours, peers = split(
        {name: Figures.of(outcome, lambda sample: sample.wall / count * 1e6) for name, outcome in outcomes.items()}
    )
    bench.answer(
        Question(
            ONE_DURABLE,
            "us until durable",
            0,
            ours,
            peers,
            [Comparison(_IN_PLACE, (_IN_PLACE,), limit), Comparison(_GROWING, (_GROWING,))],
            higher_is_better=False,
            note=f"pages of {_PAGE} B; wall and CPU of {count} appends",
        )
    )


def ask_scan(bench: Bench, floor: Bound) -> None:
    """Full scans of a store filled ten rows at a time, against one filled by large appends."""
    table = data.table("sensor", _size(bench, MOST_ROWS, 100_000)).combine_chunks()
    readers, directories = {}, []
    large = "filled by 100,000s"
    for name, size in ((OURS, 10), (large, 100_000)):
        bench.on_progress(f"{SCAN}: appends of {size:,} rows")
        directories.append(bench.workspace.fresh())
        event_store.fill(directories[-1], table.schema, table.to_batches(max_chunksize=size))
        readers[name] = EventStore().open(directories[-1])
    cases = [
        Case(
            name,
            lambda _, reader=reader: sum(batch.num_rows for batch in reader.scan(None)),
            check=lambda rows, name=name: _expect_rows(name, rows, table.num_rows),
        )
        for name, reader in readers.items()
    ]
    outcomes = bench.race(SCAN, cases)
    for reader in readers.values():
        reader.close()
    for directory in directories:
        bench.workspace.remove(directory)
    ours, peers = split(
        {name: Figures.of(outcome, lambda s: table.num_rows / s.wall / 1e6) for name, outcome in outcomes.items()}
    )
    comparison = Comparison(large, (large,), floor)
    bench.answer(Question(SCAN, "M rows/s to Arrow", table.num_rows, ours, peers, [comparison]))


def _size(bench: Bench, full: int, quick: int) -> int:
    return min(bench.size(full, quick), full)


def _expect_rows(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{name} gave {found} rows, expected {expected}")


@dataclass
class _Writing(ABC):
    """A case whose store is made before the clock starts; after the warm-up its rows are counted."""

    name: str

    def case(self) -> Case:
        """The case to race."""
        return Case(self.name, self._work, before=self.create, check=self._check)

    @abstractmethod
    def create(self, directory: Path) -> None:
        """Make an empty store and open it."""

    @abstractmethod
    def write(self) -> None:
        """Write all events and close the store."""

    @abstractmethod
    def count(self, directory: Path) -> int:
        """How many events a store holds."""

    @abstractmethod
    def expected(self) -> int:
        """How many events it ought to hold."""

    def _work(self, directory: Path) -> Path:
        self.write()
        return directory

    def _check(self, directory: Any) -> None:
        _expect_rows(self.name, self.count(directory), self.expected())


@dataclass
class _Appending(_Writing):
    schema: pa.Schema
    appends: Sequence[Any]
    options: dict[str, Any] | None = None

    def create(self, directory: Path) -> None:
        self._store, self._stream = event_store.create(directory, self.schema, **(self.options or {}))

    def write(self) -> None:
        append: Callable[[Any], None] = self._stream.append
        for some in self.appends:
            append(some)
        self._stream.flush()
        self._store.close()

    def count(self, directory: Path) -> int:
        reader = EventStore().open(directory)
        rows = sum(batch.num_rows for batch in reader.scan([event_store.TIME]))
        reader.close()
        return rows

    def expected(self) -> int:
        return sum(1 if isinstance(some, dict) else some.num_rows for some in self.appends)


@dataclass
class _Putting(_Writing):
    pairs: Sequence[tuple[bytes, bytes]]
    wal: bool

    def create(self, directory: Path) -> None:
        self._database = rocks.connect(directory, wal=self.wal)

    def write(self) -> None:
        put = self._database.put
        for key, value in self.pairs:
            put(key, value)
        self._database.flush()
        self._database.close()

    def count(self, directory: Path) -> int:
        database = rocks.connect(directory)
        rows = sum(1 for _ in database.values())
        database.close()
        return rows

    def expected(self) -> int:
        return len(self.pairs)


@dataclass
class _Inserting(_Writing):
    table: pa.Table

    def __post_init__(self) -> None:
        self._rows = list(zip(*(column.to_pylist() for column in self.table.columns), strict=True))

    def create(self, directory: Path) -> None:
        import duckdb

        self._connection = duckdb.connect(str(directory / "events.duckdb"))
        self._connection.register("empty", self.table.slice(0, 0))
        self._connection.execute("CREATE TABLE events AS SELECT * FROM empty")

    def write(self) -> None:
        execute = self._connection.execute
        marks = ", ".join("?" * self.table.num_columns)
        execute("BEGIN")
        for row in self._rows:
            execute(f"INSERT INTO events VALUES ({marks})", row)
        execute("COMMIT")
        self._connection.close()

    def count(self, directory: Path) -> int:
        reader = DuckDB().open(directory)
        rows = sum(batch.num_rows for batch in reader.scan(["ts"]))
        reader.close()
        return rows

    def expected(self) -> int:
        return self.table.num_rows


class _Pages:
    """A file whose pages are written and synced one by one: the same ones over and over, or new ones at its end."""

    def __init__(self, path: Path, count: int, grows: bool) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        self._count = count
        self._grows = grows
        self._next = 0
        os.pwrite(self._descriptor, bytes(_PAGE * count), 0)
        os.fsync(self._descriptor)

    def write(self, _: Path) -> None:
        """Write and sync ``count`` pages."""
        page = os.urandom(_PAGE)
        for _ in range(self._count):
            os.pwrite(self._descriptor, page, self._next * _PAGE)
            os.fdatasync(self._descriptor)
            self._next = self._next + 1 if self._grows else (self._next + 1) % self._count

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

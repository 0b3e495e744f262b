"""The event store: the one place where the benchmarks touch its interface; and the container beneath it, as a peer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from formats import ours
from formats.base import AGGREGATES, Aggregates, Band, QueryStore

STREAM = "events"
TIME = "ts"

_VISITED = re.compile(r"visited (\d+) nodes \((\d+) read\), (\d+) leaves")


class EventStore(ours.Tidelog):
    """One stream with the default options, so with aggregates of all columns in its index."""

    name = ours.NAME

    def unavailable(self) -> str | None:
        """Why tidelog cannot be used."""
        try:
            import tidelog.engine.store  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def write(self, directory: Path, prepared: Any) -> None:
        """Append all batches, flush, close."""
        schema, batches = prepared
        fill(directory, schema, batches)

    def open(self, directory: Path) -> EventReader:
        """Open the stream as another process than its writer does."""
        return EventReader(directory)


class BareContainer(ours.Tidelog):
    """The container that the store keeps its events in, without order, index or numbers of arrival."""

    name = "container"


@dataclass(frozen=True)
class Visited:
    """What one aggregate query has touched."""

    nodes: int
    node_reads: int
    leaves: int


class EventReader(QueryStore):
    """The stream of a store, opened for reading."""

    def __init__(self, directory: Path) -> None:
        import tidelog

        self._store = tidelog.open(directory, read_only=True)
        self._stream = self._store.stream(STREAM)

    def scan(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """A scan of all times."""
        return iter(self._stream.scan(columns=columns))

    def rows(self, first: int, count: int) -> pa.Table:
        """A scan from the time of the first row on, as far as is needed."""
        start = self._stream.nth(first, [TIME])[TIME]
        before = first - self._stream.rank(start)  # rows of the same time that come earlier
        parts, missing = [], before + count
        for batch in self._stream.scan(start):
            parts.append(batch)
            missing -= batch.num_rows
            if missing <= 0:
                break
        return pa.Table.from_batches(parts).slice(before, count)

    def aggregate(self, start: int, end: int, column: str) -> Aggregates:
        """One call for all aggregates."""
        return Aggregates(*self._stream.aggregate(start, end, _calls(column)).values())

    def visited(self, start: int, end: int, column: str) -> Visited:
        """What the same call as :meth:`aggregate` touches of the index and of the events."""
        told = self._stream.explain(start, end, _calls(column))
        found = _VISITED.search(told)
        if found is None:
            raise RuntimeError(f"found no numbers of nodes and leaves in what explain() says: {told!r}")
        return Visited(*map(int, found.groups()))

    def most_visited(self) -> int:
        """Nodes and leaves that a tree lets the two ends of a range visit: two on each level."""
        options = self._stream.options
        levels, blocks = 1, -(-len(self._stream) // options.leaf_rows)
        while blocks > 1:
            levels, blocks = levels + 1, -(-blocks // options.fanout)
        return 2 * levels

    def filter(self, band: Band) -> pa.Table:
        """A scan with a condition."""
        return self._stream.scan(where=band.sql()).read_all()

    def count(self, band: Band) -> int:
        """An aggregate with a condition."""
        found: int = self._stream.aggregate(None, None, ["count(*)"], where=band.sql())["count(*)"]
        return found

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def create(directory: Path, schema: pa.Schema, **options: Any) -> tuple[Any, Any]:
    """A new store, and the one stream in it."""
    import tidelog

    store = tidelog.open(directory)
    return store, store.create_stream(STREAM, schema, time=TIME, **options)


def reopen(directory: Path) -> tuple[Any, Any]:
    """A store for writing, and the stream in it; what a dead writer left is recovered by the first append."""
    import tidelog

    store = tidelog.open(directory)
    return store, store.stream(STREAM)


def fill(directory: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], **options: Any) -> None:
    """A new store with the events of some batches, each of them one append; durable at the end."""
    store, stream = create(directory, schema, **options)
    with store:
        for batch in batches:
            stream.append(batch)
        stream.flush()


def _calls(column: str) -> list[str]:
    return ["count(*)", *(f"{function}({column})" for function in AGGREGATES)]

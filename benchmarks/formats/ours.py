"""The block container: the one place where the benchmarks touch its interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from formats.base import Format, Store

NAME = "tidelog"
FILE = "events.tl"


class Tidelog(Format):
    """One container in one file."""

    name = NAME

    def unavailable(self) -> str | None:
        """Why tidelog cannot be used."""
        try:
            from tidelog.storage import Container, FileMedium  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def prepare(self, table: pa.Table) -> Any:
        """The table's batches."""
        return table.schema, table.to_batches()

    def write(self, directory: Path, prepared: Any) -> None:
        """Append all batches, flush, close."""
        schema, batches = prepared
        container = create(directory, schema)
        for batch in batches:
            container.extend(batch)
        container.flush()
        container.close()

    def open(self, directory: Path) -> Store:
        """A reader pinned to the newest commit."""
        return _TidelogStore(directory)


def create(directory: Path, schema: pa.Schema) -> Any:
    """A new container, open for writing."""
    from tidelog.storage import Container, FileMedium

    return Container.create(FileMedium(directory), FILE, schema)


def recover(directory: Path) -> Any:
    """Open a container for writing as a new owner does after the old one's death: recovery included."""
    from tidelog.storage import Container, FileMedium

    return Container.open(FileMedium(directory), FILE)


class _TidelogStore(Store):
    def __init__(self, directory: Path) -> None:
        from tidelog.storage import ContainerReader, FileMedium

        # Scans do not use the block cache, and reads of single blocks are to be reads.
        self._reader = ContainerReader.open(FileMedium(directory), FILE, cache_bytes=0)
        _, counts, _ = self._reader.summaries()
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    def scan(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """The reader's scan, with its own read-ahead and threads."""
        return self._reader.scan(columns=list(columns) if columns is not None else None)

    def rows(self, first: int, count: int) -> pa.Table:
        """The blocks that hold the rows, of the outer ones only what is asked for."""
        low, high = np.searchsorted(self._starts, [first + 1, first + count]).tolist()
        parts = []
        for block in range(low - 1, high):
            start, end = int(self._starts[block]), int(self._starts[block + 1])
            whole = first <= start and end <= first + count
            within = None if whole else (max(first, start) - start, min(first + count, end) - start)
            parts.append(self._reader.read(block, rows=within))
        return pa.Table.from_batches(parts)

    def close(self) -> None:
        """Let go of the pinned commit."""
        self._reader.close()

"""What a contestant must be able to do."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

THREADS = max(1, min(4, os.cpu_count() or 1))
"""Threads each contestant may use for encoding and decoding: as many as the container uses."""

SCAN_ROWS = 122_880
"""Rows of a batch where a contestant lets the reader choose: DuckDB's row group, good for the others too."""


class Store(ABC):
    """A table on disk, opened for reading."""

    @abstractmethod
    def scan(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """All rows, in the order in which they were written, of some columns (None: all)."""

    @abstractmethod
    def rows(self, first: int, count: int) -> pa.Table:
        """All columns of ``count`` rows from row ``first`` on, nothing of it from a cache of decoded rows."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and memory."""


AGGREGATES = ("min", "max", "sum", "avg")
"""What is asked of one column, besides the count of rows; the order of the fields of :class:`Aggregates`."""


class Aggregates(NamedTuple):
    """Aggregates of one column over the rows of a time range."""

    count: int
    min: float | None
    max: float | None
    sum: float | None
    avg: float | None


@dataclass(frozen=True)
class Band:
    """A condition: one column between two values, both included."""

    column: str
    low: float
    high: float

    def sql(self) -> str:
        """The condition as SQL text."""
        return f'"{self.column}" BETWEEN {self.low!r} AND {self.high!r}'


class QueryStore(Store):
    """A store that can answer filters on one column without giving out everything."""

    @abstractmethod
    def filter(self, band: Band) -> pa.Table:
        """The rows that satisfy the condition, all columns, in order."""

    @abstractmethod
    def count(self, band: Band) -> int:
        """How many rows satisfy the condition."""


class Format(ABC):
    """A way to keep a table on disk."""

    name: str
    most_rows: int | None = None
    """Rows it is given at most in races of rates, where more would take long and change nothing; None: all."""

    @abstractmethod
    def unavailable(self) -> str | None:
        """Why this contestant cannot take part (e.g. it is not installed), or None."""

    def prepare(self, table: pa.Table) -> Any:
        """The table in the form in which this contestant takes data; not timed."""
        return table

    def share(self, table: pa.Table) -> pa.Table:
        """What of a table this contestant is given."""
        return table if self.most_rows is None else table.slice(0, self.most_rows)

    @abstractmethod
    def write(self, directory: Path, prepared: Any) -> None:
        """Write the table into an empty directory and close it; what is not durable then, the race syncs."""

    @abstractmethod
    def open(self, directory: Path) -> Store:
        """Open what :meth:`write` wrote."""


class WriteOnly(Format):
    """A yardstick for writing that is no store."""

    def open(self, directory: Path) -> Store:
        """Not possible."""
        raise NotImplementedError(f"{self.name} is a yardstick for writing only")

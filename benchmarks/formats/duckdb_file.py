"""A table in a DuckDB file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from formats.base import SCAN_ROWS, THREADS, Format, Store

ROW_GROUP_ROWS = 122_880
"""Rows of a DuckDB row group."""

_SETTINGS: dict[str, Any] = {"threads": THREADS}


class DuckDB(Format):
    """``CREATE TABLE AS`` from the Arrow table, then ``CHECKPOINT``."""

    name = "DuckDB"

    def unavailable(self) -> str | None:
        """Why duckdb cannot be used."""
        try:
            import duckdb  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def prepare(self, table: pa.Table) -> Any:
        """The table in chunks of whole row groups.

        From chunks that straddle row groups DuckDB makes odd ones, which it then merges and writes again, in twice
        the time and space.
        """
        return pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=10 * ROW_GROUP_ROWS))

    def write(self, directory: Path, prepared: Any) -> None:
        """One statement and one checkpoint, which leaves everything in the one file."""
        import duckdb

        with duckdb.connect(str(directory / "events.duckdb"), config=_SETTINGS) as connection:
            connection.register("arrow_table", prepared)
            connection.execute("CREATE TABLE events AS SELECT * FROM arrow_table")
            connection.execute("CHECKPOINT")

    def open(self, directory: Path) -> Store:
        """Open the file read-only."""
        return _DuckDBStore(directory / "events.duckdb")


class _DuckDBStore(Store):
    def __init__(self, path: Path) -> None:
        import duckdb

        self._connection = duckdb.connect(str(path), read_only=True, config=_SETTINGS)

    def scan(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """A stream of batches; a relation, because the result of ``execute`` would be copied once more."""
        names = ", ".join(f'"{name}"' for name in columns) if columns is not None else "*"
        return iter(self._connection.sql(f"SELECT {names} FROM events").to_arrow_reader(SCAN_ROWS))

    def rows(self, first: int, count: int) -> pa.Table:
        """By row id, which DuckDB prunes row groups and vectors with."""
        query = f"SELECT * FROM events WHERE rowid >= {first} AND rowid < {first + count}"
        return self._connection.sql(query).to_arrow_table()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

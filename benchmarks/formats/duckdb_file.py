"""A table in a DuckDB file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from formats.base import AGGREGATES, SCAN_ROWS, THREADS, Aggregates, Band, Format, QueryStore

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

    def write_stream(self, directory: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Like :meth:`write`, from batches that are not in memory all at once; they should be whole row groups."""
        self.write(directory, pa.RecordBatchReader.from_batches(schema, batches))

    def open(self, directory: Path) -> DuckDBReader:
        """Open the file read-only."""
        return DuckDBReader(directory / "events.duckdb")


class DuckDBReader(QueryStore):
    """The table of a file, opened for reading."""

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

    def aggregate(self, start: int, end: int, column: str) -> Aggregates:
        """One query for all aggregates of the rows with times in ``[start, end)``."""
        calls = ", ".join(f'{function}("{column}")' for function in AGGREGATES)
        query = f"SELECT count(*), {calls} FROM events WHERE ts >= ? AND ts < ?"
        (found,) = self._connection.execute(query, [start, end]).fetchall()
        return Aggregates(*found)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """All rows of the result of a query."""
        return self._connection.execute(text).fetchall()

    def filter(self, band: Band) -> pa.Table:
        """A WHERE clause, on a column with zone maps."""
        return self._connection.sql(f"SELECT * FROM events WHERE {band.sql()}").to_arrow_table()

    def count(self, band: Band) -> int:
        """A count with a WHERE clause."""
        ((found,),) = self._connection.execute(f"SELECT count(*) FROM events WHERE {band.sql()}").fetchall()
        return int(found)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

"""A table in a DuckDB file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from formats.base import SCAN_ROWS, THREADS, Format, Store


class DuckDB(Format):
    """``CREATE TABLE AS`` from the Arrow table, then ``CHECKPOINT``.

    ``ordered=False`` lets DuckDB store the rows in any order, which its documentation advises for large loads. It is
    faster and denser so, but no longer a log: it is a yardstick for writing and for size only.
    """

    def __init__(self, *, ordered: bool = True) -> None:
        self.name = "DuckDB" if ordered else "DuckDB any order"
        self._settings: dict[str, Any] = {"threads": THREADS, "preserve_insertion_order": ordered}

    def unavailable(self) -> str | None:
        """Why duckdb cannot be used."""
        try:
            import duckdb  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def write(self, directory: Path, prepared: Any) -> None:
        """One statement and one checkpoint, which leaves everything in the one file."""
        import duckdb

        with duckdb.connect(str(directory / "events.duckdb"), config=self._settings) as connection:
            connection.register("arrow_table", prepared)
            connection.execute("CREATE TABLE events AS SELECT * FROM arrow_table")
            connection.execute("CHECKPOINT")

    def open(self, directory: Path) -> Store:
        """Open the file read-only."""
        return _DuckDBStore(directory / "events.duckdb", self._settings)


class _DuckDBStore(Store):
    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        import duckdb

        self._connection = duckdb.connect(str(path), read_only=True, config=settings)

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

"""A symbol in an ArcticDB library on LMDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from formats.base import THREADS, Band, Format, QueryStore

_LIBRARY, _SYMBOL = "library", "events"


class ArcticDB(Format):
    """``write`` of a pandas frame, which is what its public interface takes, with segments of the default size."""

    name = "ArcticDB"

    def unavailable(self) -> str | None:
        """Why arcticdb cannot be used."""
        try:
            import arcticdb  # noqa: F401
        except ImportError as error:
            return str(error)
        return None

    def prepare(self, table: pa.Table) -> Any:
        """The table as a pandas frame; the conversion is not timed."""
        return table.to_pandas()

    def write(self, directory: Path, prepared: Any) -> None:
        """One write; LMDB syncs each of its transactions."""
        _arctic(directory).create_library(_LIBRARY).write(_SYMBOL, prepared)

    def open(self, directory: Path) -> QueryStore:
        """Open the library for reads that give Arrow tables."""
        return _ArcticStore(directory)


class _ArcticStore(QueryStore):
    def __init__(self, directory: Path) -> None:
        self._library = _arctic(directory).get_library(_LIBRARY)

    def scan(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """One read: there is no stream of batches."""
        return iter(self._read(columns=list(columns) if columns is not None else None).to_batches())

    def rows(self, first: int, count: int) -> pa.Table:
        """A read of a range of rows."""
        return self._read(row_range=(first, first + count))

    def filter(self, band: Band) -> pa.Table:
        """A read with a query, which is evaluated segment by segment."""
        return self._read(query_builder=_query(band))

    def count(self, band: Band) -> int:
        """There is no count: a read with a query, of the one column."""
        return self._read(columns=[band.column], query_builder=_query(band)).num_rows

    def close(self) -> None:
        """Let go of the environment, which LMDB allows only once in a process."""
        del self._library

    def _read(self, **what: Any) -> pa.Table:
        return self._library.read(_SYMBOL, arrow_string_format_default=pa.string(), **what).data


def _query(band: Band) -> Any:
    from arcticdb import QueryBuilder

    query = QueryBuilder()
    # Python's floats become single precision where that is near enough by its measure, which loses rows at the ends.
    low, high = np.float64(band.low), np.float64(band.high)
    return query[(query[band.column] >= low) & (query[band.column] <= high)]


def _arctic(directory: Path) -> Any:
    import arcticdb
    from arcticdb.config import set_log_level
    from arcticdb_ext import set_config_int

    set_log_level("ERROR")
    set_config_int("VersionStore.NumCPUThreads", THREADS)
    return arcticdb.Arctic(f"lmdb://{directory}?map_size=64GB", output_format="pyarrow")

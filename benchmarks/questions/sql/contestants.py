"""Those who keep the same streams and answer queries of them: tidelog, a DuckDB file, DuckDB and Polars on Parquet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import data
from formats.base import THREADS
from formats.duckdb_file import ROW_GROUP_ROWS
from formats.ours import NAME as OURS

if TYPE_CHECKING:
    from questions.sql.query import Query

TABLE = "DuckDB"
PARQUET = "DuckDB on Parquet"
POLARS = "Polars"


class Contestant(ABC):
    """Keeps streams and answers queries."""

    name: str

    @abstractmethod
    def ask(self, query: Query) -> pa.Table:
        """All rows of a query's result."""

    def can(self, query: Query) -> bool:
        """Whether it can answer a query."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Let go of files and memory."""


class Tidelog(Contestant):
    """A store with the streams, under the default options; tables are given with each query."""

    name = OURS

    def __init__(self, directory: Path, streams: Sequence[str], tables: Mapping[str, pa.Table]) -> None:
        import tidelog

        self._tables = dict(tables)
        place = directory / "tidelog"
        with tidelog.open(place) as store:
            for stream in streams:
                with pq.ParquetFile(_parquet(directory, stream)) as file:
                    made = store.create_stream(stream, file.schema_arrow, time="ts")
                    for batch in file.iter_batches(ROW_GROUP_ROWS):
                        made.append(batch)
        self.store = tidelog.open(place, read_only=True)

    def ask(self, query: Query) -> pa.Table:
        """One call."""
        found: pa.Table = self.store.sql(query.text, tables=self._tables if query.has_tables else None).arrow()
        return found

    def close(self) -> None:
        """Close the store."""
        self.store.close()


class _Engine(Contestant):
    """DuckDB with as many threads as we have."""

    def __init__(self, database: str, **options: Any) -> None:
        import duckdb

        self.connection = duckdb.connect(database, config={"threads": THREADS}, **options)

    def ask(self, query: Query) -> pa.Table:
        """A relation: the result of ``execute`` would be copied once more."""
        found: pa.Table = self.connection.sql(query.text).to_arrow_table()
        return found

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class DuckDBTable(_Engine):
    """The streams as tables of a DuckDB file, with their rows in the order of time."""

    name = TABLE

    def __init__(self, directory: Path, streams: Sequence[str], tables: Mapping[str, pa.Table]) -> None:
        import duckdb

        path = str(directory / "events.duckdb")
        with duckdb.connect(path, config={"threads": THREADS}) as connection:
            for stream in streams:
                source = _parquet(directory, stream)
                connection.execute(f"CREATE TABLE {stream} AS SELECT * FROM read_parquet('{source}')")
            for name, table in tables.items():
                connection.register("given", table)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            connection.execute("CHECKPOINT")
        super().__init__(path, read_only=True)


class DuckDBParquet(_Engine):
    """Views of files of Parquet, which have row groups of DuckDB's size."""

    name = PARQUET

    def __init__(self, directory: Path, streams: Sequence[str], tables: Mapping[str, pa.Table]) -> None:
        super().__init__(":memory:")
        for stream in streams:
            source = _parquet(directory, stream)
            self.connection.execute(f"CREATE VIEW {stream} AS SELECT * FROM read_parquet('{source}')")
        for name, table in tables.items():
            self.connection.register("given", table)
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")


class Polars(Contestant):
    """Lazy frames of the files of Parquet, for the queries that are written for them too."""

    name = POLARS

    def __init__(self, directory: Path, streams: Sequence[str], tables: Mapping[str, pa.Table]) -> None:
        import polars

        self._frames = {stream: polars.scan_parquet(_parquet(directory, stream)) for stream in streams}

    def can(self, query: Query) -> bool:
        """What was written for it."""
        return query.frames is not None

    def ask(self, query: Query) -> pa.Table:
        """Collected, and handed over as Arrow."""
        assert query.frames is not None
        found: pa.Table = query.frames(self._frames).collect().to_arrow()
        return found

    def close(self) -> None:
        """Nothing is open."""


CONTESTANTS = (Tidelog, DuckDBTable, DuckDBParquet, Polars)
"""In the order in which they are made."""


def write_parquet(directory: Path, streams: Mapping[str, tuple[str, int]]) -> None:
    """Make streams, each a kind of :mod:`data` and a number of rows, as Parquet, from which everybody takes them."""
    for name, (kind, rows) in streams.items():
        batches = data.batches(kind, rows)
        first = next(batches)
        with pq.ParquetWriter(_parquet(directory, name), first.schema, compression="lz4") as writer:
            for batch in _regrouped(first, batches):
                writer.write_table(batch, row_group_size=ROW_GROUP_ROWS)


def _regrouped(first: pa.RecordBatch, others: Any) -> Any:
    """Tables of whole row groups."""
    waiting = [first]
    for batch in others:
        waiting.append(batch)
        rows = sum(each.num_rows for each in waiting)
        if rows >= 8 * ROW_GROUP_ROWS:
            table = pa.Table.from_batches(waiting)
            whole = rows // ROW_GROUP_ROWS * ROW_GROUP_ROWS
            yield table.slice(0, whole)
            waiting = table.slice(whole).to_batches()
    yield pa.Table.from_batches(waiting, first.schema)


def _parquet(directory: Path, stream: str) -> Path:
    return directory / f"{stream}.parquet"

"""A stream as a relation of DuckDB, which asks it for columns and filters when a query runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidelog.model.times.interval import Interval
from tidelog.plan.reading import End, Reading, read
from tidelog.sql.filters import condition_of
from tidelog.sql.sources import StreamAt


class Relation:
    """One mention of a stream in a statement: what of it may be read, and what was."""

    def __init__(self, stream: StreamAt, schema: pa.Schema) -> None:
        self.stream = stream
        self.schema = schema
        self.where: str | None = None
        """A condition that the statement has as well, so that applying it here changes nothing."""
        self.end: End | None = None
        """The rows of one end are enough."""
        self.confined = Interval()
        """The times that the statement asks for, by its text."""
        self.is_indexed = False
        self.way = "the events"
        """What it is answered from."""
        self.reasons: list[str] = []
        """Why not in a faster way."""
        self.readings: list[Reading] = []
        self.failure: BaseException | None = None
        """What reading has raised: DuckDB tells its text alone."""

    def dataset(self) -> ds.Dataset:
        """The relation, as DuckDB takes it."""
        return _Dataset(self.schema, self._scanner)

    def _scanner(self, columns: Sequence[str] | None, filter: pc.Expression | None) -> ds.Scanner:
        wanted = self.schema.names if columns is None else list(columns)
        try:
            text, is_whole = (None, True) if filter is None else condition_of(filter)
            conditions = [f"({each})" for each in (text, self.where) if each is not None]
            # What only Arrow can apply may be about any column.
            names = wanted if is_whole else self.schema.names
            stream = self.stream
            where = " AND ".join(conditions) or None
            reading, batches = read(stream.snapshot, stream.numbers, names, where, self.end)
        except BaseException as error:
            self.failure = error
            raise
        self.readings.append(reading)
        schema = pa.schema([self.schema.field(name) for name in names])
        found = self._watched(batches)
        if is_whole:
            return ds.Scanner.from_batches(found, schema=schema)
        kept = (batch.filter(filter).select(wanted) for batch in found)
        return ds.Scanner.from_batches(kept, schema=pa.schema([schema.field(name) for name in wanted]))

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except BaseException as error:
            self.failure = error
            raise


class _Dataset(ds.InMemoryDataset):  # type: ignore[misc]  # Arrow has no types
    """What DuckDB takes for a dataset of Arrow, which it may ask for columns and filters.

    A class of its own cannot be made, but one that derives from a dataset in memory, here an empty one, can.
    """

    def __init__(
        self, schema: pa.Schema, scan: Callable[[Sequence[str] | None, pc.Expression | None], ds.Scanner]
    ) -> None:
        super().__init__(schema.empty_table())
        self._scan = scan

    def scanner(self, columns: Any = None, filter: Any = None, **_: Any) -> ds.Scanner:
        """Begin to read some columns of the rows that pass a filter, which nobody applies again."""
        return self._scan(columns, filter)

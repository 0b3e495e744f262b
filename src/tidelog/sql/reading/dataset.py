"""A stream as a relation of DuckDB, which asks it for columns and filters when a query runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidelog.expr import predicate
from tidelog.model.arrays import integer_column
from tidelog.model.times.interval import Interval
from tidelog.plan.reading import EVER, End, Reading, read
from tidelog.sql.reading.filters import Condition, conditions_of
from tidelog.sql.reading.sources import StreamAt

STREAM_FIELD: Final = pa.field("_stream", pa.string(), nullable=False)
"""The column with the name of each row's stream, where several are read as one."""

PLACE_FIELD: Final = pa.field("#place", pa.int64(), nullable=False)
"""The column with the number of a row among those that are read, in the order of (time, ``_seq``)."""


class Relation:
    """One mention of a stream in a statement: what of it may be read, and what was."""

    is_one = True
    """Whether its rows are those of one stream, in their order."""

    def __init__(self, stream: StreamAt, schema: pa.Schema) -> None:
        self.stream = stream
        self.streams: Sequence[StreamAt] = (stream,)
        """What is read, one after the other."""
        self.schema = schema
        self.where: str | None = None
        """A condition that the statement has as well, so that applying it here changes nothing."""
        self.hint: str | None = None
        """Another one, which rows that are read need not satisfy."""
        self.within = EVER
        """Times outside of which no row is wanted."""
        self.end: End | None = None
        """The rows of one end are enough."""
        self.confined: Callable[[], Interval] = Interval
        """The times that the statement asks for, by its text."""
        self.is_indexed = False
        """Whether no events are read when the statement is run."""
        self.way = "the events"
        """What it is answered from."""
        self.reasons: list[str] = []
        """Why not in a faster way."""
        self.readings: list[Reading] = []
        self.failure: BaseException | None = None
        """What reading has raised: DuckDB tells its text alone."""

    def add_condition(self, text: str) -> None:
        """Have only rows that satisfy a condition of the statement."""
        self.where = text if self.where is None else f"({self.where}) AND ({text})"

    def add_hint(self, text: str) -> None:
        """Read only what may have rows that satisfy a condition of the statement."""
        self.hint = text if self.hint is None else f"({self.hint}) AND ({text})"

    def number_rows(self) -> None:
        """Have a column more, with the place of each row."""
        if PLACE_FIELD.name not in self.schema.names:
            self.schema = self.schema.append(PLACE_FIELD)

    def dataset(self) -> ds.Dataset:
        """The relation, as DuckDB takes it."""
        return ScannedDataset(self.schema, self._scanner)

    def rows(self, names: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
        """The rows that satisfy a condition, with some stored columns."""
        return self._watched(self._read(self.stream, names, [] if where is None else [where]))

    def _scanner(self, columns: Sequence[str] | None, filter: pc.Expression | None) -> ds.Scanner:
        wanted = self.schema.names if columns is None else list(columns)
        try:
            conditions, is_whole = ([], True) if filter is None else conditions_of(filter)
            # What only Arrow can apply may be about any column.
            names, batches = self._begin(wanted if is_whole else self.schema.names, conditions)
        except BaseException as error:
            self.failure = error
            raise
        schema = pa.schema([self.schema.field(name) for name in names])
        found = self._watched(batches)
        if is_whole:
            return ds.Scanner.from_batches(found, schema=schema)
        kept = (batch.filter(filter).select(wanted) for batch in found)
        return ds.Scanner.from_batches(kept, schema=pa.schema([schema.field(name) for name in wanted]))

    def _begin(
        self, names: Sequence[str], conditions: Sequence[Condition]
    ) -> tuple[Sequence[str], Iterator[pa.RecordBatch]]:
        """Begin to read; returns the columns that come, too."""
        texts = [each.text for each in conditions]
        if PLACE_FIELD.name not in names:
            return names, self._read(self.stream, names, texts)
        stored = [name for name in names if name != PLACE_FIELD.name] or [self.stream.time]
        return names, _numbered(self._read(self.stream, stored, texts), names)

    def _read(self, stream: StreamAt, names: Sequence[str], conditions: Sequence[str]) -> Iterator[pa.RecordBatch]:
        texts = [f"({each})" for each in (*conditions, self.where) if each is not None]
        where = " AND ".join(texts) or None
        reading, batches = read(
            stream.snapshot, stream.numbers, names, where, self.end, within=self.within, hint=self.hint
        )
        self.readings.append(reading)
        return batches

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        try:
            yield from batches
        except GeneratorExit:  # nobody wants the rest: the statement has ended, perhaps by a failure of its own
            raise
        except BaseException as error:
            self.failure = error
            raise


def _numbered(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches with the places of their rows beside them."""
    rows = 0
    for batch in batches:
        places = integer_column(np.arange(rows, rows + batch.num_rows))
        rows += batch.num_rows
        columns = [places if name == PLACE_FIELD.name else batch.column(name) for name in names]
        yield pa.record_batch(columns, names=list(names))


class ManyStreams(Relation):
    """Streams of the same columns, one after the other, with the name of its stream beside each row."""

    is_one = False

    def __init__(self, streams: Sequence[StreamAt], schema: pa.Schema) -> None:
        super().__init__(streams[0], schema.append(STREAM_FIELD))
        self.streams = streams
        self.reasons = ["not from the index, because several streams are read"]

    def _begin(
        self, names: Sequence[str], conditions: Sequence[Condition]
    ) -> tuple[Sequence[str], Iterator[pa.RecordBatch]]:
        own = STREAM_FIELD.name
        about_names = [each.text for each in conditions if each.columns == {own}]
        mixed = [each for each in conditions if own in each.columns and each.columns != {own}]
        about_rows = [each.text for each in conditions if own not in each.columns]
        streams = [stream for stream in self.streams if _holds(about_names, stream.name)]
        needed = list(dict.fromkeys([*names, *(name for each in mixed for name in each.columns)]))
        condition = predicate(" AND ".join(each.text for each in mixed), self.schema) if mixed else None

        def batches() -> Iterator[pa.RecordBatch]:
            stored = [name for name in needed if name != own]
            for stream in streams:
                for batch in self._read(stream, stored or [stream.time], about_rows):
                    name = pa.repeat(pa.scalar(stream.name), batch.num_rows)
                    columns = [name if each == own else batch.column(each) for each in needed]
                    rows = pa.record_batch(columns, names=needed)
                    yield (rows if condition is None else rows.filter(pa.array(condition.mask(rows)))).select(names)

        return names, batches()


def _holds(conditions: Sequence[str], name: str) -> bool:
    """Whether conditions about the names of streams hold for a name."""
    if not conditions:
        return True
    schema = pa.schema([STREAM_FIELD])
    one = pa.record_batch([pa.array([name])], schema=schema)
    return bool(predicate(" AND ".join(conditions), schema).mask(one)[0])


class ScannedDataset(ds.InMemoryDataset):  # type: ignore[misc]  # Arrow has no types
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

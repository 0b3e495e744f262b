"""A stream as a relation of DuckDB, which asks it for columns and filters when a query runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tidelog.expr import predicate
from tidelog.expr.errors import ExpressionError
from tidelog.model.arrays import integer_column
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.plan.reading import EVER, End, Reading, condition_of, estimate, read
from tidelog.sql.reading.sources import StreamAt
from tidelog.storage.codec import CODED_TEXT

if TYPE_CHECKING:
    from tidelog.sql.reading.filters import Condition

STREAM_FIELD: Final = pa.field("_stream", pa.string(), nullable=False)
"""The column with the name of each row's stream, where several are read as one."""

PLACE_FIELD: Final = pa.field("#place", pa.int64(), nullable=False)
"""The column with the number of a row among those that are read, in the order of (time, ``_seq``)."""


_BATCH_ROWS: Final = 1 << 17
"""Rows of a batch at the most: each is worked on by one thread of DuckDB."""


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
        self.is_alone = True
        """Whether the statement reads nothing else."""
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
            self.look_again()

    def look_again(self) -> None:
        """Forget what was told of it before it was changed: DuckDB is asked about statements while they are planned."""
        for name in ("likely_rows", "_times", "handed", "shape"):
            self.__dict__.pop(name, None)

    @cached_property
    def shape(self) -> str:
        """What is equal for relations of the same columns."""
        return str([(each.name, str(each.type), each.nullable) for each in self.schema])

    def source(self) -> Any:
        """The relation, as DuckDB takes it."""
        from tidelog.sql.reading.source import Source  # which loads DuckDB

        return Source(self)

    def rows(self, names: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
        """The rows that satisfy a condition, with some stored columns."""
        return self.watched(self._read(self.stream, names, [] if where is None else [where], coded=False))

    @property
    def likely_rows(self) -> int:
        """About how many rows there are to read, by which DuckDB chooses the sides of joins."""
        within = self._times if self.is_alone else self.within & self.confined()  # which takes a while to tell
        return estimate(self.stream.snapshot, within, self.end)

    @property
    def likely_blocks(self) -> int:
        """About how many blocks that is."""
        return -(-self.likely_rows // self.stream.options.leaf_rows)

    @property
    def _times(self) -> Intervals:
        """The times that are read, but for conditions that come. DuckDB pushes no comparisons of nanoseconds."""
        kind = self.schema.field(self.stream.time).type
        is_pushed = not pa.types.is_timestamp(kind) or kind.unit != "ns"
        return self.within if is_pushed else self.within & self.confined()

    @property
    def handed(self) -> pa.Schema:
        """The columns as DuckDB gets them: strings as dictionaries, which it takes for texts all the same."""
        return handed(self.schema)

    def can_apply(self, filter: Condition) -> bool:
        """Whether a condition can be applied to the rows before they come out."""
        try:
            condition_of(filter.text, self.schema)
        except ExpressionError:
            return False
        return PLACE_FIELD.name not in filter.columns  # which is not stored

    def reader(self, columns: Sequence[str], conditions: Sequence[Condition]) -> pa.RecordBatchReader:
        """Begin to read some columns of the rows that satisfy conditions, which nobody applies again."""
        batches = self._begun(lambda: self._begin(columns, conditions))
        schema = pa.schema([self.handed.field(name) for name in columns])
        return pa.RecordBatchReader.from_batches(schema, self.watched(handed_over(batches, schema)))

    def reading(self, columns: Sequence[str], conditions: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Begin to read some stored columns of the rows that satisfy conditions; strings may come as dictionaries."""
        return self._begun(lambda: self._read(self.stream, columns, conditions))

    def _begun(self, begin: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        try:
            return begin()
        except BaseException as error:
            self.failure = error
            raise

    def _begin(self, names: Sequence[str], conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        texts = [each.text for each in conditions]
        if PLACE_FIELD.name not in names:
            return self._read(self.stream, names, texts)
        stored = [name for name in names if name != PLACE_FIELD.name] or [self.stream.time]
        return _numbered(self._read(self.stream, stored, texts), names)

    def _read(
        self, stream: StreamAt, names: Sequence[str], conditions: Sequence[str], *, coded: bool = True
    ) -> Iterator[pa.RecordBatch]:
        texts = [f"({each})" for each in (*conditions, self.where) if each is not None]
        where = " AND ".join(texts) or None
        reading, batches = read(
            stream.snapshot, stream.numbers, names, where, self.end, within=self._times, hint=self.hint, coded=coded
        )
        self.readings.append(reading)
        return batches

    def watched(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """The same batches, while it is noted what reading them raises."""
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

    @property
    def likely_rows(self) -> int:
        """About how many rows there are in all streams."""
        return sum(estimate(each.snapshot, self.within, None) for each in self.streams)

    def _begin(self, names: Sequence[str], conditions: Sequence[Condition]) -> Iterator[pa.RecordBatch]:
        own = STREAM_FIELD.name
        about_names = [each.text for each in conditions if each.columns == {own}]
        mixed = [each for each in conditions if own in each.columns and each.columns != {own}]
        about_rows = [each.text for each in conditions if own not in each.columns]
        streams = [stream for stream in self.streams if holds(about_names, stream.name)]
        needed = list(dict.fromkeys([*names, *(name for each in mixed for name in each.columns)]))
        condition = predicate(" AND ".join(each.text for each in mixed), self.schema) if mixed else None

        def batches() -> Iterator[pa.RecordBatch]:
            stored = [name for name in needed if name != own]
            for stream in streams:
                for batch in self._read(stream, stored or [stream.time], about_rows):
                    first = pa.array(np.zeros(batch.num_rows, np.int32))
                    name = pa.DictionaryArray.from_arrays(first, pa.array([stream.name]))
                    columns = [name if each == own else batch.column(each) for each in needed]
                    rows = pa.record_batch(columns, names=needed)
                    if condition is not None:
                        rows = rows.filter(pa.array(condition.mask(_plain(rows))))
                    yield rows.select(names)

        return batches()


def handed(schema: pa.Schema) -> pa.Schema:
    """Columns as DuckDB gets them: strings as dictionaries, which it takes for texts all the same."""
    return pa.schema([each.with_type(CODED_TEXT) if pa.types.is_string(each.type) else each for each in schema])


def handed_over(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches as DuckDB gets them."""
    for batch in batches:
        for first in range(0, batch.num_rows, _BATCH_ROWS):
            yield _coded(batch.slice(first, _BATCH_ROWS), schema)


def _coded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with strings as dictionaries; each row has a value of its own where they were none."""
    if batch.schema.types == schema.types:
        return batch
    columns = [
        column if column.type == kind else _each_its_own(column)
        for column, kind in zip(batch.columns, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with dictionaries as strings."""
    columns = [each.cast(pa.string()) if pa.types.is_dictionary(each.type) else each for each in batch.columns]
    return pa.record_batch(columns, names=batch.schema.names)


def _each_its_own(column: pa.Array) -> pa.Array:
    numbers = pa.array(np.arange(len(column), dtype=np.int32))
    if column.null_count:
        numbers = pc.if_else(column.is_valid(), numbers, pa.scalar(None, pa.int32()))
    return pa.DictionaryArray.from_arrays(numbers, column, safe=False)


def holds(conditions: Sequence[str], name: str) -> bool:
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

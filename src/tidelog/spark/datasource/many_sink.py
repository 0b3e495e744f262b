"""Writing a DataFrame into many streams, whose names are in one of its columns.

Every stream gets its rows by one commit of its own: all of them or none. There is no commit over several streams: when
a job fails while it commits, some have their rows and others do not. With a transaction's number, as batches of
streaming queries have it, running the job again gives the rest theirs, and nobody anything twice.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from tidelog.engine.store import Store, manifests_of
from tidelog.model.errors import InputError, SchemaError, did_you_mean
from tidelog.model.schema import Schema
from tidelog.spark.datasource.committing import Splits, Written, commit_splits, remove_splits, splits_of
from tidelog.spark.datasource.options import SinkOptions
from tidelog.spark.datasource.sink import check_time, create_missing
from tidelog.spark.datasource.types import FromSpark, stored_schema
from tidelog.spark.runtime.errors import plainly
from tidelog.spark.runtime.workers import settle
from tidelog.store.bulk import MEMORY, BulkWriter
from tidelog.store.manifest.manifest import SplitInfo
from tidelog.store.rows.stored import concatenated
from tidelog.store.split.context import StreamContext
from tidelog.threads import AT_ONCE, Task, Threads

_OPEN_WRITERS: Final = 8
"""Streams that a task writes at once. When another one comes, the one that has waited longest ends its split."""

_GATHERED: Final = 16 << 20
"""Bytes of rows that a task gathers before it looks at the names in them: those of new streams are created together,
and rows of a stream that come one by one among others make few splits instead of many."""


class ManyWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame into the streams that they name."""

    def __init__(self, options: SinkOptions, brought: StructType, overwrite: bool) -> None:
        """Raises unless the columns can be those of streams; streams are looked for, or created, by tasks."""
        if overwrite:
            raise InputError(
                "many streams cannot be overwritten at once, for they have no commit in common; write with mode "
                "append, or one stream at a time"
            )
        column = options.stream_column
        assert column is not None
        if column not in brought.names:
            raise InputError(
                f"option 'stream_column' is {column!r}, which is no column; {did_you_mean(column, brought.names)}"
            )
        if not isinstance(brought[column].dataType, StringType):
            raise SchemaError(
                f"column {column!r} is to have the names of streams and is {brought[column].dataType.simpleString()}; "
                "expected string: cast it"
            )
        self._options = options
        self._place = brought.names.index(column)
        self._rest = StructType([each for each in brought if each.name != column])
        if options.time is not None:
            stored_schema(self._rest, options.time)  # raises for columns that no stream can have
        with Store.open(options.path):  # which is created now rather than by several tasks
            pass

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task into closed, durable splits of its own."""
        with Store.open(self._options.path, maintenance="manual") as store:
            writers = _Writers(store, self._options, self._rest)
            try:
                for rows in gathered(iterator):
                    writers.append(by_name(rows, self._place))
                written = Written(writers.finish())
            except BaseException:
                writers.abandon()
                raise
        settle()
        return written

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible, stream by stream."""
        commit_splits(self._options, splits_of(messages), self._options.job)

    @plainly
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what tasks that succeeded have written, unless it was committed all the same."""
        remove_splits(self._options, splits_of(messages))


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not small, but for the last one."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _GATHERED:
            yield concatenated(held, batch.schema)
            held, size = [], 0
    if held:
        yield concatenated(held, held[0].schema)


def by_name(batch: pa.RecordBatch, place: int) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a batch for each name in a column, without that column and in the order they are in."""
    names = batch.column(place)
    if names.null_count:
        row = int(pc.index(pc.is_null(names), pa.scalar(True)).as_py())
        raise InputError(
            f"column {batch.schema.names[place]!r} has the name of a row's stream and is null in a row; fill it in, or "
            "leave such rows out",
            row=row,
        )
    if not batch.num_rows:
        return
    rest = batch.remove_column(place)
    coded = names.dictionary_encode()
    codes = coded.indices.to_numpy()
    if len(coded.dictionary) > 1:
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        if (np.diff(order) != 1).any():
            rest = rest.take(pa.array(order))
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), batch.num_rows]
    for first, last in pairwise(cuts):
        yield coded.dictionary[int(codes[first])].as_py(), rest.slice(first, last - first)


@dataclass(frozen=True)
class _Ending:
    """A writer whose splits are being made durable by another thread."""

    name: str
    writer: BulkWriter
    splits: Task[list[SplitInfo]]


class _Writers:
    """Writers of several streams, few of which are at work at once, and few more are waiting for the disk."""

    def __init__(self, store: Store, options: SinkOptions, rest: StructType) -> None:
        self._store = store
        self._options = options
        self._rest = rest
        self._open: OrderedDict[str, tuple[BulkWriter, FromSpark]] = OrderedDict()
        self._ending: deque[_Ending] = deque()
        self._threads = Threads(AT_ONCE)
        self._converters: list[tuple[Schema, FromSpark]] = []
        """For each schema that a stream has: most have the same."""
        self._done: dict[str, list[SplitInfo]] = defaultdict(list)

    def append(self, parts: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        """Write rows of streams, those of new ones when all of these are created."""
        chosen = list(parts)
        create_missing(self._store, self._options, [name for name, _ in chosen if name not in self._open], self._rest)
        for name, rows in chosen:
            writer, converter = self._writer(name)
            for batch in converter.convert(rows):
                writer.append(batch)

    def _writer(self, name: str) -> tuple[BulkWriter, FromSpark]:
        if name not in self._open:
            while len(self._open) >= _OPEN_WRITERS:
                self._end(next(iter(self._open)))
            context = StreamContext.of(manifests_of(self._store, name))
            schema = context.layout.schema
            check_time(self._options, name, schema)
            memory = MEMORY // (_OPEN_WRITERS + AT_ONCE)
            self._open[name] = BulkWriter(context, memory=memory), self._converter(schema)
        self._open.move_to_end(name)
        return self._open[name]

    def _converter(self, schema: Schema) -> FromSpark:
        for known, converter in self._converters:
            if known == schema:
                return converter
        converter = FromSpark(schema, self._rest)
        self._converters.append((schema, converter))
        return converter

    def _end(self, name: str) -> None:
        """End the splits of a writer, while others go on."""
        while len(self._ending) >= AT_ONCE:
            self._wait()
        writer, _ = self._open.pop(name)
        self._ending.append(_Ending(name, writer, self._threads.submit(writer.finish)))

    def _wait(self) -> None:
        """Wait for the writer that was ended first: splits of a stream stay in the order of their rows."""
        self._done[self._ending[0].name] += self._ending[0].splits.result()
        self._ending.popleft()

    def finish(self) -> Splits:
        """End all splits; returns them."""
        for name in list(self._open):
            self._end(name)
        while self._ending:
            self._wait()
        self._threads.end()
        return {name: tuple(splits) for name, splits in self._done.items()}

    def abandon(self) -> None:
        """Remove all files."""
        for each in self._ending:
            each.splits.cancel()
        self._threads.end()  # waits for those at work
        for writer in [*(each.writer for each in self._ending), *(writer for writer, _ in self._open.values())]:
            writer.abandon()
        remove_splits(self._options, self._done)

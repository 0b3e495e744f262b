"""Writing DataFrames into streams: tasks write splits that nobody sees, one commit at the end makes them visible.

Nothing waits for the stream's own writer, and it waits for nobody (docs/design/004-spark.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import LongType, StructType, TimestampNTZType, TimestampType

from tidelog.engine.store import Store, manifests_of
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.arguments import flag, integer, pair
from tidelog.model.errors import InputError, NotFoundError, did_you_mean, listed
from tidelog.model.schema import Schema
from tidelog.spark.datasource.committing import Written, commit_splits, remove_splits, splits_of
from tidelog.spark.datasource.options import NAME, OutsideRule, SinkOptions, option_texts, shared_path
from tidelog.spark.datasource.overwriting import APPEND, NONE_OUTSIDE, Outside, interval_of, replaced_range
from tidelog.spark.datasource.types import TIME_MARK, FromSpark, stored_schema
from tidelog.spark.runtime.errors import own_errors, plainly
from tidelog.spark.runtime.session import is_remote, make_active
from tidelog.spark.runtime.workers import settle
from tidelog.store.bulk import BulkWriter
from tidelog.store.rows.stored import times
from tidelog.store.split.context import StreamContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TidelogWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame, all of them or none."""

    def __init__(self, options: SinkOptions, brought: StructType, overwrite: bool) -> None:
        """Creates the stream if it has to be; raises unless the columns fit it."""
        options.check_mode(overwrite)
        self._options = options
        with Store.open(options.path) as store:
            if options.create and options.stream not in store:  # what is wrong is found before there is one
                self._fit(new_schema(store, options, options.stream, brought), brought, overwrite)
            stream = find_or_create(store, options, options.stream, brought)
            self._fit(stream.schema, brought, overwrite)
            self._version = writer_of(stream).context.version

    def _fit(self, schema: Schema, brought: StructType, overwrite: bool) -> None:
        self._schema = schema
        self._convert = FromSpark(schema, brought)
        self._overwrite = interval_of(self._options, schema.clock) if overwrite else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task into closed, durable splits of its own.

        If some are not in the range to overwrite, they are counted instead: the commit says how many there are in all.
        """
        refused = NONE_OUTSIDE
        with Store.open(self._options.path) as store:
            # The schema that the rows were planned for, whatever it has become.
            context = StreamContext.of(manifests_of(store, self._options.stream), self._version)
            with BulkWriter(context) as writer:
                for batch in iterator:
                    for rows in self._convert.convert(batch):
                        refused = Outside.together([refused, self._refused(rows)])
                        if not refused.rows:
                            writer.append(rows)
                splits = [] if refused.rows else writer.finish()
        settle()
        return Written({self._options.stream: splits} if splits else {}, refused)

    def _refused(self, rows: pa.RecordBatch) -> Outside:
        if self._overwrite is None or self._options.outside == APPEND:
            return NONE_OUTSIDE
        return Outside.of(times(rows, self._schema), self._overwrite)

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible, in one step, and delete what they replace."""
        if self._overwrite is not None:
            refused = Outside.together(message.outside for message in messages if isinstance(message, Written))
            refused.refuse(self._overwrite, self._schema.clock)
        # Without any rows there is still a range to be emptied, or the number of a job to be noted.
        splits = {self._options.stream: [], **splits_of(messages)}
        commit_splits(self._options, splits, self._options.job, self._overwrite)

    @plainly
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what tasks that succeeded have written, unless it was committed all the same."""
        remove_splits(self._options, splits_of(messages))


def find_or_create(store: Store, options: SinkOptions, name: str, brought: StructType) -> Stream:
    """A stream to write to. Raises :class:`NotFoundError` if there is none and none may be made."""
    create_missing(store, options, [name], brought)
    stream = store.stream(name)
    check_time(options, name, stream.schema)
    return stream


def create_missing(store: Store, options: SinkOptions, names: Iterable[str], brought: StructType) -> None:
    """Create those streams that there are not, in one commit; another job may do so at the same time.

    Raises :class:`NotFoundError` if there is one to be made and none may be.
    """
    missing = [name for name in names if name not in store]
    if not missing:
        return
    if not options.create:
        store.stream(missing[0])  # raises, and says which ones there are
    store.create_streams(missing, new_schema(store, options, missing[0], brought), exist_ok=True)


def new_schema(store: Store, options: SinkOptions, name: str, brought: StructType) -> Schema:
    """The schema of a stream that is to be created. Raises :class:`NotFoundError` if its time column was not named."""
    if options.time is not None:
        return stored_schema(brought, options.time)
    able = [each for each in brought if isinstance(each.dataType, TimestampType | TimestampNTZType | LongType)]
    # A timestamp is more likely meant than a number.
    names = [each.name for each in sorted(able, key=lambda each: isinstance(each.dataType, LongType))]
    if names:
        advice = f"time={names[0]!r}" + (f", or one of {listed(names[1:])}" if names[1:] else "")
    else:
        advice = f"cast one of {listed(brought.names)} to timestamp or bigint, and name it with time=..."
    raise NotFoundError(
        f"there is no stream {name!r} in {options.path} ({did_you_mean(name, store.streams())}); to create it, say "
        f"which column has the times of events: {advice}"
    )


def check_time(options: SinkOptions, name: str, schema: Schema) -> None:
    """Raise :class:`InputError` if the options say another time column than a stream has."""
    if options.time not in (None, schema.time):
        raise InputError(
            f"option 'time' is {options.time!r}, but the time column of stream {name!r} is {schema.time!r}; "
            "leave the option out"
        )


def write(
    frame: DataFrame,
    path: str | os.PathLike[str],
    stream: str | None = None,
    *,
    stream_column: str | None = None,
    time: str | None = None,
    create: bool = True,
    overwrite: bool | tuple[Any, Any] | list[Any] = False,
    outside: OutsideRule | None = None,
    partitions: int | None = None,
    sort: bool = True,
    transaction: tuple[str, int] | None = None,
    compact: bool = True,
) -> None:
    """Write a DataFrame into a stream, all of it or nothing; returns when it is durable and visible to everyone.

    Columns are matched by name; missing ones become null, and no value may change on the way
    (:mod:`tidelog.model.conversion.convert`). If there is no such stream, it is created with the time column ``time``,
    unless ``create`` is false; it stays, empty, if the job fails. ``overwrite=True`` replaces all events, and a start
    and an end, half-open and either of them None for no bound, those of a time range. Rows outside of the range are an
    :class:`InputError` that tells how many there are, and then nothing is written; ``outside="append"`` adds them.

    Rows are brought into order of time first, so that each of ``partitions`` tasks writes one range; without a number
    Spark chooses. ``sort=False`` leaves rows in the order and tasks they are in: any order gives a correct stream, but
    many splits that overlap make it slower to read.

    A job can fail, or its driver be killed, after its rows have become visible: it looks like one that has written
    nothing. ``transaction``, a name and a number that rises from job to job, makes it safe to run such a job again: if
    the number is not above the last that was committed under the name, nothing is written.

    Instead of a ``stream``, ``stream_column`` names a column, of text, with the name of each row's stream; it is not
    stored. Every stream then gets its rows by a commit of its own: see :mod:`tidelog.spark.datasource.many_sink`.
    ``time`` has to be given for rows to be sorted, and nothing can be overwritten.

    If many small splits have come together, the driver merges some of them after the commit, unless ``compact`` is
    false.

    Raises :class:`NotFoundError`, :class:`InputError` and :class:`SchemaError` for what cannot be written.
    """
    replaced = replaced_range(overwrite)
    start, end = (None, None) if replaced is None else replaced
    name, number = (None, None) if transaction is None else pair("transaction", transaction, "a name and a number")
    for setting, value in (("create", create), ("sort", sort), ("compact", compact)):
        flag(setting, value)
    if partitions is not None:
        partitions = integer("partitions", partitions, 1)
    texts = option_texts(
        {
            "stream": stream,
            "stream_column": stream_column,
            "time": time,
            "create": create,
            "overwrite_start": start,
            "overwrite_end": end,
            "outside": outside,
            "transaction": name,
            "transaction_number": number,
            "compact": compact,
        }
    )
    write_with(frame, path, texts, overwrite=replaced is not None, partitions=partitions, sort=sort)


def write_with(
    frame: DataFrame,
    path: str | os.PathLike[str],
    texts: Mapping[str, str],
    *,
    overwrite: bool,
    partitions: int | None = None,
    sort: bool = True,
) -> None:
    """:func:`write`, with what the sink is told as texts."""
    make_active(frame.sparkSession)
    place = shared_path(path, is_remote=is_remote(frame.sparkSession))
    options = SinkOptions.read({**texts, "path": place})
    options.check_mode(overwrite)
    if sort:
        frame = _sorted(frame, options, place, partitions)
    with own_errors():
        frame.write.format(NAME).mode("overwrite" if overwrite else "append").options(**texts).save(place)


def _sorted(frame: DataFrame, options: SinkOptions, place: str, partitions: int | None) -> DataFrame:
    """The rows in order of time, each task having one range."""
    column = options.time
    if column is None:
        if not options.stream:
            raise InputError("rows of many streams are sorted by time; say which column it is: time=..., or sort=False")
        try:
            column = _time_column(frame, place, options.stream)
        except NotFoundError:
            return frame  # there is no stream yet, and the sink says what it takes to create it
    keys = [f"`{each.replace('`', '``')}`" for each in (options.stream_column, column) if each in frame.columns]
    if not keys:  # the sink says what is missing
        return frame
    spread = frame.repartitionByRange(*keys) if partitions is None else frame.repartitionByRange(partitions, *keys)
    return spread.sortWithinPartitions(*keys)


def _time_column(frame: DataFrame, path: str, stream: str) -> str:
    """The time column of a stream, asked for through Spark, which may be elsewhere."""
    texts = option_texts({"stream": stream, "ns": "long"})
    with own_errors():
        found = frame.sparkSession.read.format(NAME).options(**texts).load(path).schema
    return next(field.name for field in found if TIME_MARK in field.metadata)

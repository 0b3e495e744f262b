"""Writing DataFrames into streams: tasks write splits that nobody sees, one commit at the end makes them visible.

Nothing waits for the stream's own writer, and it waits for nobody (docs/design/004-spark.md).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.model.errors import InputError, NotFoundError, TidelogError
from tidelog.model.interval import Interval
from tidelog.model.schema import Schema
from tidelog.spark.errors import own_errors
from tidelog.spark.options import SinkOptions, as_time, option_texts, shared_path
from tidelog.spark.provider import NAME, plainly
from tidelog.spark.source import is_remote
from tidelog.spark.types import TIME_MARK, FromSpark, stored_schema
from tidelog.spark.workers import settle
from tidelog.store.bulk import BulkWriter, commit_bulk, remove_files
from tidelog.store.maintenance import Maintenance
from tidelog.store.manifest import ManifestLog, SplitInfo
from tidelog.store.opensplit import Site

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


TIDY_BYTES: Final = 256 << 20
"""What the driver reads at most to merge splits after a commit."""

_log = logging.getLogger("tidelog.maintenance")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The splits that one task has written."""

    splits: tuple[SplitInfo, ...]


class TidelogWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame, all of them or none."""

    def __init__(self, options: SinkOptions, brought: StructType, overwrite: bool) -> None:
        """Creates the stream if it has to be; raises unless the columns fit it."""
        options.check_mode(overwrite)
        self._options = options
        with Store.open(options.path) as store:
            stream = find_or_create(store, options, options.stream, brought)
            schema = stream.schema
            self._version = stream.site.version
        self._convert = FromSpark(schema, brought)
        self._overwrite: Interval | Literal["all"] | None = None
        if overwrite:
            interval = schema.clock.interval(as_time(options.overwrite_start), as_time(options.overwrite_end))
            if interval.is_empty:
                raise InputError(
                    f"the range to overwrite, {options.overwrite_start} to {options.overwrite_end}, is empty; expected "
                    "overwrite_end to be after overwrite_start"
                )
            self._overwrite = interval

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task into closed, durable splits of its own."""
        with Store.open(self._options.path) as store:
            # The schema that the rows were planned for, whatever it has become.
            site = Site.of(store.stream(self._options.stream).manifests, self._version)
            with BulkWriter(site) as writer:
                for batch in iterator:
                    for rows in self._convert.convert(batch):
                        writer.append(rows)
                written = Written(tuple(writer.finish()))
        settle()
        return written

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible, in one step, and delete what they replace."""
        name, number = self._options.transaction, self._options.transaction_number
        transaction = None if name is None or number is None else (f"job/{name}", number)
        with Store.open(self._options.path) as store:
            manifests = store.manifests(self._options.stream)
            commit_bulk(manifests, splits_of(messages), transaction=transaction, overwrite=self._overwrite)
            if self._options.compact:
                tidy(self._options.stream, manifests)

    @plainly
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what tasks that succeeded have written, unless it was committed all the same."""
        with Store.open(self._options.path) as store:
            remove_files(store.stream(self._options.stream).manifests, splits_of(messages))


def tidy(name: str, manifests: ManifestLog) -> None:
    """Do what is due for a stream after a commit, as far as that takes little: many commits must not ruin reading.

    The rows are committed, so a failure is logged and nothing more.
    """
    try:
        Maintenance(Site.of(manifests), manifests).run(max_bytes=TIDY_BYTES)
    except TidelogError as error:
        _log.warning("maintenance of stream %r failed after a commit, which is through: %s", name, error)


def splits_of(messages: Sequence[WriterCommitMessage | None]) -> list[SplitInfo]:
    """The splits of all tasks; tasks that failed say nothing."""
    return [split for message in messages if isinstance(message, Written) for split in message.splits]


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
    if options.time is None:
        raise NotFoundError(
            f"there is no stream {missing[0]!r} in {options.path}; to create it, name its time column with the option "
            "'time'"
        )
    store.create_streams(missing, stored_schema(brought, options.time), exist_ok=True)


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
    overwrite: bool | tuple[Any, Any] = False,
    partitions: int | None = None,
    sort: bool = True,
    transaction: tuple[str, int] | None = None,
    compact: bool = True,
) -> None:
    """Write a DataFrame into a stream, all of it or nothing; returns when it is durable and visible to everyone.

    Columns are matched by name; missing ones become null, and no value may change on the way
    (:mod:`tidelog.model.convert`). If there is no such stream, it is created with the time column ``time``, unless
    ``create`` is false; it stays, empty, if the job fails. ``overwrite`` replaces all events, or, given a start and an
    end, those of the time range; either may be None.

    Rows are brought into order of time first, so that each of ``partitions`` tasks writes one range; without a number
    Spark chooses. ``sort=False`` leaves rows in the order and tasks they are in: any order gives a correct stream, but
    many splits that overlap make it slower to read.

    A job can fail, or its driver be killed, after its rows have become visible: it looks like one that has written
    nothing. ``transaction``, a name and a number that rises from job to job, makes it safe to run such a job again: if
    the number is not above the last that was committed under the name, nothing is written.

    Instead of a ``stream``, ``stream_column`` names a column, of text, with the name of each row's stream; it is not
    stored. Every stream then gets its rows by a commit of its own: see :mod:`tidelog.spark.manysink`. ``time`` has to
    be given for rows to be sorted, and nothing can be overwritten.

    If many small splits have come together, the driver merges some of them after the commit, unless ``compact`` is
    false.

    Raises :class:`NotFoundError`, :class:`InputError` and :class:`SchemaError` for what cannot be written.
    """
    spans = overwrite if isinstance(overwrite, tuple) else (None, None)
    name, number = (None, None) if transaction is None else transaction
    texts = option_texts(
        {
            "stream": stream,
            "stream_column": stream_column,
            "time": time,
            "create": create,
            "overwrite_start": spans[0],
            "overwrite_end": spans[1],
            "transaction": name,
            "transaction_number": number,
            "compact": compact,
        }
    )
    place = shared_path(path, is_remote=is_remote(frame.sparkSession))
    SinkOptions.read({**texts, "path": place}).check_mode(overwrite is not False)
    if sort:
        column = time
        if column is None:
            if stream is None:
                raise InputError(
                    "rows of many streams are sorted by time; say which column it is: time=..., or sort=False"
                )
            column = _time_column(frame, place, stream)
        keys = [f"`{each.replace('`', '``')}`" for each in (stream_column, column) if each in frame.columns]
        if keys:  # else the sink says what is missing
            spread = (
                frame.repartitionByRange(*keys) if partitions is None else frame.repartitionByRange(partitions, *keys)
            )
            frame = spread.sortWithinPartitions(*keys)
    mode = "append" if overwrite is False else "overwrite"
    with own_errors():
        frame.write.format(NAME).mode(mode).options(**texts).save(place)


def _time_column(frame: DataFrame, path: str, stream: str) -> str:
    """The time column of a stream, asked for through Spark, which may be elsewhere."""
    texts = option_texts({"stream": stream, "ns": "long"})
    with own_errors():
        found = frame.sparkSession.read.format(NAME).options(**texts).load(path).schema
    return next(field.name for field in found if TIME_MARK in field.metadata)

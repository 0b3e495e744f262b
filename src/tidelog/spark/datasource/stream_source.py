"""Streams as sources of Structured Streaming: every row once, however late it comes and whoever wrote it.

An offset is the set of sequence numbers that have been seen of a stream. The rows between two offsets are those whose
numbers are in the second and not in the first; a number that was passed over never turns up later
(docs/design/004-spark.md). Numbers mean nothing in another stream, nor in a store that was put back to what it was
earlier: so an offset says which stream it is of, and whether all that was seen is still known is looked at.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import InputError, NotFoundError
from tidelog.model.schema import Schema
from tidelog.model.times.interval import Interval
from tidelog.spark.datasource.many_source import is_pattern
from tidelog.spark.datasource.options import SourceOptions, as_time
from tidelog.spark.datasource.source import TidelogReader
from tidelog.spark.runtime.errors import plainly
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.sequence_set import EMPTY, SeqSet
from tidelog.store.read.rows_by_number import about_rows, first_rows
from tidelog.store.read.snapshot import Snapshot

_TEXT_BYTES: Final = 32
"""What a text is taken to have when rows are limited by their bytes."""

_log = logging.getLogger("tidelog.spark")


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a query has read."""

    stream: str
    """Which stream, by what stays when it is renamed and no other one ever has."""
    seen: SeqSet = EMPTY
    """The numbers that it has seen, or that do not concern it."""
    skipped: SeqSet = EMPTY
    """Of these, rows before the time :attr:`before` do not concern it either."""
    before: int | None = None

    def to_json(self) -> dict[str, str]:
        """The offset as Spark keeps it."""
        values = {"stream": self.stream, "seen": json.dumps(self.seen.to_list())}
        if self.before is not None:
            values |= {"skipped": json.dumps(self.skipped.to_list()), "before": str(self.before)}
        return values

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Offset:
        """The offset that :meth:`to_json` wrote. Raises :class:`InputError` for anything else."""
        if "seen" in values and "stream" not in values:
            raise InputError(
                f"found the offset {values!r}, which does not say of which stream it is, as those of earlier releases "
                "did not; start the query with a new checkpoint"
            )
        try:
            stream, seen = str(values["stream"]), SeqSet.from_list(json.loads(values["seen"]))
            if "before" not in values:
                return cls(stream, seen)
            return cls(stream, seen, SeqSet.from_list(json.loads(values["skipped"])), int(values["before"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"found the offset {values!r}, which is none of a tidelog stream ({error}); was the checkpoint made by "
                "a query of another source? Use a new one"
            ) from error

    @property
    def not_counted(self) -> list[Deletion]:
        """The rows that do not concern it, as if they were deleted."""
        return [] if self.before is None or not self.skipped else [Deletion(Interval(None, self.before), self.skipped)]


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes into a stream."""

    def __init__(self, options: SourceOptions, declared: StructType) -> None:
        """Raises unless everything asked for can be read."""
        if options.as_of is not None:
            raise InputError(
                "option 'as_of' is for reading a stream once; a streaming query starts at 'startingOffset'"
            )
        with Store.open(options.path, read_only=True) as store:
            if is_pattern(store, options.stream):
                raise InputError(
                    f"option 'stream' is {options.stream!r}, a pattern; a streaming query reads one stream, and "
                    "several are united by union"
                )
        self._options = options
        self._batches = TidelogReader(options, declared)
        self._last: SeqSet | None = None
        """What there was when a query that reads what is there, and ends, was started."""
        self._reached = EMPTY
        """What has been seen when the batch ends that was planned last."""
        with Store.open(options.path, read_only=True) as store:
            stream = store.stream(options.stream)
            schema = stream.schema
            self._stream = _identity(stream)
        self._row_bytes = _row_bytes(schema)
        starting = options.starting_offset
        self._start_time = None if starting in ("earliest", "latest") else schema.clock.instant(as_time(starting))

    @plainly
    def initialOffset(self) -> dict[str, str]:  # noqa: N802  (these names are Spark's)
        """Where a new query starts."""
        newest = self._newest()
        if self._options.starting_offset == "earliest":
            return replace(newest, seen=EMPTY).to_json()
        if self._start_time is None:
            return newest.to_json()
        return Offset(newest.stream, EMPTY, newest.seen, self._start_time).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """How much a batch reads, by the options."""
        if self._options.max_rows_per_batch is not None:
            return ReadMaxRows(self._options.max_rows_per_batch)
        if self._options.max_bytes_per_batch is not None:
            return ReadMaxBytes(self._options.max_bytes_per_batch)
        return ReadAllAvailable()

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        """How far the next batch can read: all there is, or as much of it as the limit allows."""
        most = self._most_rows(limit)
        with Store.open(self._options.path, read_only=True) as store:
            snapshot = writer_of(self._open(store)).published()
            offset = self._standing(Offset.of(start), snapshot)
            new = (snapshot.visible if self._last is None else self._last) - offset.seen
            if most is not None:
                wanted = self._batches.interval
                new = first_rows(snapshot, new, most, wanted.start, wanted.end, offset.not_counted)
        self._reached = offset.seen | new
        return replace(offset, seen=self._reached).to_json()

    def _most_rows(self, limit: ReadLimit) -> int | None:
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows
        if isinstance(limit, ReadMaxBytes):
            return max(1, limit.max_bytes // self._row_bytes)
        if isinstance(limit, ReadAllAvailable):
            return None
        raise InputError(f"found the read limit {limit!r}; expected one of rows, of bytes, or none")

    @plainly
    def reportLatestOffset(self) -> dict[str, str]:  # noqa: N802
        """Everything there is, for Spark's account of how far a query is behind; and by about how many rows it is."""
        with Store.open(self._options.path, read_only=True) as store:
            snapshot = writer_of(self._open(store)).published()
            behind = about_rows(snapshot, snapshot.visible - self._reached)
        return {**Offset(self._stream, snapshot.visible).to_json(), "behind": str(behind)}

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on only what is there now counts."""
        self._last = self._newest().seen

    def _newest(self) -> Offset:
        with Store.open(self._options.path, read_only=True) as store:
            return Offset(self._stream, writer_of(self._open(store)).published().visible)

    def _standing(self, offset: Offset, snapshot: Snapshot) -> Offset:
        """An offset as far as it holds for the stream as it is.

        Raises :class:`NotFoundError` if it is of another stream, or has numbers that this one has not given out; unless
        rows may be lost: then the query goes on with everything that it cannot have seen.
        """
        name = self._options.stream
        if offset.stream != self._stream:
            self._lose(f"stream {name!r} is another one than this query has read: it was dropped and created again")
            return Offset(self._stream)
        unknown = offset.seen - snapshot.visible
        if unknown:
            self._lose(
                f"stream {name!r} lacks rows that this query has read, those with the sequence numbers {unknown}, as "
                "if the store was restored from an older backup"
            )
            return replace(offset, seen=offset.seen & snapshot.visible)
        return offset

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise NotFoundError(
                f"{what}. Start the query with a new checkpoint to read everything anew, or once with "
                "failOnDataLoss=false to go on with all that it cannot have read"
            )
        _log.warning("%s. The query goes on with all that it cannot have read, for failOnDataLoss is false", what)

    def _open(self, store: Store) -> Stream:
        """The stream. Raises :class:`NotFoundError` if it is no longer the one that the query was planned for."""
        stream = store.stream(self._options.stream)
        if _identity(stream) != self._stream:
            raise NotFoundError(
                f"stream {self._options.stream!r} was dropped and created again while this query was running; start "
                "the query with a new checkpoint, or once with failOnDataLoss=false"
            )
        return stream

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The rows between two offsets, as disjoint ranges of time of about equal work."""
        first, last = Offset.of(start), Offset.of(end)
        if first == last:
            return []
        with Store.open(self._options.path, read_only=True) as store:
            stream = self._open(store)
            snapshot = writer_of(stream).published(self._batches.version)
            if self._standing(last, snapshot).stream != last.stream:
                return []  # what the batch was planned for is gone
            new = last.seen if first.stream != last.stream else last.seen - first.seen
            self._check_loss(snapshot, new)
            wanted = self._batches.interval
            later = wanted if last.before is None else wanted.intersect(Interval(last.before, None))
            return [
                partition
                for numbers, interval in ((new - last.skipped, wanted), (new & last.skipped, later))
                if numbers
                for partition in self._batches.planned(snapshot, interval, numbers, writer_of(stream).context.directory)
            ]

    def _check_loss(self, snapshot: Snapshot, numbers: SeqSet) -> None:
        lost = snapshot.lost(numbers) if self._options.fail_on_data_loss else EMPTY
        if lost:
            raise NotFoundError(
                f"about {lost.count} rows of stream {self._options.stream!r} were deleted before this query read them "
                "(delete_before, or the stream's retention); make the query faster or keep rows longer, and start it "
                "with failOnDataLoss=false to go on without them"
            )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        return self._batches.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the stream does not keep account of who has read what."""

    def stop(self) -> None:
        """Nothing: nothing is open."""


def _identity(stream: Stream) -> str:
    """What no other stream of the store ever has, and copies of the store have too."""
    return writer_of(stream).context.directory.rpartition("/")[2]


def _row_bytes(schema: Schema) -> int:
    """About how many bytes a row takes in Spark."""
    widths = []
    for field in schema:
        try:
            widths.append(max(8, field.type.bit_width) // 8)
        except ValueError:  # of variable length
            widths.append(_TEXT_BYTES)
    return sum(widths)

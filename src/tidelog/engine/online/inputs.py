"""Streams as inputs of a continuous query: every row once, in the order of arrival.

A position is a set of sequence numbers. Rows that are new are those with others, up to the numbers that a snapshot
says it has; a number that was passed over never turns up later. Both history and what arrives are read that way, so
there is no seam between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.engine.stream import Stream, writer_of
from tidelog.engine.writer import StreamWriter
from tidelog.model.arrays import integers
from tidelog.model.errors import ClosedError, GrainError, NotFoundError, SchemaError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.operators.base import Shape
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.schemas import identities_of
from tidelog.store.manifest.sequence_set import EMPTY, SeqSet
from tidelog.store.read.rows_by_number import about_rows, first_rows
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.snapshots import Snapshots
from tidelog.store.split.context import StreamContext


@dataclass(frozen=True)
class Position:
    """How far an input has been read."""

    stream: str
    """Which stream, by what stays when it is renamed and no other one ever has."""
    seen: SeqSet = EMPTY
    """The numbers that were read, or do not concern the subscription."""
    skipped: SeqSet = EMPTY
    """Of rows with these numbers those before the time :attr:`before` do not concern it either."""
    before: int | None = None
    dropped: int = 0
    """How many rows were passed over because there were too many."""
    columns: Mapping[str, int] = field(default_factory=dict)
    """What stays of the columns that are read when they are renamed, by the names that they had at the beginning."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "stream": self.stream,
            "seen": self.seen.to_list(),
            "skipped": self.skipped.to_list(),
            "before": self.before,
            "dropped": self.dropped,
            "columns": dict(self.columns),
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Position:
        """The position that :meth:`to_json` wrote."""
        seen, skipped = SeqSet.from_list(values["seen"]), SeqSet.from_list(values["skipped"])
        return cls(values["stream"], seen, skipped, values["before"], values["dropped"], values["columns"])

    @property
    def not_counted(self) -> list[Deletion]:
        """The rows that do not concern it, as if they were deleted."""
        return [] if self.before is None or not self.skipped else [Deletion(Interval(None, self.before), self.skipped)]


def identity(writer: StreamWriter) -> str:
    """What no other stream of the store ever has, and copies of the store have too."""
    return writer.context.directory.rpartition("/")[2]


def stream_shape(stream: Stream) -> Shape:
    """What rows of a stream look like, their numbers among the columns."""
    layout = writer_of(stream).context.layout
    stored = layout.stored
    names = [*layout.schema.names, SEQUENCE_COLUMN]
    return Shape(pa.schema([stored.field(name) for name in names]), layout.schema.time)


class Input:
    """The rows of a stream for one input of a query. For one thread."""

    def __init__(self, stream: Stream, shape: Shape, *, durable: bool) -> None:
        """``shape`` has some of the columns. With ``durable`` only rows that a crash cannot take back are read."""
        self.name = stream.name
        self.writer = writer_of(stream)
        self._shape = shape
        self._names = list(dict.fromkeys((*shape.schema.names, SEQUENCE_COLUMN)))
        self._snapshots = Snapshots(StreamContext.of(self.writer.manifests), self.writer.manifests) if durable else None
        self._last: Snapshot | None = None
        """The last one of which all was read."""
        self.position = Position(identity(self.writer))
        self.reached = 0
        """The number behind the last one that was read; other threads may look at it."""
        self._versions = 0
        """How many versions the schema had when columns were last compared."""

    def begin(self, start: Any) -> None:
        """Start at the beginning (None or ``"earliest"``), with what comes (``"latest"``), or with a time.

        In the last case rows that are there and before the time do not count; those that come later all do.
        """
        snapshot = self._snapshot()
        visible, own = snapshot.visible, self.position.stream
        word = start if isinstance(start, str) else None
        if word == "latest":
            self.position = Position(own, visible)
        elif start is None or word == "earliest":
            self.position = Position(own, snapshot.lost(visible))
        else:
            instant = self._shape.clock.instant(start)
            self.position = Position(own, snapshot.lost(visible), visible, instant)
        self.position = replace(self.position, columns=self._columns(snapshot))
        self.reached = self.position.seen.stop

    def resume(self, position: Position) -> None:
        """Go on from a position. Raises :class:`NotFoundError` if it is none of this stream as it is."""
        if position.stream != self.position.stream:
            raise NotFoundError(
                f"stream {self.name!r} is another one than this subscription has read: it was dropped and created "
                "again; drop the subscription, and begin it anew"
            )
        unknown = position.seen - self._snapshot().visible
        if unknown:
            raise NotFoundError(
                f"stream {self.name!r} lacks rows that this subscription has read, those with the sequence numbers "
                f"{unknown}, as if the store was restored from an older backup; drop the subscription, and begin it "
                "anew"
            )
        self.position = position
        self.reached = position.seen.stop

    def _columns(self, snapshot: Snapshot) -> dict[str, int]:
        """The identities of the columns that are read, as far as they are there."""
        known = identities_of(snapshot.manifest, snapshot.version)
        return {name: known[name] for name in self._shape.schema.names if name in known}

    def _check_columns(self, snapshot: Snapshot) -> None:
        """Raise :class:`SchemaError` if a column is not there any more, or is another one, or of another type."""
        if len(snapshot.manifest.schemas) == self._versions:
            return
        stored, known = snapshot.layout.stored, self.position.columns
        now = self._columns(snapshot)
        for each in self._shape.schema:
            if (
                each.name not in stored.names
                or stored.field(each.name).type != each.type
                or known.get(each.name) != now.get(each.name)
            ):
                raise SchemaError(
                    f"column {each.name!r} of stream {self.name!r} was renamed or has another type since the "
                    "subscription began; begin it anew"
                )
        self._versions = len(snapshot.manifest.schemas)

    def skip(self, horizon: int) -> None:
        """Rows that are there and before a time do not count any more; those that come later all do."""
        before = self.position.before
        if horizon == INT64_MIN or (before is not None and horizon <= before):
            return
        snapshot = self._snapshot()
        if snapshot is not self._last:
            self.position = replace(self.position, skipped=snapshot.visible, before=min(horizon, INT64_MAX))

    def _snapshot(self) -> Snapshot:
        try:
            return self.writer.snapshot() if self._snapshots is None else self._snapshots.newest()
        except ClosedError:
            self.check_there()  # it was closed to be dropped
            raise

    def check_there(self) -> None:
        """Raise :class:`NotFoundError` if the stream was dropped: there will be no rows any more."""
        if self.writer.was_dropped:
            raise NotFoundError(
                f"stream {self.name!r} was dropped while a subscription was reading it; subscribe to another one"
            )

    @property
    def has_more(self) -> bool:
        """Whether rows may be there that were not read."""
        return self._snapshot() is not self._last

    def take(self, most: int, most_behind: int | None = None) -> pa.RecordBatch | None:
        """The next rows, at most so many, in the order of arrival; None if there are none.

        Where more than ``most_behind`` are waiting, the first of them are passed over. Raises :class:`NotFoundError` if
        some were deleted, and :class:`GrainError` if some were coarsened, before they were read.
        """
        snapshot = self._snapshot()
        if snapshot is self._last:
            return None
        position = self.position
        new = snapshot.visible - position.seen
        if new and most_behind is not None:
            new, position = self._passed_over(snapshot, new, most_behind)
        numbers = first_rows(snapshot, new, most, without=position.not_counted) if new else new
        bound = snapshot.manifest.deleted_before
        if position.before is not None and bound is not None and bound <= position.before:
            lost = snapshot.lost(numbers - position.skipped)  # of the others, none that is deleted concerns it
        else:
            lost = snapshot.lost(numbers)
        if lost:
            raise NotFoundError(
                f"about {lost.count} rows of stream {self.name!r} were deleted before this subscription read them "
                "(delete_before, or the stream's retention); keep rows longer, or drop the subscription and begin it "
                "anew"
            )
        rows = self._rows(snapshot, numbers)
        self.position = replace(position, seen=position.seen | numbers)
        self.reached = self.position.seen.stop
        if numbers == new:
            self._last = snapshot
        return rows if rows.num_rows else (None if numbers == new else self.take(most, most_behind))

    def _passed_over(self, snapshot: Snapshot, new: SeqSet, most_behind: int) -> tuple[SeqSet, Position]:
        """What is left of new numbers if only so many rows are to be read."""
        waiting = about_rows(snapshot, new)
        if waiting <= most_behind:
            return new, self.position
        passed = first_rows(snapshot, new, waiting - most_behind, without=self.position.not_counted)
        left = new - passed
        dropped = waiting - about_rows(snapshot, left)
        seen = self.position.seen | passed
        return left, replace(self.position, seen=seen, dropped=self.position.dropped + dropped)

    def _rows(self, snapshot: Snapshot, numbers: SeqSet) -> pa.RecordBatch:
        """The rows with some numbers, in the order of these."""
        schema = self._shape.schema
        self._check_columns(snapshot)
        position = self.position
        everything = Intervals((Interval(),))
        asked = [(numbers - position.skipped, everything)]
        if position.before is not None:
            asked.append((numbers & position.skipped, Intervals((Interval(position.before, None),))))
        found = []
        try:
            for some, ranges in asked:
                if some:
                    found += list(scan(snapshot, ranges, self._names, None, some))
        except GrainError as error:
            raise GrainError(
                f"rows of stream {self.name!r} were coarsened before this subscription read them: {error}",
                grain=error.grain,
            ) from error
        if not found:
            return self._shape.empty()
        whole = pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        rows, order = whole.select(schema.names).cast(schema), integers(whole.column(SEQUENCE_COLUMN))
        return rows if (order[1:] > order[:-1]).all() else rows.take(pa.array(np.argsort(order, kind="stable")))

    def behind(self) -> int:
        """About how many rows are there that were not read; for any thread."""
        snapshot = self.writer.snapshot() if self._snapshots is None else self.writer.published()
        return about_rows(snapshot, snapshot.visible - self.position.seen)

    def close(self) -> None:
        """Keep no file open."""
        self._last = None
        if self._snapshots is not None:
            self._snapshots.close()

"""What a stream is asked: scans, aggregates, positions, each of one moment of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, overload

import pyarrow as pa

from tidelog.engine.questions import Moment, Questions, column_names, frozen, moment, pairs_of, range_asked, texts_of
from tidelog.engine.writer import StreamWriter
from tidelog.index.layout import Layout
from tidelog.model.arguments import flag, integer
from tidelog.model.scalars import python_value
from tidelog.model.schema import Schema
from tidelog.model.times.intervals import Intervals
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.aggregates.aggregation import Answers, aggregate, aggregate_all
from tidelog.store.read.positions import nth, rank
from tidelog.store.read.scan import readable, scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.windows import scan_end


class Queries:
    """Answers questions by snapshots. Times and ranges are those of :class:`~tidelog.engine.stream.Stream`."""

    def __init__(self, writer: StreamWriter) -> None:
        self._writer = writer
        self._questions = Questions(writer.context.layout, writer.options)
        """What reads the texts of questions about the newest schema."""

    @property
    def name(self) -> str:
        """The name of the stream, by which the store knows it."""
        return self._writer.name

    @property
    def schema(self) -> Schema:
        """Its columns, by the newest version that is known here: every query looks for a newer one."""
        return self._writer.context.layout.schema

    @property
    def options(self) -> StreamOptions:
        """What it was created with, and what has changed since then (:meth:`configure`, :meth:`attach`)."""
        return self._writer.context.options

    def snapshot(self) -> Snapshot:
        """The stream as it is now: in the process that writes it everything appended, elsewhere everything flushed.

        Can be given to queries as ``as_of``, so that all of them see the same rows.
        """
        return self._writer.snapshot()

    def scan(
        self,
        start: Any = None,
        end: Any = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        *,
        as_of: Moment = None,
        seq: bool = False,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> pa.RecordBatchReader:
        """The events of a time range that satisfy ``where`` (a SQL condition), ordered by time, then by arrival.

        ``seq`` adds the column ``_seq``, the number of each event in the order of arrival. ``as_of`` is a snapshot, or
        such a number: then only events with smaller ones count. It may also be a set of them
        (:class:`tidelog.store.manifest.sequence_set.SeqSet`).

        With ``limit`` there are at most so many events; with ``newest_first`` the order is the other way round. Of the
        stream only that end is read, as far as it takes. Lazy, with bounded memory.
        """
        at_most = None if limit is None else integer("limit", limit, 0)
        is_turned = flag("newest_first", newest_first)
        snapshot, numbers = moment(as_of, self.snapshot)
        ranges = Intervals((snapshot.layout.schema.clock.interval(start, end),))
        return self._scan(snapshot, ranges, numbers, columns, where, seq, at_most, is_turned)

    def _scan(
        self,
        snapshot: Snapshot,
        ranges: Intervals,
        numbers: SeqSet | None,
        columns: Sequence[str] | None,
        where: str | None,
        seq: bool,
        at_most: int | None,
        is_turned: bool,
    ) -> pa.RecordBatchReader:
        layout = snapshot.layout
        names = column_names(columns, seq, layout.schema, self.name)
        condition = self._asked(layout).condition(where)
        readable(snapshot, ranges, numbers)  # else what cannot be read is found by the first read
        asked = (snapshot, ranges, names, condition, numbers)
        if at_most is None and not is_turned:
            batches = scan(*asked)
        else:
            batches = scan_end(*asked, limit=at_most, newest_first=is_turned)
        stored = layout.stored
        return pa.RecordBatchReader.from_batches(pa.schema([stored.field(name) for name in names]), batches)

    @overload
    def aggregate(
        self,
        aggregates: Sequence[str] | str,
        /,
        *,
        start: Any = None,
        end: Any = None,
        where: str | None = None,
        as_of: Moment = None,
    ) -> dict[str, Any]: ...

    @overload
    def aggregate(
        self,
        start: Any,
        end: Any,
        aggregates: Sequence[str] | str,
        where: str | None = None,
        *,
        as_of: Moment = None,
    ) -> dict[str, Any]: ...

    @overload
    def aggregate(
        self,
        *,
        aggregates: Sequence[str] | str,
        start: Any = None,
        end: Any = None,
        where: str | None = None,
        as_of: Moment = None,
    ) -> dict[str, Any]: ...

    def aggregate(
        self,
        *asked: Any,
        start: Any = None,
        end: Any = None,
        aggregates: Any = None,
        where: str | None = None,
        as_of: Moment = None,
    ) -> dict[str, Any]:
        """Aggregates of the events of a time range, e.g. ``["count(*)", "avg(price)"]``, by the texts given.

        Of all events: ``aggregate(["count(*)"])``; of a range: ``aggregate(start, end, ["count(*)"])``, or with names.

        ``count``, ``sum``, ``min``, ``max``, ``avg`` of plain columns are answered from the index, whatever the length
        of the range, as are user-defined aggregates (docs/aggregates.md) that the stream keeps; see :meth:`explain`.
        Raises :class:`NotFoundError` for a user-defined one whose code is not here.
        """
        start, end, texts, where = range_asked(asked, start, end, aggregates, where)
        return dict(zip(texts, self._aggregate(start, end, texts, where, as_of).values, strict=True))

    @overload
    def explain(
        self,
        aggregates: Sequence[str] | str,
        /,
        *,
        start: Any = None,
        end: Any = None,
        where: str | None = None,
        as_of: Moment = None,
    ) -> str: ...

    @overload
    def explain(
        self,
        start: Any,
        end: Any,
        aggregates: Sequence[str] | str,
        where: str | None = None,
        *,
        as_of: Moment = None,
    ) -> str: ...

    @overload
    def explain(
        self,
        *,
        aggregates: Sequence[str] | str,
        start: Any = None,
        end: Any = None,
        where: str | None = None,
        as_of: Moment = None,
    ) -> str: ...

    def explain(
        self,
        *asked: Any,
        start: Any = None,
        end: Any = None,
        aggregates: Any = None,
        where: str | None = None,
        as_of: Moment = None,
    ) -> str:
        """How :meth:`aggregate` comes to its results, and what it reads."""
        start, end, texts, where = range_asked(asked, start, end, aggregates, where)
        answers = self._aggregate(start, end, texts, where, as_of)
        lines = [f"{text}: from {source}" for text, source in zip(texts, answers.sources, strict=True)]
        counters = answers.counters
        lines.append(f"visited {counters.nodes} nodes ({counters.node_reads} read), {counters.leaves} leaves")
        return "\n".join(lines)

    def _aggregate(self, start: Any, end: Any, texts: tuple[str, ...], where: str | None, as_of: Moment) -> Answers:
        snapshot, numbers = moment(as_of, self.snapshot)
        layout = snapshot.layout
        interval = layout.schema.clock.interval(start, end)
        asked = self._asked(layout)
        question, condition = asked.question(texts), asked.condition(where)
        return aggregate(snapshot, interval.start, interval.end, question, condition, numbers)

    def aggregate_all(
        self,
        intervals: Iterable[tuple[Any, Any]],
        aggregates: Sequence[str] | str,
        where: str | None = None,
        *,
        as_of: Moment = None,
    ) -> list[dict[str, Any]]:
        """:meth:`aggregate` of many time ranges, each a pair of start and end, of one moment of the stream.

        What the index knows is taken from it in one pass, so that even many overlapping ranges cost little more than
        the leaves they end in. Everything else takes a scan of each range.
        """
        texts = texts_of(aggregates)
        ranges = [self.schema.clock.interval(*each) for each in pairs_of(intervals)]
        snapshot, numbers = moment(as_of, self.snapshot)
        layout = snapshot.layout
        asked = self._asked(layout)
        question, condition = asked.question(texts), asked.condition(where)
        found = aggregate_all(snapshot, ranges, question, condition, numbers)
        return [dict(zip(texts, answers.values, strict=True)) for answers in found]

    def rank(self, time: Any, *, as_of: Snapshot | None = None) -> int:
        """How many events are before a time."""
        instant = self.schema.clock.instant(time)
        return rank(frozen(as_of, self.snapshot), instant)

    def nth(self, index: int, columns: Sequence[str] | None = None, *, as_of: Snapshot | None = None) -> dict[str, Any]:
        """Event number ``index`` in the order of (time, arrival), from 0; negative numbers count from the end."""
        snapshot = frozen(as_of, self.snapshot)
        names = column_names(columns, False, snapshot.layout.schema, self.name)
        return _row(nth(snapshot, integer("the number of an event", index), names))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All events as a stream of Arrow's C interface, by which DuckDB, Polars, PyArrow and others take a stream.

        Each call takes a snapshot. Another schema that is asked for is granted if the columns can be cast to it.
        """
        if requested_schema is not None:
            with suppress(pa.ArrowException, ValueError, TypeError):  # it is a wish, and need not be granted
                return self.scan().__arrow_c_stream__(requested_schema)
        return self.scan().__arrow_c_stream__()

    def __arrow_c_schema__(self) -> object:
        """The columns, for those who ask by Arrow's C interface."""
        return self.snapshot().layout.schema.arrow.__arrow_c_schema__()

    def __len__(self) -> int:
        return int(self.aggregate(None, None, ["count(*)"])["count(*)"])

    def _asked(self, layout: Layout) -> Questions:
        """What reads the texts of questions about snapshots with a layout."""
        questions = self._questions
        if questions.layout is not layout:
            questions = Questions(layout, self.options)
            if layout.schema == self.schema:
                self._questions = questions
        return questions


def _row(batch: pa.RecordBatch) -> dict[str, Any]:
    """The values of a batch of one row."""
    return {name: python_value(column[0]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}

"""Aggregates that the index answers: what can be asked, and the answers for ranges of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.aggregates import find
from tidelog.expr import Predicate, parse_aggregate, predicate
from tidelog.expr.aggregates.bindings import ready_made
from tidelog.expr.aggregates.builtin import ALIASES
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import integers
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.aggregates.aggregation import Question, aggregate, aggregate_all
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.windows import scan_end

_MOST_SEARCHED: Final = 256
"""Ranges whose ends are looked for one by one, because what is there is null."""


def question_of(snapshot: Snapshot, options: StreamOptions, texts: Sequence[str]) -> Question:
    """Aggregates, given by their texts. Raises as their parsing does."""
    layout = snapshot.layout
    absent = {each.id.rpartition(":")[2]: each.id for each in options.user_aggregates if find(each.id) is None}
    return Question(layout, [parse_aggregate(text, layout.stored, layout.schema.time, absent) for text in texts])


def is_kept(options: StreamOptions, function: str, column: str) -> bool:
    """Whether a stream keeps the states of an aggregate function of SQL."""
    return ready_made(ALIASES.get(function, function), column) in options.user_aggregates


def answers(
    snapshot: Snapshot,
    numbers: SeqSet | None,
    ranges: Sequence[Interval],
    question: Question,
    where: Predicate | None = None,
) -> tuple[list[list[Any]], ReadCounters]:
    """The values of aggregates for each of some ranges of time, and what it took."""
    if len(ranges) == 1:
        only = aggregate(snapshot, ranges[0].start, ranges[0].end, question, where, numbers)
        return [only.values], only.counters
    found = aggregate_all(snapshot, ranges, question, where, numbers)
    return [each.values for each in found], found[0].counters if found else ReadCounters()


def bounds(snapshot: Snapshot, options: StreamOptions, interval: Interval) -> tuple[int, int, int] | None:
    """The first and the last time of the events in an interval, in ticks, and how many there are; None if none."""
    schema = snapshot.layout.schema
    question = question_of(snapshot, options, _extent(snapshot))
    rows, first, last = aggregate(snapshot, interval.start, interval.end, question).values
    return (schema.clock.instant(first), schema.clock.instant(last), rows) if rows else None


def _extent(snapshot: Snapshot) -> list[str]:
    time = snapshot.layout.schema.time.replace('"', '""')
    return ["count(*)", f'min("{time}")', f'max("{time}")']


@dataclass(frozen=True, slots=True)
class AtEnd:
    """The value of a column in the first or in the last event by (time, ``_seq``)."""

    column: str
    last: bool
    skips_nulls: bool
    """Whether events that have none do not count."""


def at_ends(
    snapshot: Snapshot, options: StreamOptions, ranges: Sequence[Interval], wanted: Sequence[AtEnd]
) -> tuple[list[pa.Array], ReadCounters] | None:
    """Values at the ends of ranges of time, an array for each that is wanted, and what it took.

    The index tells the times of the ends, so only the blocks there are read. None if too many ends have no value.
    Raises :class:`GrainError` where only coarse events are left.
    """
    clock, time = snapshot.layout.schema.clock, snapshot.layout.schema.time
    question = question_of(snapshot, options, _extent(snapshot))
    found, counters = answers(snapshot, None, ranges, question)
    some = [at for at, (rows, *_) in enumerate(found) if rows]
    firsts = {at: clock.instant(found[at][1]) for at in some}
    lasts = {at: clock.instant(found[at][2]) for at in some}
    sides = {each.last for each in wanted}
    times = sorted({side[at] for last, side in ((False, firsts), (True, lasts)) if last in sides for at in some})
    columns = list(dict.fromkeys([time, *(each.column for each in wanted)]))
    points = Intervals(tuple(Interval(at, at + 1) for at in times))
    stored = snapshot.layout.stored
    batches = scan(snapshot, points, columns, None, None, counters) if times else iter(())
    rows = pa.Table.from_batches(batches, pa.schema([stored.field(name) for name in columns])).combine_chunks()
    instants = integers(rows[time].combine_chunks())
    arrays = []
    for each in wanted:
        values = rows[each.column].combine_chunks()
        places = np.arange(len(rows))
        if each.skips_nulls and values.null_count:
            places = np.flatnonzero(np.asarray(values.is_valid()))
        side = lasts if each.last else firsts
        near = np.searchsorted(instants[places], [side[at] for at in some], "right" if each.last else "left")
        near = near - each.last
        chosen: list[int | None] = [None] * len(ranges)
        missed = []
        for at, place in zip(some, near.tolist(), strict=True):
            if 0 <= place < len(places) and instants[places[place]] == side[at]:
                chosen[at] = int(places[place])
            else:
                missed.append(at)
        if len(missed) > _MOST_SEARCHED:
            return None
        searched = {at: _searched(snapshot, ranges[at], each, counters) for at in missed}
        array = values.take(pa.array(chosen, pa.int64()))
        arrays.append(array if not searched else _with(array, searched))
    return arrays, counters


def _searched(snapshot: Snapshot, within: Interval, wanted: AtEnd, counters: ReadCounters) -> pa.Scalar:
    """The first or last value in a range of time that is none."""
    stored = snapshot.layout.stored
    name = wanted.column.replace('"', '""')
    where = predicate(f'"{name}" IS NOT NULL', stored)
    ranges = Intervals((within,))
    for batch in scan_end(snapshot, ranges, [wanted.column], where, None, counters, limit=1, newest_first=wanted.last):
        return batch.column(0)[0]
    return pa.scalar(None, stored.field(wanted.column).type)


def _with(array: pa.Array, others: dict[int, pa.Scalar]) -> pa.Array:
    """An array with other values in some places."""
    parts, begin = [], 0
    for at, value in sorted(others.items()):
        parts += [array.slice(begin, at - begin), pa.repeat(value, 1)]
        begin = at + 1
    return pa.concat_arrays([*parts, array.slice(begin)])

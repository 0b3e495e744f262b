"""What one mention of a stream in a query reads: columns, times, a condition, one end of the stream."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter
from typing import Final

import pyarrow as pa

from tidelog.expr import ColumnRange, Predicate, all_of, column_ranges, predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.model.times.intervals import Intervals
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.scan import readable, scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.windows import scan_end

_LONGEST_KNOWN: Final = 1 << 14
"""Characters of a condition that is kept with what it means."""


EVER: Final = Intervals((ALL_TIME,))


@dataclass(frozen=True, slots=True)
class End:
    """So many rows of one end of a stream."""

    rows: int
    newest_first: bool


@dataclass(slots=True)
class Reading:
    """One reading of a stream: what was asked, and what it took."""

    columns: Sequence[str]
    where: str | None
    times: Intervals
    end: End | None
    hint: str | None = None
    counters: ReadCounters = field(default_factory=ReadCounters)
    rows: int = 0
    """Rows that came out."""
    seconds: float = 0.0
    """How long that took."""


def read(
    snapshot: Snapshot,
    numbers: SeqSet | None,
    columns: Sequence[str],
    where: str | None,
    end: End | None = None,
    *,
    within: Intervals = EVER,
    hint: str | None = None,
    coded: bool = False,
) -> tuple[Reading, Iterator[pa.RecordBatch]]:
    """Begin to read the rows of a snapshot that satisfy a condition, with some stored columns.

    Rows with times that are not ``within``, or that do not satisfy ``hint``, need not come. Columns of strings may come
    as dictionaries if ``coded``.
    """
    stored = snapshot.layout.stored
    condition = None if where is None else condition_of(where, stored)
    ranges = times_of(snapshot, condition)
    if condition is not None:
        condition = _without_times(condition, snapshot.layout.schema.time)  # of which the ranges say all
    hinted = None if hint is None or end is not None else condition_of(hint, stored)
    ranges = ranges & within & times_of(snapshot, hinted)
    reading = Reading(columns, where, ranges, end, hint)
    readable(snapshot, ranges, numbers)
    if end is None:
        batches = scan(snapshot, ranges, columns, condition, numbers, reading.counters, hinted, coded=coded)
    else:
        counters, newest_first = reading.counters, end.newest_first
        batches = scan_end(
            snapshot, ranges, columns, condition, numbers, counters, limit=end.rows, newest_first=newest_first
        )
    return reading, counted(reading, batches)


def _without_times(condition: Predicate, time: str) -> Predicate | None:
    """What a condition says beside ranges of time, which are known; None if that is nothing."""
    parts = condition.conjuncts
    rest = [part for part in parts if not part.is_always and not _is_of_times(part, time)]
    return None if not rest else condition if len(rest) == len(parts) else all_of(rest)


def _is_of_times(condition: Predicate, time: str) -> bool:
    """Whether a condition is a set of ranges of time, so that :func:`times_of` says all of it."""
    found = condition.exact_range
    if found is None or found.column != time:
        return False
    return found.is_empty or instants(found, condition.schema.field(time).type) is not None


def estimate(snapshot: Snapshot, within: Intervals, end: End | None) -> int:
    """About how many rows of a snapshot are read, as if those of a part came at equal distances; reads nothing."""
    rows, confined = 0.0, within.bounds
    if not within:
        return 0
    for part in snapshot.parts:
        low = part.first if confined.start is None else max(part.first, confined.start)
        high = part.last + 1 if confined.end is None else min(part.last + 1, confined.end)
        rows += part.rows * max(high - low, 0) / (part.last + 1 - part.first)
    return math.ceil(rows) if end is None else min(math.ceil(rows), end.rows)


def condition_of(where: str, stored: pa.Schema) -> Predicate:
    """What a text means; texts come again and again. Raises :class:`ExpressionError` for what ours cannot say."""
    return _known_condition(where, stored) if len(where) <= _LONGEST_KNOWN else predicate(where, stored)


@lru_cache(256)
def _known_condition(where: str, stored: pa.Schema) -> Predicate:
    return predicate(where, stored)


def counted(reading: Reading, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, while what they take is noted."""
    began = perf_counter()
    for batch in batches:
        reading.rows += batch.num_rows
        reading.seconds += perf_counter() - began
        yield batch
        began = perf_counter()
    reading.seconds += perf_counter() - began


def times_of(snapshot: Snapshot, condition: Predicate | None) -> Intervals:
    """The times that a condition confines rows to."""
    if condition is None:
        return EVER
    ranges = column_ranges(condition.expression)
    time = snapshot.layout.schema.time
    if any(each.is_empty for each in ranges.values()):
        return Intervals()
    found = ranges.get(time)
    times = None if found is None else instants(found, snapshot.layout.stored.field(time).type)
    return EVER if times is None else times


_TICKS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def instants(range: ColumnRange, kind: pa.DataType) -> Intervals | None:
    """The times in a range of values, in ticks of a stored column of times; None if they cannot be told."""
    factor = 1
    if range.type != kind:  # times of SQL may be in finer units
        if not (pa.types.is_timestamp(range.type) and pa.types.is_timestamp(kind)):
            return None
        if (range.type.tz is None) != (kind.tz is None) or _TICKS[range.type.unit] < _TICKS[kind.unit]:
            return None
        factor = _TICKS[range.type.unit] // _TICKS[kind.unit]
    return Intervals(
        tuple(
            Interval(
                None if each.low is None else -(-each.low // factor),
                None if each.high is None else each.high // factor + 1,
            )
            for each in range.intervals
        )
    )


def relation_schema(snapshot: Snapshot, *, seq: bool) -> pa.Schema:
    """The columns of a stream as a relation, with ``_seq`` at the end if that is wanted."""
    layout = snapshot.layout
    names = [*layout.schema.names, *([SEQUENCE_COLUMN] if seq else [])]
    return pa.schema([layout.stored.field(name) for name in names])

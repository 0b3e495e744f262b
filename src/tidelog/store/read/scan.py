"""Reading the rows of a snapshot: time travel, column pruning, pruning by what summaries say, exact filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.searching import RowChoice
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.intervals import Intervals
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.parts.part import Part
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.wanted import Wanted, certainty, pruning, value_range
from tidelog.store.rows.merge import chained


def scan(
    snapshot: Snapshot,
    ranges: Intervals,
    columns: Sequence[str],
    where: Predicate | None = None,
    numbers: SeqSet | None = None,
    counters: ReadCounters | None = None,
    hint: Predicate | None = None,
    *,
    coded: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows with times in a set of ranges that satisfy ``where``, in the order of (time, ``_seq``), lazily.

    ``columns`` are stored ones, ``_seq`` among them; ``numbers`` leaves out rows with other sequence numbers. Rows that
    do not satisfy ``hint`` may be left out: leaves without any that does are not read. Batches without rows are left
    out. Leaves between the ranges are not read, and no leaf is read twice, however many ranges have rows of it. If
    ``coded``, some batches have columns of strings as dictionaries. Raises :class:`GrainError` where only coarse events
    are left.
    """
    counters = counters or ReadCounters()
    ranges, parts = readable(snapshot, ranges, numbers)
    layout, within = snapshot.layout, ranges.bounds
    time = layout.schema.time
    deletions = tuple(snapshot.deletions(within.start, within.end))
    wanted = Wanted(time, ranges, where, numbers, deletions, hint)
    names = list(columns)
    is_merged = _overlap(parts)
    if is_merged:
        names = list(dict.fromkeys((*columns, time, SEQUENCE_COLUMN)))
    elif coded:
        parts = [part.coded for part in parts]
    opened: list[tuple[int, int, Callable[[], Iterator[pa.RecordBatch]]]] = [
        (part.first, part.last, partial(_read, part, wanted, layout.stored, names, counters)) for part in parts
    ]
    if is_merged:
        batches = chained(opened, names.index(time), names.index(SEQUENCE_COLUMN))
    else:
        ordered = sorted(opened, key=lambda part: part[:2])
        batches = (batch for _, _, read in ordered for batch in read())
    for batch in batches:
        if batch.num_rows:
            yield batch.select(list(columns)) if is_merged else batch


def readable(snapshot: Snapshot, ranges: Intervals, numbers: SeqSet | None) -> tuple[Intervals, list[Part]]:
    """A set of time ranges without what is deleted, and the parts that may have rows of some numbers in it.

    Raises :class:`GrainError` if one of them is coarsened.
    """
    ranges, parts = snapshot.reached_by(ranges)
    if numbers is not None:
        parts = [part for part in parts if numbers.overlaps(*part.numbers)]
    for part in parts:
        if not part.has_rows:
            part.require_rows()
    return ranges, parts


def _overlap(parts: Sequence[Part]) -> bool:
    """Whether rows of one part belong between those of another, so that it does not do to read one after the other."""
    ordered = sorted(parts, key=lambda part: (part.first, part.last))
    return any(
        after.first < before.last or (after.first == before.last and after.numbers[0] < before.numbers[1])
        for before, after in pairwise(ordered)
    )


def _read(
    part: Part, wanted: Wanted, stored: pa.Schema, names: Sequence[str], counters: ReadCounters
) -> Iterator[pa.RecordBatch]:
    """The rows of a part that count, under the names and types of the snapshot."""
    own = wanted.of(part)
    choice, within = own.choice(part, stored), own.ranges.bounds
    if choice is None:
        return part.scan(within.start, within.end, names, own.test(part), counters)
    return part.select(within.start, within.end, names, choice, counters)


def count(
    snapshot: Snapshot, start: int | None, end: int | None, where: Predicate, counters: ReadCounters
) -> int | None:
    """How many rows with ``start <= time < end`` satisfy a condition; None if only a scan can tell.

    For conditions that are a range of one column's values, and as long as nothing but these decides which rows count.
    """
    wanted = value_range(where, snapshot.layout.stored)
    if wanted is None or snapshot.deletions(start, end):
        return None
    if snapshot.is_shifted and wanted.column == SEQUENCE_COLUMN:
        return None
    start, parts = snapshot.in_range(start, end)
    total = 0
    for part in parts:
        may_hold = pruning(part.layout, where, None)
        assert may_hold is not None
        choice = RowChoice([wanted.column], where.mask, may_hold, wanted)
        total += part.count(start, end, choice, certainty(part.layout, where), counters)
    return total

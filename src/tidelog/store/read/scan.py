"""Reading the rows of a snapshot: time travel, column pruning, pruning by what summaries say, exact filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.index.entries import Entries
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.index.tabtree.searching import Test
from tidelog.model.arrays import integers
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.storage.format.value_range import ValueRange
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.parts.part import Part, RowChoice, may_delete
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.value_ranges import value_range
from tidelog.store.rows.merge import chained
from tidelog.store.rows.stored import Ints
from tidelog.store.split.entry_tests import with_numbers

Mask = npt.NDArray[np.bool_]


def scan(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    columns: Sequence[str],
    where: Predicate | None = None,
    numbers: SeqSet | None = None,
    counters: ReadCounters | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows with ``start <= time < end`` that satisfy ``where``, in the order of (time, ``_seq``), lazily.

    ``columns`` are stored ones, ``_seq`` among them; ``numbers`` leaves out rows with other sequence numbers. Batches
    without rows are left out. Raises :class:`GrainError` where only reduced events are left.
    """
    counters = counters or ReadCounters()
    start, parts = readable(snapshot, start, end, numbers)
    time = snapshot.layout.schema.time
    deletions = tuple(snapshot.deletions(start, end))
    choice = None
    if where is not None or numbers is not None or deletions:
        choice = _Choice(time, where, numbers, deletions)
    names = list(columns)
    is_merged = _overlap(parts)
    if is_merged:
        names = list(dict.fromkeys((*columns, time, SEQUENCE_COLUMN)))
    opened: list[tuple[int, int, Callable[[], Iterator[pa.RecordBatch]]]] = [
        (part.first, part.last, partial(_read, part, start, end, snapshot.layout, names, choice, counters))
        for part in parts
    ]
    if is_merged:
        batches = chained(opened, names.index(time), names.index(SEQUENCE_COLUMN))
    else:
        ordered = sorted(opened, key=lambda part: part[:2])
        batches = (batch for _, _, read in ordered for batch in read())
    for batch in batches:
        if batch.num_rows:
            yield batch.select(list(columns)) if is_merged else batch


def readable(
    snapshot: Snapshot, start: int | None, end: int | None, numbers: SeqSet | None
) -> tuple[int | None, list[Part]]:
    """The start of a time range, not before what is deleted, and the parts that may have rows of some numbers in it.

    Raises :class:`GrainError` if one of them is reduced.
    """
    start, parts = snapshot.in_range(start, end)
    if numbers is not None:
        parts = [part for part in parts if numbers.overlaps(*part.numbers)]
    for part in parts:
        if not part.has_rows:
            part.require_rows()
    return start, parts


@dataclass(frozen=True, slots=True)
class _Choice:
    """Which rows count."""

    time: str
    where: Predicate | None
    numbers: SeqSet | None
    deletions: tuple[Deletion, ...]

    def of(self, part: Part) -> _Choice | None:
        """What of it matters for a part; None if all rows count."""
        if self.numbers is None and not self.deletions:
            return self
        low, high = part.numbers
        numbers = None if self.numbers is None or self.numbers.covers(low, high) else self.numbers
        deletions = tuple(mark for mark in self.deletions if may_delete(mark, part))
        if self.where is None and numbers is None and not deletions:
            return None
        return _Choice(self.time, self.where, numbers, deletions)

    @property
    def columns(self) -> list[str]:
        """What it looks at."""
        own = () if self.where is None else self.where.columns
        more = (SEQUENCE_COLUMN,) if self.numbers is not None or self.deletions else ()
        return list(dict.fromkeys((*own, *more, self.time) if self.deletions else (*own, *more)))

    def value_range(self, stored: pa.Schema, base: int) -> ValueRange | None:
        """The range of values that rows count for, if that is all that decides.

        Values are those in a tree: ``base`` is what is added to its sequence numbers.
        """
        if self.where is None or self.numbers is not None or self.deletions:
            return None
        found = value_range(self.where, stored)
        return None if base and found is not None and found.column == SEQUENCE_COLUMN else found

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """The rows of a batch that count."""
        kept: Mask | None = None
        if self.numbers is not None or self.deletions:
            numbers = integers(batch.column(SEQUENCE_COLUMN))
            kept = np.ones(batch.num_rows, np.bool_) if self.numbers is None else self.numbers.contains(numbers)
            times: Ints = integers(batch.column(self.time)) if self.deletions else numbers
            for deletion in self.deletions:
                kept &= ~deletion.mask(times, numbers)
        if self.where is None:
            return np.ones(batch.num_rows, np.bool_) if kept is None else kept
        mask = self.where.mask(batch)
        return mask if kept is None else kept & mask


def _overlap(parts: Sequence[Part]) -> bool:
    bounds = sorted((part.first, part.last) for part in parts)
    return any(after[0] <= before[1] for before, after in pairwise(bounds))


def _read(
    part: Part,
    start: int | None,
    end: int | None,
    layout: Layout,
    names: Sequence[str],
    choice: _Choice | None,
    counters: ReadCounters,
) -> Iterator[pa.RecordBatch]:
    """The rows of a part that count, under the names and types of the snapshot."""
    choice = None if choice is None else choice.of(part)
    if choice is None:
        return part.scan(start, end, names, None, counters)
    test = pruning(part.layout, choice.where, choice.numbers, part.base)
    wanted = RowChoice(choice.columns, choice.mask, test, choice.value_range(layout.stored, part.base))
    return part.select(start, end, names, wanted, counters)


def pruning(layout: Layout, where: Predicate | None, numbers: SeqSet | None, base: int = 0) -> Test | None:
    """What tells by entries whether there may be rows below that count; None if everything may count.

    ``base`` is what has to be added to the sequence numbers that entries tell of.
    """
    if where is None and numbers is None:
        return None
    reaches = None if numbers is None else with_numbers(layout, numbers, base)
    indexes = {} if where is None else _known(layout, where)

    def test(entries: Entries) -> Mask:
        columns = entries["columns"]
        result = np.ones(len(entries), np.bool_)
        if where is not None:
            known = {name: columns[:, index] for name, index in indexes.items()}
            if base and SEQUENCE_COLUMN in known:
                known[SEQUENCE_COLUMN] = _shifted_bounds(known[SEQUENCE_COLUMN], base)
            result &= where.may_match(known, entries["rows"])
        if reaches is not None:
            result &= reaches(entries)
        return result

    return test


def certainty(layout: Layout, where: Predicate) -> Test:
    """What tells by entries whether all rows below satisfy a condition."""
    indexes = _known(layout, where)

    def test(entries: Entries) -> Mask:
        columns = entries["columns"]
        return where.must_match({name: columns[:, index] for name, index in indexes.items()}, entries["rows"])

    return test


def _known(layout: Layout, where: Predicate) -> dict[str, int]:
    """The positions of the columns of a condition, as far as a tree has them."""
    return {name: layout.index(name) for name in where.columns if name in layout.stored.names}


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


def _shifted_bounds(records: Entries, base: int) -> Entries:
    """What entries say of sequence numbers, with a base added to the bounds."""
    records = records.copy()
    for bound in ("min", "max"):
        records[bound] += np.uint64(base)
    return records

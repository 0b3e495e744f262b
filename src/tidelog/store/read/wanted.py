"""Which rows are wanted, as parts understand it: a test of entries, one of rows, a range of values if that is all.

Whatever decides of rows is put together here: conditions, sequence numbers, deletions, and sets of time ranges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.expr.conditions.intervals import Interval
from tidelog.expr.conditions.pruning import as_stored
from tidelog.index.entries import Entries
from tidelog.index.layout import Layout
from tidelog.index.tabtree.searching import RowChoice, Test
from tidelog.model.arrays import integers
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.model.times.intervals import Intervals
from tidelog.storage.format.value_range import ValueRange, can_have_range
from tidelog.store.manifest.manifest import Deletion
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.parts.part import Part, may_delete
from tidelog.store.rows.stored import Ints
from tidelog.store.split.entry_bounds import with_numbers

_SIGNED = -(2**63), 2**63 - 1
_UNSIGNED = 0, 2**64 - 1

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows count."""

    time: str
    """The column of times."""
    ranges: Intervals
    where: Predicate | None = None
    numbers: SeqSet | None = None
    deletions: tuple[Deletion, ...] = ()
    hint: Predicate | None = None
    """What rows that do not satisfy it need not be read for; those that are read need not satisfy it."""

    def of(self, part: Part) -> Wanted:
        """What of it matters for a part: where it has the part's rows in any case, it says nothing of them."""
        ranges = self.ranges if len(self.ranges.spans) == 1 else self.ranges.reaching(part.first, part.last)
        if self.numbers is None and not self.deletions:
            return self if ranges is self.ranges else replace(self, ranges=ranges)
        low, high = part.numbers
        numbers = None if self.numbers is None or self.numbers.covers(low, high) else self.numbers
        deletions = tuple(deletion for deletion in self.deletions if may_delete(deletion, part))
        return Wanted(self.time, ranges, self.where, numbers, deletions, self.hint)

    def choice(self, part: Part, stored: pa.Schema) -> RowChoice | None:
        """The rows of a part that count among those within the bounds of the ranges; None for all of them.

        ``stored`` has the types that conditions are about.
        """
        is_one = len(self.ranges.spans) == 1
        if is_one and self.where is None and self.numbers is None and not self.deletions:
            return None
        ranges = None if is_one else _Ranges(self.ranges)
        test = _both(pruning(part.layout, self.where, self.numbers, part.base, self.ranges), self.test(part))
        by_time = ranges is not None or bool(self.deletions)
        names = [*(() if self.where is None else self.where.columns)]
        names += [SEQUENCE_COLUMN] if self.numbers is not None or self.deletions else []
        names += [self.time] if by_time else []
        values = None
        if self.where is not None and self.numbers is None and not by_time:
            values = value_range(self.where, stored)
            if part.base and values is not None and values.column == SEQUENCE_COLUMN:
                values = None  # which would be those in the tree

        def keeps(batch: pa.RecordBatch) -> Mask:
            return self._mask(batch, ranges)

        return RowChoice(list(dict.fromkeys(names)), keeps, test, values)

    def test(self, part: Part) -> Test | None:
        """What tells by the entries of a part whether the hint may hold for rows below."""
        return None if self.hint is None else _may_match(part.layout, self.hint, part.base)

    def _mask(self, batch: pa.RecordBatch, ranges: _Ranges | None) -> Mask:
        """The rows of a batch that count."""
        masks = [] if self.where is None else [self.where.mask(batch)]
        if ranges is not None:
            masks.append(ranges.have(integers(batch.column(self.time))))
        if self.numbers is not None:
            masks.append(self.numbers.contains(integers(batch.column(SEQUENCE_COLUMN))))
        if self.deletions:
            times, numbers = integers(batch.column(self.time)), integers(batch.column(SEQUENCE_COLUMN))
            masks += [~deletion.mask(times, numbers) for deletion in self.deletions]
        mask = masks[0]
        for each in masks[1:]:
            mask = mask & each
        return mask


class _Ranges:
    """Spans of a set of time ranges, all of which may have rows, as arrays."""

    def __init__(self, ranges: Intervals) -> None:
        spans = ranges.spans
        self._starts: Ints = np.array([INT64_MIN if each.start is None else each.start for each in spans], np.int64)
        ends = [INT64_MAX + 1 if each.end is None else each.end for each in spans]
        self._lasts: Ints = np.array([min(end - 1, INT64_MAX) for end in ends], np.int64)

    def have(self, times: Ints) -> Mask:
        """Which times, none of which is before the last, are inside."""
        mask = np.zeros(len(times), np.bool_)
        if len(times):
            near = slice(int(self._lasts.searchsorted(times[0])), int(self._starts.searchsorted(times[-1], "right")))
            firsts = times.searchsorted(self._starts[near])
            lasts = times.searchsorted(self._lasts[near], "right")
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
                mask[first:last] = True
        return mask

    def overlap(self, lows: Ints, highs: Ints) -> Mask:
        """Of which stretches of time, given by their ends, both included, something is inside."""
        places = np.searchsorted(self._lasts, lows)
        nearest = self._starts[np.minimum(places, len(self._starts) - 1)]
        inside: Mask = (places < len(self._starts)) & (nearest <= highs)
        return inside


def pruning(
    layout: Layout, where: Predicate | None, numbers: SeqSet | None, base: int = 0, ranges: Intervals | None = None
) -> Test | None:
    """What tells by entries whether there may be rows below that count; None if everything may count.

    ``base`` is what has to be added to the sequence numbers that entries tell of. ``ranges`` matter only if there are
    several spans: those who ask entries know the bounds of all of them.
    """
    tests: list[Test] = []
    if where is not None:
        tests.append(_may_match(layout, where, base))
    if numbers is not None:
        tests.append(with_numbers(layout, numbers, base))
    if ranges is not None and len(ranges.spans) > 1:
        tests.append(_reached_by(layout, _Ranges(ranges)))
    result = None
    for each in tests:
        result = _both(result, each)
    return result


def _both(one: Test | None, other: Test | None) -> Test | None:
    """What holds if two tests do."""
    if one is None or other is None:
        return other if one is None else one

    def test(entries: Entries) -> Mask:
        return one(entries) & other(entries)

    return test


def _may_match(layout: Layout, where: Predicate, base: int) -> Test:
    indexes = _known(layout, where)

    def test(entries: Entries) -> Mask:
        columns = entries["columns"]
        known = {name: columns[:, index] for name, index in indexes.items()}
        if base and SEQUENCE_COLUMN in known:
            known[SEQUENCE_COLUMN] = _shifted_bounds(known[SEQUENCE_COLUMN], base)
        return where.may_match(known, entries["rows"])

    return test


def _reached_by(layout: Layout, ranges: _Ranges) -> Test:
    def test(entries: Entries) -> Mask:
        bounds = entries["columns"][:, layout.time]
        return ranges.overlap(bounds["min"].astype(np.int64), bounds["max"].astype(np.int64))

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


def _shifted_bounds(records: Entries, base: int) -> Entries:
    """What entries say of sequence numbers, with a base added to the bounds."""
    records = records.copy()
    for bound in ("min", "max"):
        records[bound] += np.uint64(base)
    return records


def value_range(where: Predicate, stored: pa.Schema) -> ValueRange | None:
    """The range of values of the one column of a condition that it is true for, and nowhere else; None if it has none.

    A condition that names more columns has none, even if these decide nothing: ``a < 3 OR b > NULL``.
    """
    found = where.exact_range
    if found is None or len(found.intervals) > 1 or len(where.columns) != 1:
        return None
    type = stored.field(found.column).type
    if not can_have_range(type):
        return None
    if not found.intervals:
        return ValueRange(found.column, 1, 0, found.nans)
    interval = as_stored(found.intervals[0], found.type, type)
    if pa.types.is_floating(type):
        return ValueRange(found.column, *_floats(interval), found.nans)
    return ValueRange(found.column, *_integers(interval, *(_UNSIGNED if _is_unsigned(type) else _SIGNED)))


def _is_unsigned(type: pa.DataType) -> bool:
    return bool(pa.types.is_unsigned_integer(type))


def _floats(interval: Interval) -> tuple[float, float]:
    low = -math.inf if interval.low is None else float(interval.low)
    high = math.inf if interval.high is None else float(interval.high)
    # Beside an infinity there is nothing: a bound that is one and does not count leaves no number.
    if not interval.low_inclusive:
        low = math.nextafter(low, math.inf)
        if low == interval.low:
            return math.inf, -math.inf
    if not interval.high_inclusive:
        high = math.nextafter(high, -math.inf)
        if high == interval.high:
            return math.inf, -math.inf
    return low, high


def _integers(interval: Interval, lowest: int, highest: int) -> tuple[int, int]:
    low = lowest if interval.low is None else interval.low + (not interval.low_inclusive)
    high = highest if interval.high is None else interval.high - (not interval.high_inclusive)
    if low > highest or high < lowest:
        return 1, 0
    return max(low, lowest), min(high, highest)

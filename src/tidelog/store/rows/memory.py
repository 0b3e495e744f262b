"""Rows of a tail that are in memory: those of the open leaf, and late ones."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.model.schema import Schema
from tidelog.storage.rows.numbered import NumberedRows, Rows
from tidelog.storage.rows.ordered import AnyRows, OrderedRows, are_words, gathered
from tidelog.storage.rows.row_size import RowSize
from tidelog.store.rows import ordering
from tidelog.store.rows.ordering import delays_of, parted
from tidelog.store.rows.stored import (
    Ints,
    as_stored,
    concatenated,
    is_sorted,
    joined,
    seqs,
    sorted_rows,
    sorting_of,
    times,
)

_MOST_PARTS: Final = 1024
"""Batches that are gathered before they are made one: a thousand small ones are handled like a large one."""

_PINNED: Final = 3
"""Rows that may stay in memory, at most, for each one that is still to be stored, for it not to be copied; others may
if there are few of them:"""

_PINNED_BYTES: Final = 8 << 20


class MemoryRows:
    """Rows gathered in any order; one sorted batch when asked for. Calls must take turns."""

    def __init__(self, schema: Schema, stored: pa.Schema) -> None:
        self._schema = schema
        self._stored = stored
        self._size = RowSize(stored)
        self._kept: OrderedRows | None = None
        """Sorted rows that are still where they came; they came before those of all parts."""
        self._parts: list[Rows] = []
        self._in_order = True
        self._sorting: tuple[Ints | None, Ints] | None = None
        """The order of the rows of all parts and their times in it, as long as both are known."""
        self.last_time: int | None = None
        """The latest time among the rows."""
        self.rows = 0
        self.bytes = 0

    @property
    def is_fixed(self) -> bool:
        """Whether all values have a fixed width."""
        return self._size.is_fixed

    def add(self, rows: Rows) -> None:
        """Take in rows; their memory must not change afterwards."""
        if not rows.num_rows:
            return
        at = times(rows, self._schema)
        follows = self.last_time is None or at[0] >= self.last_time
        self._in_order = self._in_order and bool(follows) and is_sorted(at)
        self._sorting = None
        last = int(at.max())
        self.last_time = last if self.last_time is None else max(last, self.last_time)
        self._parts.append(rows)
        self.rows += rows.num_rows
        self.bytes += rows.batch.nbytes + 8 * rows.num_rows if isinstance(rows, NumberedRows) else rows.nbytes
        if len(self._parts) >= _MOST_PARTS:
            self._parts = [concatenated([as_stored(part, self._stored) for part in self._parts], self._stored)]

    @property
    def is_sorted(self) -> bool:
        """Whether the rows came in the order of their times."""
        return self._in_order

    def sorted(self) -> pa.RecordBatch:
        """All rows in the order of (time, ``_seq``). The batch stays as it is, whatever is added later."""
        self._copy_kept()
        if len(self._parts) != 1 or not self._in_order or isinstance(self._parts[0], NumberedRows):
            whole = sorted_rows(self._parts, self._schema, self._stored)
            self._parts = [whole] if whole.num_rows else []
            self._in_order, self._sorting = True, None
            return whole
        found: pa.RecordBatch = self._parts[0]
        return found

    def _copy_kept(self) -> None:
        """Have all rows in parts."""
        if self._kept is not None:
            self._parts.insert(0, self._kept.gathered())
            self._kept = None

    def times(self) -> Ints:
        """The times of all rows, sorted."""
        if self._in_order:
            return joined([times(part, self._schema) for part in self._all()])
        return self._sorted()[1]

    def _all(self) -> list[AnyRows]:
        return [*self._parts] if self._kept is None else [self._kept, *self._parts]

    def _sorted(self) -> tuple[Ints | None, Ints]:
        if self._sorting is None:
            self._sorting = sorting_of(self._all(), self._schema)
        return self._sorting

    def since(self, seq: int) -> list[pa.RecordBatch]:
        """The rows with sequence numbers from ``seq`` on."""
        self._copy_kept()
        found = []
        for part in reversed(self._parts):  # each arrived, as a whole, after the one before it
            if isinstance(part, NumberedRows):
                new = part.slice(max(0, seq - part.first))
                if not new.num_rows:
                    break
                found.append(as_stored(new, self._stored))
                continue
            wanted = seqs(part) >= seq
            if not wanted.any():
                break
            found.append(part if wanted.all() else part.filter(pa.array(wanted)))
        return found[::-1]

    def take(self, count: int | None = None) -> pa.RecordBatch:
        """Remove and return the first ``count`` rows in order, all for None."""
        whole = self.sorted()
        count = whole.num_rows if count is None else min(count, whole.num_rows)
        self._begin_with(whole.slice(count))
        return whole.slice(0, count)

    def take_in_order(self) -> OrderedRows:
        """Remove and return all rows in order: where they are, unless others would be copied to gather them there."""
        self._copy_kept()
        if are_words(self._parts, self._stored):
            order, at = self._sorted()
            rows = self._with_places_in_parts(np.arange(len(at)) if order is None else order, at)
        else:
            rows = OrderedRows.of(self.sorted(), self._schema.time_index)
        self._begin_with(concatenated([], self._stored))
        return rows

    def take_to_encode(self, count: int | None = None) -> AnyRows:
        """Like :meth:`take`, but rows are copied, and put in their order, by whoever encodes them, where possible."""
        count = self.rows if count is None else min(count, self.rows)
        if self._kept is None and self._in_order and len(self._parts) == 1:
            (part,) = self._parts
            self._begin_with(part.slice(count))
            return part.slice(0, count)
        if not self.is_fixed or (self._kept is None and self._in_order):
            return self.take(count)
        order, at = self._sorted()
        whole = self._with_places_in_parts(np.arange(len(at)) if order is None else order, at)
        self._begin_with_kept(whole.slice(count))
        return whole.slice(0, count)

    def _with_places_in_parts(self, order: Ints, at: Ints) -> OrderedRows:
        """All rows in an order of them, as rows of the parts that they came in."""
        if self._kept is None:
            return OrderedRows(self._stored, tuple(self._parts), order, at, self._schema.time_index)
        before = self._kept.pinned_rows
        new = np.arange(before, before + self.rows - self._kept.num_rows)
        places = np.concatenate([self._kept.order, new])
        parts = (*self._kept.parts, *self._parts)
        return OrderedRows(self._stored, parts, places[order], at, self._schema.time_index)

    def _begin_with(self, rows: Rows) -> None:
        """Have these rows and no others."""
        self._parts, self._kept = [], None
        self._in_order, self._sorting, self.last_time = True, None, None
        self.rows = self.bytes = 0
        self.add(rows)

    def _begin_with_kept(self, rows: OrderedRows) -> None:
        """Have these sorted rows and no others: where they are, unless that keeps too many others in memory."""
        rows = rows.narrowed()
        pinned = rows.pinned_rows
        if not rows.num_rows or (pinned > _PINNED * rows.num_rows and pinned * self._size.fixed > _PINNED_BYTES):
            self._begin_with(rows.gathered())
            return
        self._begin_with(concatenated([], self._stored))
        self._kept = rows
        self.rows, self.bytes, self.last_time = rows.num_rows, self._size.of(rows), int(rows.times[-1])


class SplitRows(NamedTuple):
    """Rows that came together, those that are late by much apart."""

    fresh: AnyRows
    """Those that can still be kept in order."""
    late: Ints | None
    """The places of those that are older than what is sealed; None if there are none."""
    delays: Ints
    """By how many ticks each late row, of either kind, is older than the newest one before it."""


def split_late(
    rows: Rows,
    schema: Schema,
    stored: pa.Schema,
    sealed: int | None,
    newest: int | None = None,
    *,
    to_encode: bool = False,
) -> SplitRows:
    """Part rows that are older than what is ``sealed`` from the others; ``newest`` is the latest time before them all.

    With ``to_encode``, which is for values of fixed width, the others are copied by whoever encodes them if possible.
    """
    at = times(rows, schema)
    if sealed is None or not len(at):
        follows = not len(at) or ((newest is None or at[0] >= newest) and is_sorted(at))
        return SplitRows(rows, None, at[:0] if follows else delays_of(at, newest))
    found = parted(at, sealed, sealed if newest is None else newest)
    if not len(found.below):
        return SplitRows(rows, None, found.delays)
    if not to_encode or not isinstance(rows, NumberedRows):
        return SplitRows(gathered([rows], found.places, stored), found.below, found.delays)
    order, others = found.places, found.others
    if found.falls:
        sorting = ordering.sorting_of(others)  # their numbers rise, so equal times are in order
        order, others = order[sorting.order], sorting.values
    return SplitRows(OrderedRows(stored, (rows,), order, others, schema.time_index), found.below, found.delays)

"""The rows of a tail that are in memory: they come, wait for others, are put in order, and are sealed in splits."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.conversion.rows import Row
from tidelog.model.times.clock import INT64_MIN
from tidelog.storage.rows.numbered import NumberedRows, Rows
from tidelog.storage.rows.ordered import AnyRows, OrderedRows
from tidelog.store.rows.memory import MemoryRows, split_late
from tidelog.store.rows.stored import Ints, are_in_order, as_stored, concatenated, times
from tidelog.store.split.context import StreamContext
from tidelog.store.tail.journal import message_of
from tidelog.store.tail.late.gaps import breaks_at_gaps
from tidelog.store.tail.late.lateness import DelayStatistic, LateCounters
from tidelog.store.tail.late.queue import LateQueue
from tidelog.store.tail.numbers import TailNumbers
from tidelog.store.tail.splits import TailSplits
from tidelog.store.tail.waiting import WaitingRows

_LARGE: Final = 8
"""Leaves of a batch from which on it is not gathered with others, which would mean copying it."""

_GATHERED: Final = 16
"""Leaves that are gathered from small batches before they are encoded together."""

_GATHERED_BYTES: Final = 16 << 20

_WINDOW: Final = 32
"""Leaves at most that wait in memory for late rows, while many come."""

_WINDOW_BYTES: Final = 16 << 20
"""The same limit in bytes."""

_SMALL: Final = 1024
"""Rows below which a batch waits for others, until there are so many rows, or so many batches, in all."""

_MOST_WAITING: Final = 256

_LONG_WAITING: Final = 1 << 20
"""The same limit in bytes of texts and other values of no fixed width."""


class TailRows:
    """Numbers rows and places them: in the open splits, among the newest rows in memory, or in the late queue.

    Calls must take turns.
    """

    def __init__(self, context: StreamContext, splits: TailSplits, numbers: TailNumbers) -> None:
        self._schema = context.layout.schema
        self._stored = context.layout.stored
        self._leaf = context.options.leaf_rows
        self._splits = splits
        self._numbers = numbers
        self._waiting = WaitingRows(self._schema, self._stored)
        self._fresh = MemoryRows(self._schema, self._stored)
        self.late = LateQueue(self._schema, self._stored, context.options.late_rows, context.options.late_bytes)
        self.counters = LateCounters()
        self.is_taken = False
        """Whether rows that are not in the journal have left off waiting."""
        self._delays: DelayStatistic | None = None
        """How late rows come; None as long as none does."""
        self._kept = (0, 0)
        """Rows, and their bytes, that were left to wait for late ones when some were sealed the last time."""

    # -- coming ---------------------------------------------------------------------------------------------------

    def take_over(self, rows: pa.RecordBatch, counters: LateCounters) -> None:
        """Begin with the rows that the writer before has left in the journal, and with what it has counted."""
        fresh, late, _ = split_late(rows, self._schema, self._stored, self._splits.sealed)
        self._fresh.add(as_stored(fresh, self._stored))
        if late is not None:
            self.late.add(rows, late)
        self.counters = counters

    def accept(self, batch: pa.RecordBatch) -> None:
        """Give rows their numbers; small batches wait until there are enough of them to be worth the work."""
        if not batch.num_rows:  # all of its rows were set aside, for example
            return
        if batch.num_rows < _SMALL:
            self.wait(batch, batch.num_rows)
        else:
            self.take_waiting()
            rows = NumberedRows(batch, self._numbers.next)
            self._numbers.next += batch.num_rows
            self._take(rows)

    def wait(self, item: pa.RecordBatch | Row, rows: int) -> None:
        """Number a row, or a small batch of so many, and let it wait for others."""
        numbers, waiting = self._numbers, self._waiting
        waiting.add(item, rows, numbers.next)
        numbers.next += rows
        if len(waiting) >= _MOST_WAITING or waiting.rows >= _SMALL or waiting.long_bytes >= _LONG_WAITING:
            self.take_waiting()

    def hold(self, batch: pa.RecordBatch) -> None:
        """Number a batch and let it wait, however large it is: so the next flush has all of it in one record."""
        self._waiting.add(batch, batch.num_rows, self._numbers.next)
        self._numbers.next += batch.num_rows

    def take_waiting(self) -> None:
        """Take in the small batches that wait."""
        if len(self._waiting):
            self._take(self._waiting.take())

    def _take(self, rows: Rows) -> None:
        if self._seal_large(rows):  # most often, and without a look at anything but the times
            return
        fresh = self._without_late(rows)
        if fresh is not rows and self._seal_large(fresh):
            return
        self._keep(fresh)
        if self._is_much_new():
            self.seal_old()

    def _keep(self, fresh: AnyRows) -> None:
        self._fresh.add(fresh.gathered() if isinstance(fresh, OrderedRows) else fresh)

    def _without_late(self, rows: Rows) -> AnyRows:
        """Those of some rows that are not older than what is sealed; the others go to the late queue."""
        self.is_taken = True
        to_encode = self._fresh.is_fixed
        fresh, late, delays = split_late(
            rows, self._schema, self._stored, self._splits.sealed, self._newest, to_encode=to_encode
        )
        if len(delays):
            self._observe(delays, 0 if late is None else len(late))
        if late is not None:
            self.late.add(rows, late)
        return fresh

    def _observe(self, delays: Ints, queued: int) -> None:
        """Rows came late by so many ticks each; so many of them find no place in memory."""
        if self._delays is None:
            self._delays = DelayStatistic(self._numbers.next)
        self.counters.observe(self._delays.observe(delays, self._numbers.next, queued))
        self.counters.placed += len(delays) - queued

    @property
    def _newest(self) -> int | None:
        """The latest time of all rows that were taken."""
        last, sealed = self._fresh.last_time, self._splits.sealed
        return last if sealed is None or (last is not None and last > sealed) else sealed

    # -- being sealed ---------------------------------------------------------------------------------------------

    def _outside_window(self, at: Ints, delays: DelayStatistic) -> int:
        """How many of the first rows need not wait for late ones, given all times, which are sorted.

        The others are those that 99 of 100 late rows come not before, by what was seen lately, within limits.
        """
        if not len(at):
            return 0
        most, newest = _WINDOW * self._leaf, int(at[-1])
        reach = (newest - int(at[0])) * most // len(at) if len(at) < most else newest - int(at[-most])
        patience = delays.patience(self._numbers.next, min(reach, 1 << 62))
        if not patience:
            return len(at)
        return max(int(np.searchsorted(at, max(newest - patience, INT64_MIN))), len(at) - most)

    def _is_much_new(self) -> bool:
        """Whether so many rows have come since some were sealed that it is time to seal more."""
        rows, size = self._kept
        return self._fresh.rows >= rows + _GATHERED * self._leaf or self._fresh.bytes >= size + _GATHERED_BYTES

    def has_new_leaf(self) -> bool:
        """Whether there may be rows for a leaf besides those that wait for late ones."""
        return self._fresh.rows + self._waiting.rows >= self._kept[0] + self._leaf

    def seal_old(self, *, all_leaves: bool = False) -> None:
        """Seal rows that need not wait for late ones, in whole leaves.

        If none has to wait, the newest leaf stays open all the same unless ``all_leaves`` are asked for: rows that come
        a little late still find their place in it.
        """
        leaf, rows, size = self._leaf, self._fresh.rows, self._fresh.bytes
        count = rows if self._delays is None else self._outside_window(self._fresh.times(), self._delays)
        waits = count < rows
        if waits:
            count = max(count, rows - int(rows * _WINDOW_BYTES / max(size, _WINDOW_BYTES)))
        elif not all_leaves:
            count = min(rows, max(rows - leaf, leaf))
        if count >= leaf:
            count -= count % leaf
        elif all_leaves or not self._is_much_new():  # a leaf's worth of bytes may be fewer rows
            count = 0
        if count:
            self._seal(self._fresh.take_to_encode(count))
        self._kept = (self._fresh.rows, self._fresh.bytes) if waits else (0, 0)

    def seal_leaves(self) -> None:
        """Seal all rows but those of the late queue, in whole leaves: fewer than one's stay."""
        self.take_waiting()
        count = self._fresh.rows - self._fresh.rows % self._leaf
        if count:
            self._seal(self._fresh.take_to_encode(count))
        self._kept = (0, 0)

    def seal_all(self) -> None:
        """Seal all rows but those of the late queue."""
        self.take_waiting()
        if self._fresh.rows:
            self._seal(self._fresh.take_to_encode())

    def _seal(self, rows: AnyRows, *, in_order: bool = False) -> None:
        """Append rows to the splits, with leaves that end where rows seem to be missing that come late."""
        breaks = None
        if self._delays is not None and (share := self._delays.queued_share):
            breaks = breaks_at_gaps(times(rows, self._schema), self._leaf, share)
        self._splits.extend(rows, in_order=in_order, breaks=breaks)

    def _seal_large(self, rows: AnyRows) -> bool:
        """Seal rows that are many leaves, in order and behind all others; otherwise false, and nothing is done.

        While rows often come late, the newest ones stay in memory.
        """
        if rows.num_rows < _LARGE * self._leaf or not self._follows(rows):
            return False
        count = rows.num_rows
        if self._delays is not None:
            count = self._outside_window(times(rows, self._schema), self._delays)
        if count < self._leaf:
            return False
        self.is_taken = True
        if self._fresh.rows:
            self._seal(self._fresh.take_to_encode())
        self._seal(rows if count == rows.num_rows else rows.slice(0, count), in_order=True)
        if count < rows.num_rows:
            self._keep(rows.slice(count))
        self._kept = self._fresh.rows, self._fresh.bytes
        return True

    def _follows(self, batch: AnyRows) -> bool:
        """Whether rows are in order, and follow those of the open leaf and all that are sealed."""
        first = int(times(batch, self._schema)[0])
        bounds = (self._fresh.last_time, self._splits.sealed)
        return all(bound is None or first >= bound for bound in bounds) and are_in_order(batch, self._schema)

    # -- being read -----------------------------------------------------------------------------------------------

    def newest(self) -> int | None:
        """The latest time of all rows, and of those that are sealed; None if there are none."""
        self.take_waiting()
        return self._newest

    def sorted(self) -> list[pa.RecordBatch]:
        """All rows in memory, as sorted batches."""
        self.take_waiting()
        batches = [self._fresh.sorted(), *self.late.sorted()]
        return [batch for batch in batches if batch.num_rows]

    def all(self) -> pa.RecordBatch:
        """All rows in memory as one batch, for a new journal: they need not be written to it once more.

        Seals none: rows that were flushed to the journal before would be in a split that is not flushed, and nowhere
        else.
        """
        if len(self._waiting):
            self._keep(self._without_late(self._waiting.take()))
        found = concatenated(self.sorted(), self._stored)
        self.note_saved()
        return found

    def note_saved(self) -> None:
        """All rows are in the journal, or in splits, now."""
        self.is_taken = False
        self.late.note_saved()

    def since(self, number: int) -> bytes | pa.Buffer | None:
        """The Arrow IPC message of the rows in memory that have a number, or a greater one; None if there are none.

        While :attr:`is_taken` is false, these are rows that wait, and they go on waiting.
        """
        if not self.is_taken:
            return self._waiting.message(number)
        self.take_waiting()
        parts = [*self._fresh.since(number), *self.late.since(number)]
        return message_of(concatenated(parts, self._stored)) if parts else None

    @property
    def rows(self) -> int:
        """How many rows are in memory."""
        return self._waiting.rows + self._fresh.rows + self.late.rows

    @property
    def bytes(self) -> int:
        """About how much memory they take, but for those that have just come."""
        return self._fresh.bytes + self.late.bytes

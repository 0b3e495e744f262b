"""The writer of a stream's tail (docs/design/003-event-store.md): appends, flushes, closes splits, survives crashes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.index.tabtree.reader import TreeReader
from tidelog.model.errors import ClosedError, ConflictError, InputError, StorageError
from tidelog.model.rows import Row
from tidelog.model.time import INT64_MIN
from tidelog.storage.media import Lock
from tidelog.storage.numbered import NumberedRows, Rows
from tidelog.store.entrytests import tree_numbers
from tidelog.store.lateness import DelayStatistic, LateCounters, delays_of
from tidelog.store.latequeue import LateQueue
from tidelog.store.manifest import Change, Manifest, ManifestLog
from tidelog.store.memory import MemoryRows, split_late
from tidelog.store.opensplit import Site, closed_tree
from tidelog.store.published import Publisher, TailRecord
from tidelog.store.rows import Ints, are_in_order, concatenated, is_sorted, times, with_seq
from tidelog.store.seqset import Span
from tidelog.store.tailjournal import Head, TailJournal, message_of
from tidelog.store.tailsplits import TailSplits
from tidelog.store.tailstate import TailState, not_in, read_state, tail_path, tail_splits
from tidelog.store.waiting import WaitingRows

_LARGE: Final = 8
"""Leaves of a batch from which on it is not gathered with others, which would mean copying it."""

_GATHERED: Final = 16
"""Leaves that are gathered from small batches before they are encoded together."""

_WINDOW: Final = 32
"""Leaves at most that wait in memory for late rows, while many come."""

_WINDOW_BYTES: Final = 16 << 20
"""The same limit in bytes."""

_GATHERED_BYTES: Final = 16 << 20

_SMALL: Final = 1024
"""Rows below which a batch waits for others, until there are so many rows, or so many batches, in all."""

_MOST_WAITING: Final = 256

_LATE_LEFT: Final = 0.5
"""What share of the limit of late rows is left when a bulk of them was merged as far as it is worth it."""

_LATE_AT_MOST: Final = 2
"""How many times the limit of late rows may wait before an append merges more than a slice of them."""

_SLICE_LEAVES: Final = 64
"""Leaves that late rows are merged into between two appends: half a million rows, about a tenth of a second."""

_SPARSE: Final = 32
"""A leaf is written again for late rows if they are at least this fraction of a full one. For fewer it is cheaper to
write them as a split of their own, in one go; compaction merges that later, with everything else around it."""

_LATE_BEFORE_FLUSH: Final = 4
"""How many times the limit of late rows an append from a reader may bring before what has come of it is flushed."""

RESERVED: Final = 1 << 32
"""How many sequence numbers a tail reserves at a time."""

_NO_APPEND: Final = -1
"""The number of a producer whose first append is not flushed yet."""


@dataclass(frozen=True, slots=True)
class TailView:
    """Everything in a tail at one moment. The trees are readable until the tail is closed."""

    trees: tuple[TreeReader, ...]
    rows: tuple[pa.RecordBatch, ...]
    """Sorted rows that are in no tree."""
    next_seq: int


def lock_path(directory: str) -> str:
    """The name of the lock that the writer of a tail holds."""
    return tail_path(directory, "lock")


def published_path(directory: str) -> str:
    """The name of the file with the tail record."""
    return tail_path(directory, "published")


class Tail:
    """The one writer of a stream's tail. May be used from several threads.

    Raises :class:`LockedError` if there is another one. After an error of the storage it takes no more rows: close it
    and open it again.
    """

    def __init__(self, site: Site, manifests: ManifestLog, lock: Lock | None = None) -> None:
        """With a ``lock`` that is held already, as :meth:`evolve` leaves it; given up if this fails.

        Raises :class:`ConflictError` if the stream has another schema than the site says.
        """
        self._site = site
        self._manifests = manifests
        self._schema = site.layout.schema
        self._stored = site.layout.stored
        self._options = site.options
        self._mutex = threading.RLock()
        self._closed = False
        self._failure: BaseException | None = None
        self._fresh = MemoryRows(self._schema, self._stored)
        self._late = LateQueue(self._schema, self._stored)
        self._splits = TailSplits(site, manifests, on_new=self._name_splits, on_many=self._close_finished)
        self._unacknowledged: dict[str, int] = {}
        """Appends by producers that no flush has made durable yet."""
        self._waiting = WaitingRows(self._schema, self._stored)
        self._is_taken = False
        """Whether rows that are not in the journal have left off waiting."""
        self._view: TailView | None = None
        self._counters = self._saved_counters = LateCounters()
        self._delays: DelayStatistic | None = None
        """How late rows come; None as long as none does."""
        self._kept = (0, 0)
        """Rows, and their bytes, that were left to wait for late ones when some were sealed the last time."""
        site.medium.make_directory(tail_path(site.directory))
        self._lock: Lock = site.medium.lock(lock_path(site.directory)) if lock is None else lock
        try:
            self._recover()
        except BaseException:
            self._splits.abandon()
            self._lock.release()
            raise

    # -- opening and closing -------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Take over what the writer before has left."""
        self._publisher = Publisher(self._site.medium, published_path(self._site.directory))
        # What was published before says less than what is durable, if the machine has failed since.
        self._publisher.withdraw()
        manifest = self._manifests.load()
        if len(manifest.schemas) - 1 != self._site.version:
            raise ConflictError("the schema of the stream has changed; open it again")
        state = read_state(self._site, manifest)
        self._producers = dict(state.producers)
        self._counters = LateCounters.read(state.late)
        self._saved_counters = replace(self._counters)
        # A producer may send its last append again: of an append not acknowledged, no part may be left.
        self._splits.take_over(state.splits, manifest, exactly=bool(state.producers))
        rows = self._new_rows(state, manifest)
        fresh, late = split_late(rows, self._schema, self._splits.sealed)
        self._fresh.add(fresh)
        if late is not None:
            self._late.add(late)
        numbers = [state.next_seq, *(tree_numbers(tree)[1] + 1 for tree in self._splits.readers())]
        if rows.num_rows:
            numbers.append(int(np.max(rows.column(rows.num_columns - 1).to_numpy())) + 1)
        self._go_on_from(max(numbers), manifest)
        self._journal = TailJournal(
            self._site.medium, tail_path(self._site.directory), self._head(base=True), self._memory(), state.number + 1
        )
        self._publish()
        self._journal.remove_older()
        self._close_finished()

    def _go_on_from(self, number: int, manifest: Manifest) -> None:
        """Go on with a sequence number, or a greater one, in the tail's block if it may still be used.

        It may not if others have committed rows since it was reserved: rows that come later have greater numbers.
        """
        block = manifest.tail_block
        if block is None or number >= block[1] or manifest.next_seq > block[1]:
            block = self._reserved(number, 0)
        self._block = block
        self._next_seq = self._journaled = max(number, block[0])

    def _reserved(self, number: int, rows: int) -> Span:
        """A new block of sequence numbers from ``number`` on, large enough for so many rows."""

        def change(manifest: Manifest) -> Change:
            first = max(number, manifest.next_seq)
            return Change(tail_block=(first, first + max(rows, RESERVED)))

        block = self._manifests.commit(change).tail_block
        assert block is not None
        return block

    def _make_room(self, rows: int) -> None:
        """See to it that the tail's block has numbers for so many rows.

        Before another block begins everything is flushed: readers rely on blocks being published one after the other.
        """
        if self._next_seq + rows > self._block[1]:
            self._flush_or_fail()
            try:
                self._take_waiting()  # rows that wait together have consecutive numbers
                self._block = self._reserved(self._next_seq, rows)
                self._next_seq = self._journaled = self._block[0]
                self._publish()
            except BaseException as error:
                self._failure = error
                raise

    def _new_rows(self, state: TailState, manifest: Manifest) -> pa.RecordBatch:
        """The rows of the journal that are in no split."""
        rows = state.rows(self._stored)
        if not rows.num_rows:
            return rows
        rows = not_in(self._splits.readers(), rows)
        for info in tail_splits(manifest, rows):
            tree, reader = closed_tree(self._site, info)
            with reader:
                rows = not_in([tree], rows)
        return rows

    def close(self) -> None:
        """Flush and give up the tail; after a failure only give it up."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            if not self._lock.held:  # in a forked child, to which nothing of this belongs
                return
            with ExitStack() as resources:
                resources.callback(self._lock.release)
                resources.callback(self._publisher.close)
                resources.callback(self._splits.abandon)
                resources.callback(self._journal.close)
                if self._failure is None:
                    self._flush()

    def evolve(self, change: Callable[[Manifest], Change]) -> Lock:
        """Commit a change of the schema and give up the tail, but for its lock, with which another one can go on.

        All rows are in closed splits before, and the journal has none: so whatever the tail writes has one schema, the
        newest. Raises, with nothing changed, if the change does not fit.
        """
        with self._mutex:
            self._check_open()
            manifest = self._manifests.load()
            manifest.changed(change(manifest), manifest.number, manifest.at)
            try:
                self._flush()
                self._hand_over()
                self._manifests.commit(change)
            except BaseException as error:
                self._failure = error
                raise
            self._closed = True
            with ExitStack() as resources:
                resources.callback(self._publisher.close)
                resources.callback(self._splits.abandon)
                resources.callback(self._journal.close)
            return self._lock

    def _hand_over(self) -> None:
        """Close all splits, with the rows that are in memory; what was flushed is in the journal until that is done."""
        self._view = None
        self._take_waiting()
        if self._fresh.rows:
            self._splits.extend(self._fresh.take())
        self._splits.finish_all()
        self._close_finished()
        if self._late.is_merging:
            self._late.end()
        self._spill_late()
        self._journal.replace(self._head(base=True), None)
        self._publish()
        self._journal.remove_older()

    # -- appending ------------------------------------------------------------------------------------------------

    def append(
        self, batches: Iterable[pa.RecordBatch], *, producer: str | None = None, number: int | None = None
    ) -> None:
        """Append batches of the stream's schema, whose memory must not change.

        With a producer and a number, an append that is not newer than the producer's last one is passed over: it was
        appended before. The rows of such an append survive a crash together or not at all.
        """
        with self._mutex:
            self._check_open()
            self._view = None
            if producer is not None and number is not None:
                if number < 0:
                    raise InputError(f"found the number {number} for an append of {producer!r}; numbers start at 0")
                if number <= self._unacknowledged.get(producer, self._producers.get(producer, _NO_APPEND)):
                    return
                batches = list(batches)  # all of it fits before any of it counts
                self._make_room(sum(batch.num_rows for batch in batches))  # before any of it is in the journal
                self._announce(producer)
                self._unacknowledged[producer] = number
            is_whole = isinstance(batches, list)
            if is_whole:
                self._make_room(sum(batch.num_rows for batch in batches))
            for batch in batches:
                if not is_whole:
                    self._make_room(batch.num_rows)
                try:
                    self._accept(batch)
                except BaseException as error:
                    self._failure = error
                    raise
                # All of a list is in memory anyway, so its rows are flushed, and seen by others, together.
                if not is_whole and self._has_many_late(_LATE_BEFORE_FLUSH):
                    self._flush_or_fail()
            self._settle_late()

    def append_row(self, row: Row) -> None:
        """Append one event, given by its canonical values (:class:`tidelog.model.rows.RowReader`)."""
        with self._mutex:
            self._check_open()
            self._view = None
            self._make_room(1)
            try:
                self._wait(row, 1)
            except BaseException as error:
                self._failure = error
                raise
            self._settle_late()

    def _announce(self, producer: str) -> None:
        """See to it that from the first append with a number on, crashes lead back to exactly what was flushed.

        That must be durable before anything of the append is: splits commit on their own when they have grown enough.
        """
        if not self._producers:
            try:
                self._producers[producer] = _NO_APPEND
                self._journal.append(self._head(producers=self._producers))
                self._journal.sync()
            except BaseException as error:
                self._failure = error
                raise

    def last_number(self, producer: str) -> int | None:
        """The number of a producer's last append, flushed or not; None if it has made none."""
        with self._mutex:
            self._check_open()
            number = self._unacknowledged.get(producer, self._producers.get(producer, _NO_APPEND))
            return None if number == _NO_APPEND else number

    def _accept(self, batch: pa.RecordBatch) -> None:
        """Give rows their numbers; small batches wait until there are enough of them to be worth the work."""
        if batch.num_rows < _SMALL:
            self._wait(batch, batch.num_rows)
        else:
            self._take_waiting()
            rows = NumberedRows(batch, self._next_seq)
            self._next_seq += batch.num_rows
            if not self._seal_large(rows):  # most often, and without a look at anything but the times
                self._take(with_seq(batch, rows.first, self._stored))

    def _wait(self, item: pa.RecordBatch | Row, rows: int) -> None:
        self._waiting.add(item, rows, self._next_seq)
        self._next_seq += rows
        if len(self._waiting) >= _MOST_WAITING or self._waiting.rows >= _SMALL:
            self._take_waiting()

    def _take_waiting(self) -> None:
        """Take in the small batches that wait."""
        if len(self._waiting):
            self._take(self._waiting.take())

    def _take(self, rows: pa.RecordBatch) -> None:
        if self._seal_large(rows):
            return
        self._is_taken = True
        fresh, late = split_late(rows, self._schema, self._splits.sealed)
        self._observe(rows, 0 if late is None else late.num_rows)
        if late is not None:
            self._late.add(late)
            if self._seal_large(fresh):
                return
        self._fresh.add(fresh)
        if self._is_much_new():
            self._seal_old()

    def _observe(self, rows: pa.RecordBatch, queued: int) -> None:
        """Look at rows that may come late, so many of which find no place in memory."""
        at, newest = times(rows, self._schema), self._newest
        if not queued and is_sorted(at) and (newest is None or at[0] >= newest):
            return
        delays = delays_of(at, newest)
        if self._delays is None:
            self._delays = DelayStatistic(self._next_seq)
        self._delays.observe(delays, self._next_seq)
        self._counters.observe(delays)
        self._counters.placed += len(delays) - queued

    @property
    def _newest(self) -> int | None:
        """The latest time of all rows that were taken."""
        last, sealed = self._fresh.last_time, self._splits.sealed
        return last if sealed is None or (last is not None and last > sealed) else sealed

    def _outside_window(self, at: Ints) -> int:
        """How many of the first rows need not wait for late ones, given all times, which are sorted.

        The others are those that 99 of 100 late rows come not before, by what was seen lately, within limits.
        """
        if self._delays is None or not len(at):
            return len(at)
        most, newest = _WINDOW * self._options.leaf_rows, int(at[-1])
        reach = (newest - int(at[0])) * most // len(at) if len(at) < most else newest - int(at[-most])
        patience = self._delays.patience(self._next_seq, min(reach, 1 << 62))
        if not patience:
            return len(at)
        return max(int(np.searchsorted(at, max(newest - patience, INT64_MIN))), len(at) - most)

    def _is_much_new(self) -> bool:
        """Whether so many rows have come since some were sealed that it is time to seal more."""
        rows, size = self._kept
        return (
            self._fresh.rows >= rows + _GATHERED * self._options.leaf_rows
            or self._fresh.bytes >= size + _GATHERED_BYTES
        )

    def _seal_old(self, *, all_leaves: bool = False) -> None:
        """Seal rows that need not wait for late ones, in whole leaves.

        If none has to wait, the newest leaf stays open all the same unless ``all_leaves`` are asked for: rows that come
        a little late still find their place in it.
        """
        leaf, rows, size = self._options.leaf_rows, self._fresh.rows, self._fresh.bytes
        count = self._outside_window(times(self._fresh.sorted(), self._schema))
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
            self._splits.extend(self._fresh.take(count))
        self._kept = (self._fresh.rows, self._fresh.bytes) if waits else (0, 0)

    def _seal_large(self, rows: Rows) -> bool:
        """Seal rows that are many leaves, in order and behind all others; otherwise false, and nothing is done.

        While rows often come late, the newest ones stay in memory.
        """
        leaf = self._options.leaf_rows
        if rows.num_rows < _LARGE * leaf or not self._follows(rows):
            return False
        count = rows.num_rows if self._delays is None else self._outside_window(times(rows, self._schema))
        if count < leaf:
            return False
        self._is_taken = True
        if self._fresh.rows:
            self._splits.extend(self._fresh.take())
        self._splits.extend(rows if count == rows.num_rows else rows.slice(0, count), in_order=True)
        if count < rows.num_rows:
            rest = rows.slice(count)
            self._fresh.add(with_seq(rest.batch, rest.first, self._stored) if isinstance(rest, NumberedRows) else rest)
        self._kept = self._fresh.rows, self._fresh.bytes
        return True

    def _settle_late(self) -> None:
        """Flush if that would do something about late rows."""
        if not self._late.is_empty and (self._has_many_late(1) or self._late.is_merging):
            self._flush_or_fail()

    def _has_many_late(self, factor: float) -> bool:
        """Whether there are so many times more late rows than are to be kept in memory."""
        late, options = self._late, self._options
        return late.rows >= factor * options.late_rows or late.bytes >= factor * options.late_bytes

    def _follows(self, batch: Rows) -> bool:
        """Whether rows are in order, and follow those of the open leaf and all that are sealed."""
        first = int(times(batch, self._schema)[0])
        bounds = (self._fresh.last_time, self._splits.sealed)
        return all(bound is None or first >= bound for bound in bounds) and are_in_order(batch, self._schema)

    # -- splits ---------------------------------------------------------------------------------------------------

    def _name_splits(self) -> None:
        """Tell the journal of a new split, so that what background commits keep of it is found after a crash."""
        self._journal.append(self._head())

    def _close_finished(self) -> None:
        """Close splits that take no more rows.

        Not while they may hold a part of an append that must survive whole or not at all: then the next flush does it.
        """
        if not self._unacknowledged and self._splits.close_finished():
            self._publish()  # without them: when their events are deleted, their files will go

    def _merge_late(self) -> None:
        """Merge late rows into the splits they belong to, the densest regions first; the next commit makes it durable.

        A slice at a time, so that appends do not have to wait for long, unless there are far too many late rows. When
        half of what may be kept is left, or the rest is spread so thinly that a leaf would be written again for a few
        rows, that rest stays where it is.
        """
        how, queue = self._options.late_merge, self._late
        if how == "never" or not (queue.is_merging or self._has_many_late(1)):
            return
        if not queue.is_merging:
            queue.begin()
        is_plain = how == "plain"
        fewest = 1 if is_plain else self._options.leaf_rows // _SPARSE
        while queue.is_merging:
            merged = queue.merge_slice(self._splits.claims(), _SLICE_LEAVES, fewest)
            self._counters.merged += merged
            if not merged or not (is_plain or self._has_many_late(_LATE_LEFT)):
                queue.end()
            elif not (is_plain or self._has_many_late(_LATE_AT_MOST)):
                return

    def new_split(self) -> None:
        """Flush, and close the open split: rows from now on, and those of the open leaf, go to another one."""
        with self._mutex:
            self._check_open()
            self._flush_or_fail()
            try:
                self._view = None
                self._splits.finish()
                self._close_finished()
            except BaseException as error:
                self._failure = error
                raise

    def _spill_late(self) -> None:
        """Make a split of the late rows."""
        if self._late.rows and not self._unacknowledged:
            rows = self._late.take()
            self._splits.add_late(rows)
            self._counters.spilled += rows.num_rows

    # -- flushing -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything appended before durable, and visible to readers in other processes."""
        with self._mutex:
            self._check_open()
            self._flush_or_fail()

    def commit(self) -> None:
        """Like :meth:`flush`, for many threads with little each: those that come at the same time share one sync.

        While one of them waits for the disk, the others append and write to the journal.
        """
        with self._mutex:
            if self._closed and self._failure is None:
                return  # which has made everything durable
            self._check_open()
            if not self._is_for_journal_alone():
                self._flush_or_fail()
                return
            journal, seq = self._journal, self._next_seq
            try:
                message = self._unjournaled()
                if message is not None:
                    journal.append(self._head(), message)
                    self._journaled, self._is_taken = seq, False
                file, number = journal.file, journal.records
            except BaseException as error:
                self._failure = error
                raise
        try:
            file.sync(number)
        except BaseException as error:
            self._failure = error
            raise
        with self._mutex:
            # Somebody who came later may have published more, or have gone on to another journal, which has it all.
            if self._failure is None and journal.file is file and number > self._published:
                self._publish(number, seq)

    def _is_for_journal_alone(self) -> bool:
        """Whether a flush would do nothing but write to the journal."""
        return not (
            self._unacknowledged
            or self._producers
            or self._has_many_late(1)
            or self._has_new_leaf()
            or self._is_journal_long()
            or self._splits.has_finished
            or self._splits.commits() != self._splits.committed
        )

    def _has_new_leaf(self) -> bool:
        """Whether there may be rows for a leaf besides those that wait for late ones."""
        return self._fresh.rows + self._waiting.rows >= self._kept[0] + self._options.leaf_rows

    def _flush_or_fail(self) -> None:
        try:
            self._flush()
        except BaseException as error:
            self._failure = error
            raise

    def _flush(self) -> None:
        self._view = None
        if self._has_new_leaf():
            self._take_waiting()
            if self._has_new_leaf():
                self._seal_old(all_leaves=True)
        if not self._late.is_empty:
            self._merge_late()
        commits = self._splits.commits()
        message = self._unjournaled()
        is_changed = commits != self._splits.committed
        if not (is_changed or message is not None or self._unacknowledged):
            if self._journal.records > self._published:  # a commit that is not through
                self._journal.sync()
                self._publish()
            return
        self._producers.update(self._unacknowledged)
        if message is not None or self._unacknowledged or self._producers:
            # The journal first: its record does not count without the commits, but they would count without it.
            self._splits.committed = commits
            self._journal.append(self._head(producers=self._unacknowledged), message)
        self._journal.sync()
        if is_changed:
            self._splits.flush()
        self._splits.committed = commits
        self._unacknowledged = {}
        self._journaled = self._next_seq
        self._is_taken = False
        self._publish()
        self._close_finished()
        if not (self._late.is_empty or self._late.is_merging) and self._has_many_late(1):
            self._spill_late()
        if self._is_journal_long():
            self._journal.replace(self._head(base=True), self._memory())
            self._publish()
            self._journal.remove_older()

    def _is_journal_long(self) -> bool:
        """Whether a new journal is worth the work of writing its base, with all rows in memory."""
        return self._journal.bytes >= max(self._options.journal_bytes, 2 * self._journal.base_bytes)

    def _unjournaled(self) -> bytes | pa.Buffer | None:
        """The Arrow IPC message of all rows in memory that are not in the journal; None if there are none."""
        if not self._is_taken:
            return self._waiting.message(self._journaled)
        self._take_waiting()
        parts = [*self._fresh.since(self._journaled), *self._late.since(self._journaled)]
        return message_of(concatenated(parts, self._stored)) if parts else None

    def _head(self, *, base: bool = False, producers: dict[str, int] | None = None) -> Head:
        known = self._producers if base else producers or {}
        late = {}
        if base or self._counters != self._saved_counters:
            self._saved_counters = replace(self._counters)
            late = self._counters.saved()
        return Head(dict(self._splits.committed), self._next_seq, dict(known), base, self._site.version, late)

    def _memory(self) -> pa.RecordBatch:
        self._take_waiting()
        self._is_taken = False  # what is asked for goes to the journal
        return concatenated([self._fresh.sorted(), *self._late.sorted()], self._stored)

    def _publish(self, records: int | None = None, seq: int | None = None) -> None:
        """Let others see what is durable: so many records of the journal, by default all, and rows below a number."""
        self._published = self._journal.records if records is None else records
        next_seq = self._journaled if seq is None else seq
        self._publisher.publish(
            TailRecord(self._journal.name, self._published, dict(self._splits.committed), next_seq, self._block)
        )

    # -- reading --------------------------------------------------------------------------------------------------

    def view(self) -> TailView:
        """The tail as it is now, with what is not durable yet; the same object until something changes."""
        with self._mutex:
            self._check_open()
            if self._view is None:
                self._take_waiting()
                rows: Sequence[pa.RecordBatch] = [self._fresh.sorted(), *self._late.sorted()]
                self._view = TailView(
                    tuple(self._splits.readers()),
                    tuple(batch for batch in rows if batch.num_rows),
                    self._next_seq,
                )
            return self._view

    @property
    def newest(self) -> int | None:
        """The latest time of all rows in the tail, and of those that it has sealed; None if there are none."""
        with self._mutex:
            self._take_waiting()
            return self._newest

    def count_too_late(self, *, aside: int = 0, rejected: int = 0) -> None:
        """Count rows that were later than allowed and are not taken."""
        with self._mutex:
            self._counters.aside += aside
            self._counters.rejected += rejected

    def late(self) -> dict[str, Any]:
        """What has become of late rows, see :class:`LateCounters`."""
        with self._mutex:
            return self._counters.to_dict(self._late.rows)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the stream was closed; open it again")
        if not self._lock.held:
            raise ClosedError("the stream was opened before this process was forked; open the store again in it")
        if self._failure is not None:
            raise StorageError(
                f"the stream had a failure before ({self._failure}); what was flushed is safe: close it, and open it "
                "again"
            ) from self._failure

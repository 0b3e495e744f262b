"""The writer of a stream's tail (docs/design/003-event-store.md): appends, flushes, closes splits, survives crashes.

What it does is done by its parts: :class:`TailRows` places rows, :class:`TailSplits` writes those that are in order,
:class:`TailLog` makes them durable and lets others see them. Here they are kept in step.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, TypeVarTuple

import numpy as np
import pyarrow as pa

from tidelog.index.tabtree.reader import TreeReader
from tidelog.model.conversion.rows import Row
from tidelog.model.errors import (
    ClosedError,
    ConflictError,
    InputError,
    StorageError,
)
from tidelog.storage.media.medium import Lock
from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog
from tidelog.store.rows.stored import seqs
from tidelog.store.split.context import StreamContext
from tidelog.store.split.entry_bounds import tree_numbers
from tidelog.store.split.merge_policy import MergePolicy
from tidelog.store.tail.failures import refusal
from tidelog.store.tail.late.lateness import LateCounters
from tidelog.store.tail.late.merging import is_much, merge_late
from tidelog.store.tail.log import TailLog, Written
from tidelog.store.tail.numbers import TailNumbers
from tidelog.store.tail.paths import lock_path, tail_path
from tidelog.store.tail.rows import TailRows
from tidelog.store.tail.shares import Share, Shares
from tidelog.store.tail.splits import TailSplits
from tidelog.store.tail.state import check_all_there, read_state, unsealed_rows

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_LATE_BEFORE_FLUSH: Final = 4
"""How many times the limit of late rows an append from a reader may bring before what has come of it is flushed."""

LARGEST_WHOLE: Final = 256 << 20
"""Bytes of rows that one record of the journal takes."""


class Numbered(NamedTuple):
    """What a producer calls an append, by which it is known again when it is sent once more."""

    producer: str
    number: int
    """From 0 on, rising from each of its appends to the next."""


@dataclass(frozen=True, slots=True)
class TailView:
    """Everything in a tail at one moment. The trees are readable until the tail is closed."""

    trees: tuple[TreeReader, ...]
    rows: tuple[pa.RecordBatch, ...]
    """Sorted rows that are in no tree."""
    next_seq: int


class Tail:
    """The one writer of a stream's tail. May be used from several threads.

    Raises :class:`LockedError` if there is another one. A change is made whole, or it is the last one: whatever ends
    one before its time, an error of the storage or an interrupt, is remembered as the :attr:`failure`, and from then on
    everything is refused. Files are then left as a crash would leave them, so opening the tail again takes over what is
    whole. (docs/design/007-repairs.md)
    """

    def __init__(self, context: StreamContext, manifests: ManifestLog, lock: Lock | None = None) -> None:
        """With a ``lock`` that is held already, as :meth:`evolve` leaves it; given up if this fails.

        Raises :class:`ConflictError` if the stream has another schema than the context says.
        """
        self._context = context
        self._manifests = manifests
        self._mutex = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._is_freed = False
        self.failure: BaseException | None = None
        """What has ended a change before its time."""
        self.taken = 0
        """How many rows were appended, those of appends that are not whole left out."""
        self._stored = 0
        """How many of these are durable."""
        self._view: TailView | None = None
        self._seen = self._settled = (-1, -1)
        """What had come when it was asked the last time whether all is quiet, and when everything was settled."""
        self._numbers = TailNumbers(manifests)
        self._splits = TailSplits(
            context, manifests, on_new=lambda: self._log.name_splits(), on_many=self._close_finished
        )
        self._rows = TailRows(context, self._splits, self._numbers)
        self._late = self._rows.late
        self._log = TailLog(context, self._splits, self._rows, self._numbers)
        context.medium.make_directory(tail_path(context.directory))
        self._lock: Lock = context.medium.lock(lock_path(context.directory)) if lock is None else lock
        try:
            self._recover()
        except BaseException:
            self.free()
            raise

    # -- opening and closing -------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Take over what the writer before has left."""
        manifest = self._manifests.load()
        if len(manifest.schemas) - 1 != self._context.version:
            raise ConflictError("the schema of the stream has changed; open it again")
        state = read_state(self._context, manifest)
        check_all_there(self._context, manifest)  # where something is lost, nothing is written
        # A producer may send its last append again: of an append not acknowledged, no part may be left.
        self._splits.take_over(state.splits, manifest, exactly=state.is_exact)
        rows = unsealed_rows(self._context, manifest, state, self._splits.readers())
        self._rows.take_over(rows, LateCounters.read(state.late))
        numbers = [state.next_seq, *(tree_numbers(tree)[1] + 1 for tree in self._splits.readers())]
        if rows.num_rows:
            numbers.append(int(np.max(seqs(rows))) + 1)
        self._numbers.next = max(numbers)
        self._log.begin(state)  # first: a stream with a block of numbers has a journal
        self._numbers.go_on_from(max(numbers), manifest)
        self._log.begin_block()
        self._log.go_live()
        self._close_finished()

    def close(self) -> None:
        """Flush and give up the tail; after a failure only give it up."""
        with self._mutex:
            try:
                if not self._closed and self.failure is None and self._process == os.getpid():
                    self._wholly(self._store_all)
            finally:
                self.free()

    def _store_all(self) -> None:
        self._rows.take_waiting()  # which counts those that are late
        if is_much(self._rows.bytes, self._context.options):
            self._settle()
        else:
            self._flush()
        self._log.save_counters()
        self._refuse_removed()

    def free(self) -> None:
        """Give up the tail and leave its files as a crash would; what was not flushed is lost.

        Does nothing the second time, and goes on where it was interrupted.
        """
        with self._mutex:
            self._closed = True
            if self._is_freed or self._process != os.getpid():  # to a forked child nothing of this belongs
                return
            try:
                self._free_files()
            finally:
                self._lock.release()
            self._is_freed = True

    def _free_files(self) -> None:
        try:
            self._log.abandon()
        finally:
            self._splits.abandon()

    @property
    def unstored(self) -> int:
        """How many rows were appended that are not known to be durable."""
        return self.taken - self._stored

    def evolve(self, change: Callable[[Manifest], Change]) -> Lock:
        """Commit a change of the schema and give up the tail, but for its lock, with which another one can go on.

        All rows are in closed splits before, and the journal has none: so whatever the tail writes has one schema, the
        newest. Raises, with nothing changed, if the change does not fit.
        """
        with self._mutex:
            self.check_open()
            manifest = self._manifests.load()
            manifest.changed(change(manifest), manifest.number, manifest.at)
            self._wholly(self._evolve, change)
            self._free_files()
            return self._lock

    def _evolve(self, change: Callable[[Manifest], Change]) -> None:
        self._flush()
        self._hand_over()
        self._manifests.commit(change)
        self._closed = True

    def _hand_over(self) -> None:
        """Close all splits, with the rows that are in memory; what was flushed is in the journal until that is done."""
        self._rows.seal_all()
        self._splits.finish_all()
        self._close_finished()
        if self._late.is_merging:
            self._late.end()
        self._spill_late()
        self._log.begin_anew(with_rows=False)

    def _wholly(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> _T:
        """Make a change, or look at rows, which may mean placing them; ended before its time, it is the last one.

        Rows may be half in place then. The failure is noted without a call, so that no interrupt comes in between.
        """
        self.check_open()
        try:
            return work(*arguments)
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            raise

    # -- appending ------------------------------------------------------------------------------------------------

    def append(self, batches: Iterable[pa.RecordBatch], numbered: Numbered | None = None) -> None:
        """Append batches of the stream's schema, whose memory must not change.

        An append that is ``numbered`` is passed over if it was made before (:meth:`has_append`). Its rows survive a
        crash together or not at all.
        """
        with self._mutex:
            self.check_open()
            if numbered is not None:
                if self.has_append(numbered):
                    return
                batches = list(batches)  # all of it fits before any of it counts
                self._wholly(self._append_numbered, batches, numbered)
            elif isinstance(batches, list):
                self._wholly(self._append_all, batches)
            else:
                for batch in batches:  # which may fail, and has touched nothing then
                    self._wholly(self._append_one_of_many, batch)
                self._wholly(self._settle_late)

    def _append_numbered(self, batches: list[pa.RecordBatch], numbered: Numbered) -> None:
        self._make_room(_rows_of(batches))  # before any of it is in the journal
        self._log.announce(numbered.producer)
        self._log.unacknowledged[numbered.producer] = numbered.number
        self._append_all(batches)

    def _append_all(self, batches: list[pa.RecordBatch]) -> None:
        """All of a list is in memory anyway, so its rows are flushed, and seen by others, together."""
        self._view = None
        rows = _rows_of(batches)
        self._make_room(rows)
        for batch in batches:
            self._rows.accept(batch)
        self.taken += rows
        self._settle_late()

    def append_whole(self, batches: list[pa.RecordBatch]) -> None:
        """Append batches and flush them by one record of the journal: a crash leaves all of their rows, or none.

        Raises :class:`InputError`, with nothing changed, for more than a record can have.
        """
        with self._mutex:
            size = sum(batch.nbytes for batch in batches)
            if size > LARGEST_WHOLE:
                raise InputError(
                    f"found {size:,} bytes of rows that are to be stored whole or not at all; expected at most "
                    f"{LARGEST_WHOLE:,}: append them in parts"
                )
            self._wholly(self._append_whole, batches)

    def _append_whole(self, batches: list[pa.RecordBatch]) -> None:
        self._flush()  # now nothing is in memory that the journal does not have, and no leaf is full
        self._view = None
        rows = _rows_of(batches)
        self._make_room(rows)
        for batch in batches:
            self._rows.hold(batch)
        self.taken += rows
        self._log.flush()
        self._stored = self.taken
        self._flush()  # what is due now that they are durable: full leaves, late rows

    def _append_one_of_many(self, batch: pa.RecordBatch) -> None:
        self._view = None
        self._make_room(batch.num_rows)
        self._rows.accept(batch)
        self.taken += batch.num_rows
        if self._late.exceeds(_LATE_BEFORE_FLUSH):
            self._flush()

    def append_share(self, batches: list[pa.RecordBatch], sent_by: str, number: int, share: Share) -> None:
        """Append rows that are a part of an append to another stream, and flush: they are durable with the share.

        Whether there is one of that append already is for the caller to know (:attr:`shares`).
        """
        with self._mutex:
            self._wholly(self._append_share, batches, sent_by, number, share)

    def _append_share(self, batches: list[pa.RecordBatch], sent_by: str, number: int, share: Share) -> None:
        self._make_room(_rows_of(batches))
        self._log.announce_share(sent_by)
        self._log.add_share(sent_by, number, share)
        for batch in batches:
            self._rows.accept(batch)
        self._flush()

    @property
    def shares(self) -> Shares:
        """Which durable rows are of appends to another stream, and of which; not to be changed."""
        return self._log.shares

    def settle_shares(self, numbers: Mapping[str, int]) -> None:
        """Forget shares of each sender's appends up to a number, which the other stream has durably."""
        with self._mutex:
            self._wholly(self._log.shares.settle, numbers)

    def append_row(self, row: Row) -> None:
        """Append one event, given by its canonical values (:class:`tidelog.model.conversion.rows.RowReader`)."""
        with self._mutex:
            self._wholly(self._append_row, row)

    def _append_row(self, row: Row) -> None:
        self._wait(row)
        self._settle_late()

    def _wait(self, row: Row) -> None:
        self._view = None
        self._make_room(1)
        self._rows.wait(row, 1)
        self.taken += 1

    def _make_room(self, rows: int) -> None:
        """See to it that the tail's block has numbers for so many rows.

        Before another block begins everything is flushed: readers rely on blocks being published one after the other.
        """
        if not self._numbers.has_room(rows):
            self._flush()
            self._rows.take_waiting()  # rows that wait together have consecutive numbers
            self._numbers.begin_block(rows)
            self._log.begin_block()

    @property
    def next_number(self) -> int:
        """The sequence number that the next row is given."""
        return self._numbers.next

    def last_number(self, producer: str) -> int | None:
        """The number of a producer's last append, flushed or not; None if it has made none."""
        with self._mutex:
            self.check_open()
            return self._log.last_number(producer)

    def has_append(self, numbered: Numbered) -> bool:
        """Whether an append was made before: it is not newer than its producer's last one."""
        last = self.last_number(numbered.producer)
        return last is not None and numbered.number <= last

    @property
    def flushed_numbers(self) -> Mapping[str, int]:
        """The number of each producer's last append that is durable."""
        with self._mutex:
            self.check_open()
            return dict(self._log.producers)

    # -- splits ---------------------------------------------------------------------------------------------------

    def _close_finished(self) -> None:
        """Close splits that take no more rows.

        Not while they may hold a part of an append that must survive whole or not at all: then the next flush does it.
        """
        if not self._log.is_half_way and self._splits.close_finished():
            self._log.publish()  # without them: when their events are deleted, their files will go

    def new_split(self) -> None:
        """Flush, and close the open split: rows from now on, and those of the open leaf, go to another one."""
        with self._mutex:
            self._wholly(self._new_split)

    def _new_split(self) -> None:
        self._flush()
        self._splits.finish()
        self._close_finished()

    def _settle_late(self) -> None:
        """Flush if that would do something about late rows."""
        late = self._late
        if not late.is_empty and (late.exceeds(1) or late.is_merging):
            self._flush()

    def _spill_late(self) -> None:
        """Make a split of the late rows."""
        if self._late.rows and not self._log.is_half_way:
            rows = self._late.take()
            self._splits.add_late(rows)
            self._rows.counters.spilled += rows.num_rows

    # -- flushing -------------------------------------------------------------------------------------------------

    def flush(self, row: Row | None = None) -> None:
        """Make everything appended before durable, and visible to readers in other processes.

        With a ``row``, :meth:`append_row` first: who waits for single events wants no step too many.
        """
        with self._mutex:
            if row is None:
                self._wholly(self._flush)
            else:
                self._wholly(self._wait_and_flush, row)

    def _wait_and_flush(self, row: Row) -> None:
        self._wait(row)
        self._flush()

    def commit(self) -> None:
        """Like :meth:`flush`, for many threads with little each: those that come at the same time share one sync.

        While one of them waits for the disk, the others append and write to the journal.
        """
        with self._mutex:
            if self._closed and self.failure is None:
                return  # which has made everything durable
            written, taken = self._wholly(self._write), self.taken
        if written is None:
            return
        try:
            written.file.sync(written.records)
        except Exception as error:  # an interrupt leaves records that are not durable yet: the next sync does it
            if self.failure is None:
                self.failure = error
            raise
        with self._mutex:
            if self.failure is None and not self._closed:
                self._wholly(self._publish, written)
                self._stored = max(self._stored, taken)

    def _publish(self, written: Written) -> None:
        self._log.publish_written(written)
        self._refuse_removed()

    def _write(self) -> Written | None:
        """Write rows to the journal, if a flush would do no more than that; otherwise flush."""
        if self._is_for_journal_alone():
            return self._log.write()
        self._flush()
        return None

    def _is_for_journal_alone(self) -> bool:
        """Whether a flush would do nothing but write to the journal."""
        return not (
            self._log.is_half_way
            or self._log.is_exact
            or self._late.exceeds(1)
            or self._rows.has_new_leaf()
            or self._log.is_long
            or self._splits.has_finished
            or self._splits.commits() != self._splits.committed
        )

    def _flush(self) -> None:
        self._view = None
        rows, late = self._rows, self._late
        if rows.has_new_leaf():
            rows.take_waiting()
            if rows.has_new_leaf():
                rows.seal_old(all_leaves=True)
        if not late.is_empty:
            rows.counters.merged += merge_late(late, self._splits, self._context.options)
        is_more = self._log.flush()
        self._stored = self.taken
        if not is_more:
            return
        self._refuse_removed()
        self._close_finished()
        if not (late.is_empty or late.is_merging) and late.exceeds(1):
            self._spill_late()
            self._log.save_counters()
        if self._log.is_long:
            self._log.begin_anew()

    def _refuse_removed(self) -> None:
        """Raise :class:`StorageError` if the stream's directory was removed by others: what is written goes with it.

        The lock's file tells, in a microsecond; that of the journal, which was written just now, takes longer.
        """
        if not self._lock.excludes:
            raise StorageError(
                f"{lock_path(self._context.directory)} of a stream that is being written was removed, perhaps with the "
                "whole stream; events appended here are not kept: restore the stream, or create it again"
            )

    # -- putting in order -----------------------------------------------------------------------------------------

    def settle(self, policy: MergePolicy | None = None) -> None:
        """Flush, and have all rows in splits but for the last ones, fewer than a leaf's: the journal is short then.

        Late rows are merged where they belong, and become a split where that costs too much. With a ``policy`` the open
        split is closed if that says that it is to be written anew, or to be merged with others.
        """
        with self._mutex:
            self._wholly(self._settle_by, policy)

    def _settle_by(self, policy: MergePolicy | None) -> None:
        self._settle()
        if policy is not None and self._splits.is_worn(policy):
            self._splits.finish()
            self._close_finished()

    def settle_if_due(self, policy: MergePolicy, *, now: bool = False) -> bool:
        """:meth:`settle` if enough waits for it, and if nothing has come since this was asked before, unless ``now``.

        If rows come, but none too late for a place in memory, those that do wait for that go on. Says whether it was.
        """
        with self._mutex:
            if self._closed or self.failure is not None or not self._lock.held:
                return False
            counters, options = self._rows.counters, self._context.options
            before, self._seen = self._seen, (counters.rows - counters.placed, self._numbers.next)
            is_quiet = now or self._seen == before
            if is_quiet and self._seen != self._settled:
                if is_much(self._rows.bytes, options) or self._splits.is_worn(policy):
                    self.settle(policy)
                    self._settled = self._seen
                    return True
            elif self._seen[0] == before[0] and is_much(self._late.bytes, options):
                self._wholly(partial(self._settle, seals=False))
                return True
            return False

    def _settle(self, *, seals: bool = True) -> None:
        self._flush()  # what must survive whole is whole from here on
        self._view = None
        if seals:
            self._rows.seal_leaves()
        if not self._late.is_empty:
            self._rows.counters.merged += merge_late(self._late, self._splits, self._context.options, now=True)
        self._log.flush()
        self._stored = self.taken
        self._close_finished()
        self._spill_late()
        if self._log.is_changed:
            self._log.begin_anew()

    # -- reading --------------------------------------------------------------------------------------------------

    def view(self) -> TailView:
        """The tail as it is now, with what is not durable yet; the same object until something changes."""
        with self._mutex:
            self.check_open()
            return self._wholly(self._look) if self._view is None else self._view

    def _look(self) -> TailView:
        rows = tuple(self._rows.sorted())  # first: it may seal some
        self._view = TailView(tuple(self._splits.readers()), rows, self._numbers.next)
        return self._view

    @property
    def newest(self) -> int | None:
        """The latest time of all rows in the tail, of those that it has sealed, and of those that were told it
        (:meth:`keep_newest`); None if there are none."""
        with self._mutex:
            known = [time for time in (self._wholly(self._rows.newest), self._log.newest) if time is not None]
            return max(known, default=None)

    def keep_newest(self, time: int | None) -> None:
        """Remember, from the next flush on, the latest time of all rows ever appended, whatever becomes of them."""
        with self._mutex:
            self._log.newest = time

    def count_too_late(self, *, aside: int = 0, rejected: int = 0) -> None:
        """Count rows that were later than allowed and are not taken."""
        with self._mutex:
            self._rows.counters.aside += aside
            self._rows.counters.rejected += rejected

    def late(self) -> dict[str, Any]:
        """What has become of late rows, see :class:`LateCounters`."""
        with self._mutex:
            return self._rows.counters.to_dict(self._late.rows)

    def check_open(self) -> None:
        """Raise unless rows can be appended."""
        if self._closed:
            raise ClosedError("the stream was closed; open it again")
        if not self._lock.held:
            raise ClosedError("the stream was opened before this process was forked; open the store again in it")
        error = self.failure
        if error is not None:
            raise refusal(error) from error


def _rows_of(batches: list[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)

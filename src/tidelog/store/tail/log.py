"""What of a tail is durable and what others see of it: its journal, the tail record, the last appends of producers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from tidelog.storage.journal.journal import Journal
from tidelog.storage.media.medium import Lock
from tidelog.store.split.context import StreamContext
from tidelog.store.tail.journal import Head, TailJournal
from tidelog.store.tail.numbers import TailNumbers
from tidelog.store.tail.paths import live_path, published_path, tail_path
from tidelog.store.tail.record import Publisher, TailRecord
from tidelog.store.tail.rows import TailRows
from tidelog.store.tail.shares import Share, Shares
from tidelog.store.tail.splits import TailSplits
from tidelog.store.tail.state import TailState

_NO_APPEND: Final = -1
"""The number of a producer whose first append is not flushed yet."""


class Written(NamedTuple):
    """Records of a journal that are not durable yet."""

    file: Journal
    records: int
    """The first so many of the journal."""
    next_seq: int
    """They have all rows of the tail with smaller numbers that splits do not have."""


class TailLog:
    """Makes rows of a tail durable, and then lets others see them. Calls must take turns."""

    _journal: TailJournal
    _publisher: Publisher

    def __init__(self, context: StreamContext, splits: TailSplits, rows: TailRows, numbers: TailNumbers) -> None:
        """Opens nothing; :meth:`begin` is to follow."""
        self._context = context
        self._splits = splits
        self._rows = rows
        self._numbers = numbers
        self.producers: dict[str, int] = {}
        """The last append of each producer that a flush has made durable."""
        self.unacknowledged: dict[str, int] = {}
        """Appends by producers that no flush has made durable yet."""
        self.shares = Shares()
        """Which durable rows are of appends to another stream."""
        self._new_shares = Shares()
        """Which rows are that no flush has made durable yet."""
        self.newest: int | None = None
        """The latest time of all rows that were ever appended, if somebody keeps it; None if nobody does."""
        self._saved_counters = replace(rows.counters)
        """Counters as the journal has them."""
        self._journaled = 0
        """The rows of smaller numbers are in the journal or in splits."""
        self._base_rows = 0
        """How many rows the base of the journal has."""
        self._published = 0
        """How many records of the journal others may see."""
        self._live: Lock | None = None
        """Held while what is published is to be believed."""
        self._open: list[Publisher | TailJournal] = []
        """The files to be closed."""

    def begin(self, state: TailState) -> None:
        """Start the next journal, with everything that is in memory, in place of those before, which have the state.

        Those who read see the same rows at every step: what is left behind by the writer before, then that in the new
        journal, which has the same, and, once the lock says that somebody is at it, what is published here. What was
        published before says less, or more if the machine has failed since, and is believed by nobody meanwhile.

        :meth:`begin_block` and :meth:`go_live` are to follow.
        """
        self.producers = dict(state.producers)
        self.shares = state.shares
        self.newest = state.newest
        self._base_rows = self._rows.rows
        medium, directory = self._context.medium, self._context.directory
        base = self._head(base=True)
        self._journal = TailJournal(medium, tail_path(directory), base, self._rows.all(), state.number + 1)
        self._open.append(self._journal)
        self._publisher = Publisher(medium, published_path(directory))
        self._open.append(self._publisher)

    def go_live(self) -> None:
        """Have others believe what is published, and remove the journals before this one."""
        self._live = self._context.medium.lock(live_path(self._context.directory))
        self._journal.remove_older()

    def abandon(self) -> None:
        """Close the files and leave them as a crash would. Goes on where it was interrupted."""
        if self._live is not None:
            self._live.release()  # first: from now on others look for themselves
        while self._open:
            self._open[-1].close()
            self._open.pop()

    # -- producers ------------------------------------------------------------------------------------------------

    def last_number(self, producer: str) -> int | None:
        """The number of a producer's last append, flushed or not; None if it has made none."""
        number = self.unacknowledged.get(producer, self.producers.get(producer, _NO_APPEND))
        return None if number == _NO_APPEND else number

    def announce(self, producer: str) -> None:
        """See to it that from the first append with a number on, crashes lead back to exactly what was flushed.

        That must be durable before anything of the append is: splits commit on their own when they have grown enough.
        """
        if not self.is_exact:
            self.producers[producer] = _NO_APPEND
            self._journal.append_durably(self._head(producers=self.producers))

    def announce_share(self, sent_by: str) -> None:
        """The same for the first rows that are a share of an append to another stream."""
        if not self.is_exact:
            self.shares.expect(sent_by)
            self._journal.append_durably(self._head(shares=self.shares))

    def add_share(self, sent_by: str, number: int, share: Share) -> None:
        """The rows that are appended until the next flush are a share of an append to another stream."""
        self._new_shares.add(sent_by, number, share)

    @property
    def is_exact(self) -> bool:
        """Whether a crash leads back to exactly what was flushed."""
        return bool(self.producers or self.shares)

    @property
    def is_half_way(self) -> bool:
        """Whether there are rows of appends that must survive whole or not at all, and no flush yet."""
        return bool(self.unacknowledged or self._new_shares)

    # -- writing --------------------------------------------------------------------------------------------------

    def name_splits(self) -> None:
        """Tell the journal of a new split, so that what background commits keep of it is found after a crash.

        Durably, though the next flush would do: then the disk is busy with the split's rows, and now it is not.
        """
        self._journal.append_durably(self._head())

    def begin_block(self) -> None:
        """Go on with another block of numbers; all rows before are durable."""
        self._journaled = self._numbers.next
        self.publish()

    def flush(self) -> bool:
        """Make all rows durable, those of splits too, and publish them; says whether there were any, or appends."""
        commits = self._splits.commits()
        message = self._rows.since(self._journaled)
        is_changed = commits != self._splits.committed
        if not (is_changed or message is not None or self.is_half_way):
            if self._journal.file.last > self._published:  # a commit that is not through
                self._journal.file.sync()
                self.publish()
            return False
        self.producers.update(self.unacknowledged)
        if message is not None or self.is_half_way or self.is_exact or self._has_counted:
            # The journal first: its record does not count without the commits, but they would count without it.
            self._splits.committed = commits
            head = self._head(producers=self.unacknowledged, shares=self._new_shares, counts=True)
            self._journal.append_durably(head, message)
        else:
            self._journal.file.sync()
        if is_changed:
            self._splits.flush()
        self._splits.committed = commits
        self.unacknowledged = {}
        if self._new_shares:
            self.shares.update(self._new_shares.saved())
            self._new_shares = Shares()
        self._journaled = self._numbers.next
        self._rows.note_saved()
        self.publish()
        return True

    def save_counters(self) -> None:
        """Make durable what has become of late rows, if that is not so yet. All rows must be durable."""
        if self._has_counted:
            self._journal.append_durably(self._head(counts=True))
            self.publish()

    @property
    def _has_counted(self) -> bool:
        """Whether counters have changed since the journal was told."""
        return self._rows.counters.is_any and self._rows.counters != self._saved_counters

    def write(self) -> Written:
        """Write rows to the journal, without a sync; for rows that are in no split."""
        journal, next_seq = self._journal, self._numbers.next
        message = self._rows.since(self._journaled)
        if message is not None:
            journal.append(self._head(counts=True), message)
            self._journaled = next_seq
            self._rows.note_saved()
        return Written(journal.file, journal.file.last, next_seq)

    def publish_written(self, written: Written) -> None:
        """Let others see records that are durable by now.

        Somebody who came later may have published more, or have gone on to another journal, which has it all.
        """
        if self._journal.file is written.file and written.records > self._published:
            self.publish(written.records, written.next_seq)

    @property
    def is_long(self) -> bool:
        """Whether a new journal is worth the work of writing its base, with all rows in memory.

        It is if half of what the journal has is not needed any more, or half of the rows that its base has.
        """
        length = self._journal.file.bytes
        return length >= self._context.options.journal_bytes and (
            length >= 2 * self._journal.base_bytes or 2 * self._rows.rows < self._base_rows
        )

    @property
    def is_changed(self) -> bool:
        """Whether a new journal would say something else than this one, or say it shorter."""
        return self._journal.file.last > 1 or self._rows.rows != self._base_rows

    def begin_anew(self, *, with_rows: bool = True) -> None:
        """Replace the journal by one that begins with all rows in memory, or without any."""
        self._base_rows = self._rows.rows if with_rows else 0
        self._journal.replace(self._head(base=True), self._rows.all() if with_rows else None)
        self.publish()
        self._journal.remove_older()

    def _head(
        self,
        *,
        base: bool = False,
        producers: dict[str, int] | None = None,
        shares: Shares | None = None,
        counts: bool = False,
    ) -> Head:
        """What a record says; with ``counts``, of the rows too: not if rows of an append are yet to be written."""
        known = self.producers if base else producers or {}
        shares = self.shares if base else shares
        late, counters = {}, self._rows.counters
        if base or (counts and self._has_counted):
            self._saved_counters = replace(counters)
            late = counters.saved()
        return Head(
            self._splits.committed,
            self._numbers.next,
            known,
            base,
            self._context.version,
            late,
            shares.saved() if shares else {},
            self.newest if base or counts else None,
        )

    def publish(self, records: int | None = None, next_seq: int | None = None) -> None:
        """Let others see what is durable: so many records of the journal, by default all, and rows below a number."""
        self._published = self._journal.file.last if records is None else records
        self._publisher.publish(
            TailRecord(
                self._journal.name,
                self._published,
                self._splits.committed,
                self._journaled if next_seq is None else next_seq,
                self._numbers.block,
            )
        )

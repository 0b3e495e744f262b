"""The splits that a tail is writing: finished ones that are to be closed, then the one that takes rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.index.tabtree.reader import TreeReader
from tidelog.model.errors import StorageError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.model.times.interval import Interval
from tidelog.storage.rows.ordered import AnyRows
from tidelog.store.manifest.manifest import Change, Manifest, ManifestLog, SplitInfo
from tidelog.store.rows.stored import Ints, times
from tidelog.store.split.context import StreamContext
from tidelog.store.split.merge_policy import MergePolicy
from tidelog.store.split.open_files import allowed
from tidelog.store.split.open_split import OpenSplit
from tidelog.store.split.removal import after_failed_commit
from tidelog.store.tail.late.queue import Claim

MOST_FINISHED: Final = 64
"""Splits of one append that wait for the flush to be closed; a longer append is seen in part before it is flushed."""

Commits = dict[str, tuple[int, int]]
"""Number and position of a commit of each split, by its name."""


class TailSplits:
    """Takes sorted rows and cuts them into splits by time and size. Calls must take turns."""

    def __init__(
        self, context: StreamContext, manifests: ManifestLog, on_new: Callable[[], None], on_many: Callable[[], None]
    ) -> None:
        """``on_new`` is called when a split was made, ``on_many`` when more are finished than should wait."""
        self._context = context
        self._manifests = manifests
        self._on_new = on_new
        self._on_many = on_many
        self._width = context.options.split_ticks(context.layout.schema.clock)
        self._splits: list[OpenSplit] = []
        self._is_last_open = False
        self.committed: Commits = {}
        """The commits that count: of the last flush, or of the one that is being made."""
        self.sealed: int | None = None
        """The greatest time among the rows in splits; what is older comes late."""
        self._closed_until: int | None = None
        """The greatest time among the rows of regular splits that are closed."""

    def take_over(self, splits: Mapping[str, tuple[int, int]], manifest: Manifest, *, exactly: bool) -> None:
        """Go on with the splits of the writer before: with all that is whole, or ``exactly`` up to their commits."""
        for name, at in splits.items():
            self._splits.append(OpenSplit.open(self._context, name, at if exactly else None))
        closed = [split.time_max for split in manifest.splits.values() if split.kind == "regular"]
        sealed = closed + [split.last_time for split in self._splits if split.last_time is not None]
        self.sealed = max(sealed, default=None)
        self._closed_until = max(closed, default=None)
        self._is_last_open = bool(self._splits) and not self._splits[-1].is_closing
        self.committed = self.commits()

    def readers(self) -> list[TreeReader]:
        """The trees of all splits that have rows, as they are now, durable or not."""
        return [split.reader() for split in self._splits if split.rows]

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(split.rows for split in self._splits)

    @property
    def has_finished(self) -> bool:
        """Whether there are splits that take no more rows."""
        return len(self._splits) > self._is_last_open

    def extend(self, batch: AnyRows, *, in_order: bool = False, breaks: Ints | None = None) -> None:
        """Append sorted rows, which follow all before, to the splits they belong to.

        With ``in_order`` the caller has seen to their order, and it is not looked at again. A leaf ends at each of the
        ``breaks``, rising places behind the first row.
        """
        schema, split_bytes = self._context.layout.schema, self._context.options.split_bytes
        while batch.num_rows:
            at = times(batch, schema)
            split = self._split_for(int(at[0]))
            end = None if split.boundary is None else split.boundary.end
            count = len(at) if end is None or end > INT64_MAX else int(np.searchsorted(at, end))
            is_all = count == len(at)
            split.extend(
                batch if is_all else batch.slice(0, count),
                in_order=in_order,
                breaks=breaks if is_all or breaks is None else breaks[breaks < count],
            )
            self.sealed = int(at[count - 1])
            if split.bytes >= split_bytes:
                self._finish()
            if is_all:
                return
            batch = batch.slice(count)
            if breaks is not None:
                breaks = breaks[breaks > count] - count

    def _split_for(self, time: int) -> OpenSplit:
        if self._is_last_open and not self._splits[-1].takes(time):
            self._finish()
        if not self._is_last_open:
            boundary = None
            if self._width is not None:
                start = time // self._width * self._width
                boundary = Interval(start, start + self._width)
            self._splits.append(self._create(boundary))
            self._is_last_open = True
            self.committed[self._splits[-1].name] = (0, 0)
            self._on_new()
        return self._splits[-1]

    def _create(self, boundary: Interval | None) -> OpenSplit:
        # Another process may have attached aggregates meanwhile: they are kept from the next split on.
        self._context = self._context.at(self._manifests.load())
        return OpenSplit.create(self._context, boundary)

    def finish(self) -> None:
        """Let the open split, if there is one with rows, take no more rows."""
        if self._is_last_open and self._splits[-1].rows:
            self._finish()

    def is_worn(self, policy: MergePolicy) -> bool:
        """Whether the open split is to be closed, so that it can be written anew.

        It is if late rows have left much dead behind in it, or if so much of closed splits lies over it that these are
        to be merged with it.
        """
        if not self._is_last_open or not self._splits[-1].rows:
            return False
        split = self._splits[-1]
        if policy.is_worn(split.bytes, split.dead_bytes):
            return True
        over = [
            info.bytes
            for info in self._manifests.load().splits.values()
            if info.kind != "coarse" and info.time_max > split.first_time and info.time_min < (split.last_time or 0)
        ]
        return bool(over) and sum(over) >= policy.share * split.bytes

    def finish_all(self) -> None:
        """No split takes more rows, not even one without any: :meth:`close_finished` leaves none."""
        self._is_last_open = False

    def _finish(self) -> None:
        """The newest split takes no more rows.

        The next flush closes it. Readers would see its rows at once, and with them maybe a part of an append.
        """
        self._is_last_open = False
        if len(self._splits) > min(MOST_FINISHED, allowed() // 2):  # each takes up to three descriptors
            self._on_many()

    def commits(self) -> Commits:
        """The commits that :meth:`flush` would make."""
        return {split.name: split.next_commit() for split in self._splits}

    def flush(self) -> None:
        """Make all rows durable."""
        for split in self._splits:
            split.flush()

    def close_finished(self) -> bool:
        """Close splits that take no more rows and hand them to the manifest; says whether there were any."""
        finished = list(self._splits[:-1] if self._is_last_open else self._splits)
        for split in finished:
            if split.rows:
                info = split.close()
                self._hand_over(info)
                self._closed_until = max(info.time_max, self._closed_until or info.time_max)
            else:
                split.abandon()
            self._splits.remove(split)
            self.committed.pop(split.name, None)
        return bool(finished)

    def hasten(self) -> None:
        """Begin to encode all rows, for late ones are about to be merged into them."""
        for split in self._splits:
            if not split.is_closing:
                split.hasten()

    def claims(self) -> list[Claim]:
        """The splits that late rows can be merged into, in the order of their times.

        A split takes rows between its own and older ones that lie within its boundary, down to the split before it
        (spec/event-store.md 6.6). Rows for splits that are closed, or about to be, belong nowhere.
        """
        claims: list[Claim] = []
        before = self._closed_until
        for split in self._splits:
            if not split.rows or split.last_time is None:
                continue
            if not split.is_closing and split.layout.stored.equals(self._context.layout.stored):
                gap = INT64_MIN if before is None else before + 1
                begin = None if split.boundary is None else split.boundary.start
                start = gap if begin is None else max(gap, begin)
                claims.append((split, min(start, split.first_time), split.last_time))
            before = split.last_time
        return claims

    def add_late(self, rows: pa.RecordBatch) -> None:
        """Make a closed split of sorted late rows."""
        split = self._create(None)
        try:
            split.extend(rows)
            info = split.close("late")
        except BaseException:
            split.discard()
            raise
        try:
            self._hand_over(info)
        except StorageError as error:  # the rows are in the journal
            after_failed_commit(self._manifests, [info.name], error)
            raise

    def _hand_over(self, info: SplitInfo) -> None:
        self._manifests.commit(lambda manifest: None if info.name in manifest.splits else Change(add=(info,)))

    def abandon(self) -> None:
        """Close all files and leave them as a crash would; what was not flushed is lost."""
        with ExitStack() as resources:
            for split in self._splits:
                resources.callback(split.abandon)

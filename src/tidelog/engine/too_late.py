"""Rows that are later than a stream's ``lateness`` allows: refused, or set aside in another stream.

Two streams cannot be flushed in one step, so what is set aside is made durable first, and with it, if
the append has a number, which rows of the append these are: its share (:mod:`tidelog.store.tail.shares`). If a crash
comes in between, the append is *half done*, and is sent again. Then it is not judged anew, for the newest event may be
another one by now: the rows of the share are left out, and the others pass, as they did the first time. What was not
half done is in neither stream, and is judged as if it had never been sent. So however often there is a crash, each row
is in one of the streams, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from tidelog.model.errors import ClosedError, InputError
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.rows.stored import Ints, times
from tidelog.store.split.context import StreamContext
from tidelog.store.tail.shares import Mask, Share, Shares, sender
from tidelog.store.tail.tail import Numbered, Tail

_FEW_SHARES: Final = 64
"""Fewer are not worth asking which of them are settled."""


class AsideNeeded(Exception):
    """Rows are to be set aside, and the stream for them is not open."""


class Aside(Protocol):
    """The stream that rows are set aside in, as far as it matters here."""

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""

    @property
    def unstored(self) -> int:
        """How many rows it has accepted that are not known to be stored."""

    def append(self, data: Any) -> None:
        """Append rows."""

    def flush(self) -> None:
        """Make them durable."""

    def append_share(self, data: pa.Table, sent_by: str, number: int, share: Share) -> int:
        """Append rows that are a share of an append, durably; returns how many shares are known."""

    def taken_shares(self) -> Shares:
        """The shares that are there, durably; takes the tail lock."""

    def settle_shares(self, numbers: Mapping[str, int]) -> int:
        """Forget shares of each sender's appends up to a number; returns how many are left."""

    def published(self) -> Snapshot:
        """What any process can see of it."""


class Gate:
    """Lets rows pass that are at most ``lateness`` older than the newest one before them. Calls must take turns."""

    def __init__(
        self,
        context: StreamContext,
        tail: Tail,
        open_aside: Callable[[], Aside],
        find_aside: Callable[[], Aside | None],
    ) -> None:
        """``open_aside`` gives the stream for rows that are too late, and makes it if there is none."""
        schema, options = context.layout.schema, context.options
        ticks = options.lateness_ticks(schema.clock)
        assert ticks is not None  # options see to that
        self._schema = schema
        self._directory = context.directory
        self._ticks = ticks
        self._lateness = options.lateness
        self._rejects = options.too_late == "reject"
        self._tail = tail
        self._open_aside = open_aside
        self._find_aside = find_aside
        self._aside: Aside | None = None
        self._half_done: Shares | None = None
        """What was set aside of appends that the stream may not have; None: not looked up yet."""
        self._most_shares = 0
        """When there are more of them, it is time to ask which ones are settled."""
        self._newest = tail.newest
        self._passing = self._newest
        """The newest time with the rows of an append that is under way; none of it counts if it fails."""

    def sift(self, batches: Iterable[pa.RecordBatch], numbered: Numbered | None) -> Iterable[pa.RecordBatch]:
        """The rows that are to be appended.

        Of a list, all are looked at before anything is done with the others; batches of a reader one after the other.
        Raises :class:`InputError`, with the row, if there is one that is refused, and :class:`AsideNeeded` if rows are
        to be set aside and :meth:`prepare` was not told to make the stream for them; nothing has happened then.
        """
        self._passing = self._newest
        if numbered is None:
            if not isinstance(batches, list):
                return self._sifted_one_by_one(batches)
            return self._sifted(batches, None)
        batches = list(batches)
        assert self._half_done is not None or self._rejects
        share = None if self._half_done is None else self._half_done.find(*self._sent(numbered))
        if share is not None:
            return self._without_share(batches, numbered, share)
        return self._sifted(batches, numbered)

    def _sent(self, numbered: Numbered) -> tuple[str, int]:
        """The sender and number that a share of an append is known by."""
        return sender(self._directory, numbered.producer), numbered.number

    def _sifted(self, batches: list[pa.RecordBatch], numbered: Numbered | None) -> list[pa.RecordBatch]:
        """The rows of batches that pass; the others are set aside."""
        masks, newest, first = [], self._newest, 0
        for batch in batches:
            is_late, newest = self._judge(batch, newest, first)
            masks.append(is_late)
            first += batch.num_rows
        if any(is_late is not None for is_late in masks):
            if not self._is_open:
                raise AsideNeeded
            self._set_aside(batches, masks, numbered)
            batches = [
                _picked(batch, ~is_late) if is_late is not None else batch
                for batch, is_late in zip(batches, masks, strict=True)
            ]
        self._passing = newest
        return batches

    def _without_share(self, batches: list[pa.RecordBatch], numbered: Numbered, share: Share) -> list[pa.RecordBatch]:
        """The rows of an append that is half done which were not set aside already.

        Raises :class:`InputError` if it is another append.
        """
        at = [times(batch, self._schema) for batch in batches]
        if difference := share.difference(at):
            raise InputError(
                f"found {difference} in append {numbered.number} of producer {numbered.producer!r}, of which some rows "
                "were set aside when it was interrupted; send the same rows in the same order again"
            )
        is_aside, left, first, passing = share.mask(), [], 0, self._newest
        for batch, each in zip(batches, at, strict=True):
            is_new = ~is_aside[first : first + batch.num_rows]
            first += batch.num_rows
            left.append(_picked(batch, is_new))
            if is_new.any():
                newest = int(each[is_new].max())
                passing = newest if passing is None else max(passing, newest)
        self._passing = passing
        self._tail.count_too_late(aside=int(is_aside.sum()))  # the tail has forgotten them, like the append
        return left

    def keep_newest(self) -> None:
        """Remember the newest event for those who come later: when what :meth:`sift` has let pass is appended.

        The event itself may be coarsened to an aggregate by then, merged with others that do not count, or deleted.
        """
        self._newest = self._passing
        self._tail.keep_newest(self._newest)

    def is_ready(self, *, is_reader: bool, is_numbered: bool) -> bool:
        """Whether :meth:`sift` can be tried; otherwise :meth:`prepare` comes first.

        Batches of a reader cannot be looked at twice, so the stream aside must be open; for an append with a number,
        what is there must be known.
        """
        if self._rejects:
            return True
        return not (is_reader and not self._is_open) and not (is_numbered and self._half_done is None)

    @property
    def _is_open(self) -> bool:
        """Whether rows can be set aside; not if the stream for them was dropped, and another one is to be made."""
        return self._aside is not None and not self._aside.is_closed

    def prepare(self, *, makes: bool) -> None:
        """Look up what is half done; open the stream for rows that are too late, and make it, if it ``makes`` one.

        Not with the stream's lock, for the store has one of its own.
        """
        if self._rejects:
            return
        if self._half_done is None:
            found = self._find_aside()
            self._half_done = Shares() if found is None else self._shares_of(found)
        if makes and not self._is_open:
            self._aside = self._open_aside()

    def _shares_of(self, aside: Aside) -> Shares:
        """What was set aside of appends that are half done, durably."""
        head, shares = aside.published().head, Shares()
        if head is not None:
            shares.update(head.shares)
            shares.settle(self._settled())
        # What a writer that was killed has left may not be durable. It is when another one has taken it over, and then
        # it can be left out here.
        return aside.taken_shares() if len(shares) else shares

    def _settled(self) -> dict[str, int]:
        """By sender, the last append that the stream has durably."""
        numbers = self._tail.flushed_numbers
        return {sender(self._directory, producer): number for producer, number in numbers.items()}

    def flush(self) -> None:
        """Make rows durable that were set aside."""
        aside = self._aside
        if aside is None:
            return
        try:
            aside.flush()
        except ClosedError:
            if not aside.is_closed or aside.unstored:  # closing has made them durable
                raise

    def _sifted_one_by_one(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in batches:
            is_late, newest = self._judge(batch, self._newest, first)
            first += batch.num_rows
            if is_late is not None:
                self._set_aside([batch], [is_late], None)
                batch = _picked(batch, ~is_late)
            self._passing = newest
            yield batch
            self._newest = newest  # it was taken

    def _judge(self, batch: pa.RecordBatch, newest: int | None, first: int) -> tuple[Mask | None, int | None]:
        """Which rows of a batch are too late, None if none is, and the newest time with them."""
        if not batch.num_rows:
            return None, newest
        at = times(batch, self._schema)
        before = np.maximum.accumulate(at)
        if newest is not None:
            np.maximum(before, newest, out=before)
        newest = int(before[-1])
        is_late = _is_beyond(before, at, self._ticks)
        if not is_late.any():
            return None, newest
        if self._rejects:
            self._tail.count_too_late(rejected=int(is_late.sum()))
            row = int(np.argmax(is_late))
            clock = self._schema.clock
            raise InputError(
                f"found an event of {clock.format(int(at[row]))}, more than {self._lateness!r} older than one of "
                f"{clock.format(int(before[row]))} that came before it; append it to another stream, or create this "
                "one with a longer lateness or with too_late='aside'",
                row=first + row,
                column=self._schema.time,
            )
        return is_late, newest

    def _set_aside(
        self, batches: list[pa.RecordBatch], masks: Sequence[Mask | None], numbered: Numbered | None
    ) -> None:
        """Give rows of an append to the stream aside; those of one with a number are durable then."""
        aside = self._aside
        assert aside is not None  # see is_ready
        late = [_picked(batch, mask) for batch, mask in zip(batches, masks, strict=True) if mask is not None]
        if numbered is None:
            aside.append(pa.Table.from_batches(late))
        else:
            # At once: the tail flushes by itself now and then, and must not count an append of which a part is missing.
            at = [times(batch, self._schema) for batch in batches]
            taken = [
                np.zeros(len(each), np.bool_) if mask is None else mask for each, mask in zip(at, masks, strict=True)
            ]
            share, sent = Share.of(at, taken), self._sent(numbered)
            half_done, self._half_done = self._half_done, None  # to be looked up again, if this is interrupted
            assert half_done is not None  # see is_ready
            known = aside.append_share(pa.Table.from_batches(late), *sent, share)
            half_done.add(*sent, share)  # if the append is interrupted, and made once more
            self._half_done = half_done
            if known > self._most_shares:
                settled = self._settled()
                half_done.settle(settled)
                self._most_shares = max(_FEW_SHARES, 2 * aside.settle_shares(settled))
        self._tail.count_too_late(aside=sum(batch.num_rows for batch in late))


def _picked(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    return batch.filter(pa.array(mask))


def _is_beyond(before: Ints, at: Ints, ticks: int) -> Mask:
    """Which times are more than so many ticks before others, none of which are earlier; differences may be 65 bits."""
    return (before.view(np.uint64) - at.view(np.uint64)) > np.uint64(ticks)

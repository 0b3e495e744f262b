"""Rows that are later than a stream's ``lateness`` allows: refused, or set aside in a stream beside it.

Two streams cannot be flushed in one step, so what belongs into the one beside is made durable first. If a crash comes
in between, a numbered append that is sent again is *half done*: some of its rows are beside already. Which ones cannot
be told by their times, for the newest event may be another one by then; so they are looked up there, and left out.
Rows that are the same in all values stay as many as were sent: each row beside stands for one that is sent again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidelog.model.errors import ClosedError, InputError
from tidelog.model.schema import Schema
from tidelog.model.time import INT64_MAX
from tidelog.store.options import StreamOptions
from tidelog.store.rows import Ints, times
from tidelog.store.seqset import EMPTY
from tidelog.store.tail import Tail

if TYPE_CHECKING:
    from tidelog.engine.stream import Stream


class AsideNeeded(Exception):
    """Rows are to be set aside, and the stream for them is not open."""


class Gate:
    """Lets rows pass that are at most ``lateness`` older than the newest one before them. Calls must take turns."""

    def __init__(
        self,
        schema: Schema,
        options: StreamOptions,
        tail: Tail,
        open_aside: Callable[[], Stream],
        find_aside: Callable[[], Stream | None],
    ) -> None:
        """``open_aside`` gives the stream for rows that are too late, and makes it if there is none."""
        ticks = options.lateness_ticks(schema.clock)
        assert ticks is not None  # options see to that
        self._schema = schema
        self._ticks = ticks
        self._lateness = options.lateness
        self._rejects = options.too_late == "reject"
        self._tail = tail
        self._open_aside = open_aside
        self._find_aside = find_aside
        self._aside: Stream | None = None
        self._set_aside_before: Mapping[str, int] | None = None
        """By producer, the last append of which rows were beside when this gate was made; None: not looked up yet."""
        self._beside_before = EMPTY
        """The sequence numbers of rows that were beside then. Rows set aside since are those of other appends."""
        self._found_again = Counter[str]()
        """Rows beside that stand for rows of appends which were sent again, by text."""
        self._newest = tail.newest

    def sift(
        self, batches: Iterable[pa.RecordBatch], producer: str | None, number: int | None
    ) -> Iterable[pa.RecordBatch]:
        """The rows that are to be appended.

        Of a list, all are looked at before anything is done with the others; batches of a reader one after the other.
        Raises :class:`InputError`, with the row, if there is one that is refused, and :class:`AsideNeeded` if rows are
        to be set aside and :meth:`prepare` was not told to make the stream for them; nothing has happened then.
        """
        if producer is None and not isinstance(batches, list):
            return self._sifted_one_by_one(batches)
        kept, late, newest = [], [], self._newest
        first = 0
        if producer is not None and number is not None and self._is_half_done(producer, number):
            batches = self._without_those_beside(list(batches))
            producer = number = None  # whose number it has there already
        for batch in batches:
            passing, rest, newest = self._part(batch, newest, first)
            first += batch.num_rows
            kept.append(passing)
            late += [] if rest is None else [rest]
        self._set_aside(late, producer, number)
        self._newest = newest
        return kept

    def is_ready(self, *, is_reader: bool, is_numbered: bool) -> bool:
        """Whether :meth:`sift` can be tried; otherwise :meth:`prepare` comes first.

        Batches of a reader cannot be looked at twice, so the stream beside must be open; for an append with a number,
        what is there must be known.
        """
        if self._rejects:
            return True
        return not (is_reader and self._aside is None) and not (is_numbered and self._set_aside_before is None)

    def prepare(self, *, makes: bool) -> None:
        """Open the stream for rows that are too late, if there is one, or if it ``makes`` one.

        Not with the stream's lock, for the store has one of its own.
        """
        if self._aside is not None or self._rejects:
            return
        found = self._find_aside()
        if self._set_aside_before is None:
            self._set_aside_before = {}
            if found is not None:
                snapshot = found.published()
                self._beside_before = snapshot.visible
                self._set_aside_before = {} if snapshot.head is None else snapshot.head.producers
        if makes:
            self._aside = self._open_aside()

    def _is_half_done(self, producer: str, number: int) -> bool:
        """Whether rows of an append that is not in the stream are beside it already."""
        before = self._set_aside_before
        if before is None or number > before.get(producer, -1):
            return False
        if self._aside is None:
            raise AsideNeeded
        return True

    def _without_those_beside(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The rows of batches but for those that the stream beside has, each as often as it has them.

        Those that it has because of other appends that were sent again do not count. (That is known to this gate alone:
        if there is another crash before all of them were sent again, rows that are the same in all values, one of which
        was set aside, can become one.)
        """
        assert self._aside is not None
        at = [times(batch, self._schema) for batch in batches if batch.num_rows]
        if not at:
            return batches
        names = self._schema.names
        first, last = min(int(each.min()) for each in at), max(int(each.max()) for each in at)
        there = Counter[str]()
        for found in self._aside.scan(first, min(last + 1, INT64_MAX), names, as_of=self._beside_before):
            there.update(_texts(found))
        there -= self._found_again
        left = []
        for batch in batches:
            is_new = []
            for text in _texts(batch):
                is_there = there[text] > 0
                is_new.append(not is_there)
                if is_there:
                    there[text] -= 1
                    self._found_again[text] += 1
            left.append(batch.filter(pa.array(is_new, pa.bool_())))
        return left

    def flush(self) -> None:
        """Make rows durable that were set aside."""
        aside = self._aside
        if aside is None:
            return
        try:
            aside.flush()
        except ClosedError:
            if not aside.is_closed:  # which has made them durable
                raise

    def _sifted_one_by_one(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in batches:
            passing, rest, self._newest = self._part(batch, self._newest, first)
            first += batch.num_rows
            self._set_aside([] if rest is None else [rest], None, None)
            yield passing

    def _part(
        self, batch: pa.RecordBatch, newest: int | None, first: int
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None, int | None]:
        """The rows of a batch that pass, those that are too late, and the newest time with them."""
        if not batch.num_rows:
            return batch, None, newest
        at = times(batch, self._schema)
        before = np.maximum.accumulate(at)
        if newest is not None:
            np.maximum(before, newest, out=before)
        newest = int(before[-1])
        is_late = _is_beyond(before, at, self._ticks)
        if not is_late.any():
            return batch, None, newest
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
        return batch.filter(pa.array(~is_late)), batch.filter(pa.array(is_late)), newest

    def _set_aside(self, late: list[pa.RecordBatch], producer: str | None, number: int | None) -> None:
        if not late:
            return
        if self._aside is None:
            raise AsideNeeded
        self._aside.append(pa.Table.from_batches(late), producer=producer, number=number)
        if producer is not None:
            # At once: the tail flushes by itself now and then, and must not count an append of which a part is missing.
            self._aside.flush()
        self._tail.count_too_late(aside=sum(batch.num_rows for batch in late))


def _texts(batch: pa.RecordBatch) -> list[str]:
    """Rows as texts that are the same for the same values, NaN included. For the few rows after a crash."""
    return [repr(row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def _is_beyond(before: Ints, at: Ints, ticks: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which times are more than so many ticks before others, none of which are earlier; differences may be 65 bits."""
    return (before.view(np.uint64) - at.view(np.uint64)) > np.uint64(ticks)

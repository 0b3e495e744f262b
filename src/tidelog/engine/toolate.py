"""Rows that are later than a stream's ``lateness`` allows: refused, or set aside in a stream beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidelog.model.errors import InputError
from tidelog.model.schema import Schema
from tidelog.store.options import StreamOptions
from tidelog.store.rows import Ints, times
from tidelog.store.tail import Tail

if TYPE_CHECKING:
    from tidelog.engine.stream import Stream


class AsideNeeded(Exception):
    """Rows are to be set aside, and the stream for them is not open."""


class Gate:
    """Lets rows pass that are at most ``lateness`` older than the newest one before them. Calls must take turns."""

    def __init__(self, schema: Schema, options: StreamOptions, tail: Tail, aside: Callable[[], Stream]) -> None:
        """``aside`` gives the stream for rows that are too late, and makes it if there is none."""
        ticks = options.lateness_ticks(schema.clock)
        assert ticks is not None  # options see to that
        self._schema = schema
        self._ticks = ticks
        self._lateness = options.lateness
        self._rejects = options.too_late == "reject"
        self._tail = tail
        self._open_aside = aside
        self._aside: Stream | None = None
        self._newest = tail.newest

    def sift(
        self, batches: Iterable[pa.RecordBatch], producer: str | None, number: int | None
    ) -> Iterable[pa.RecordBatch]:
        """The rows that are to be appended.

        Of a list, all are looked at before anything is done with the others; batches of a reader one after the other.
        Raises :class:`InputError`, with the row, if there is one that is refused, and :class:`AsideNeeded` if rows are
        to be set aside and :meth:`open_aside` was not called; nothing has happened then.
        """
        if producer is None and not isinstance(batches, list):
            return self._sifted_one_by_one(batches)
        kept, late, newest = [], [], self._newest
        first = 0
        for batch in batches:
            passing, rest, newest = self._part(batch, newest, first)
            first += batch.num_rows
            kept.append(passing)
            late += [] if rest is None else [rest]
        self._set_aside(late, producer, number)
        self._newest = newest
        return kept

    @property
    def is_open(self) -> bool:
        """Whether all rows can be dealt with: the stream for those that are too late is open, or not needed."""
        return self._rejects or self._aside is not None

    def open_aside(self) -> None:
        """Open the stream for rows that are too late. Not with the stream's lock, for the store has one of its own."""
        if self._aside is None and not self._rejects:
            self._aside = self._open_aside()

    def flush(self) -> None:
        """Make rows durable that were set aside."""
        if self._aside is not None and not self._aside.is_closed:  # which has made them durable
            self._aside.flush()

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
        self._tail.count_too_late(aside=sum(batch.num_rows for batch in late))


def _is_beyond(before: Ints, at: Ints, ticks: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which times are more than so many ticks before others, none of which are earlier; differences may be 65 bits."""
    return (before.view(np.uint64) - at.view(np.uint64)) > np.uint64(ticks)

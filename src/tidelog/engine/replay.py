"""Several streams as one sequence of events in order of time (spec/event-store.md 9.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.engine.stream import Stream
from tidelog.model.arrays import integers
from tidelog.model.errors import InputError
from tidelog.store.rows.stored import Ints


class _Cursor:
    """The events of one stream, and how far they were taken."""

    def __init__(self, stream: Stream, batches: pa.RecordBatchReader, order: int) -> None:
        self.name = stream.name
        self.order = order
        self._time = batches.schema.get_field_index(stream.schema.time)
        self._batches = iter(batches)
        self._rest: pa.RecordBatch | None = None
        self.times: Ints
        self.advance()

    @property
    def is_over(self) -> bool:
        return self._rest is None

    @property
    def key(self) -> tuple[int, int]:
        return int(self.times[0]), self.order

    def advance(self) -> None:
        self._set(next(self._batches, None))

    def _set(self, batch: pa.RecordBatch | None) -> None:
        self._rest = batch
        if batch is not None:
            self.times = integers(batch.column(self._time))

    def take(self, until: tuple[int, int] | None) -> pa.RecordBatch:
        """The events at hand that come before ``until``; all for None. There is at least one."""
        batch = self._rest
        assert batch is not None
        count = len(self.times)
        if until is not None:
            side = "right" if self.order < until[1] else "left"
            count = int(np.searchsorted(self.times, until[0], side=side))  # type: ignore[call-overload]
        if count == batch.num_rows:
            self.advance()
            return batch
        self._set(batch.slice(count))
        return batch.slice(0, count)


def replay(
    streams: Sequence[Stream], start: Any = None, end: Any = None, where: str | None = None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Batches of several streams, each with its stream's name, in order of time; ties in the order of ``streams``.

    Every batch is of one stream. Lazy: of each stream one batch, and what it reads ahead, is in memory. All snapshots
    are taken now. Raises :class:`InputError` for clocks of different units.
    """
    units = {stream.name: stream.schema.unit for stream in streams}
    if len(set(units.values())) > 1:
        told = ", ".join(f"{name!r}: {unit or 'plain integers'}" for name, unit in units.items())
        raise InputError(f"streams with clocks of different units cannot be merged by time; found {told}")
    readers = [stream.scan(start, end, where=where) for stream in streams]
    return _merged(streams, readers)


def _merged(streams: Sequence[Stream], readers: Sequence[pa.RecordBatchReader]) -> Iterator[tuple[str, pa.RecordBatch]]:
    cursors = [
        _Cursor(stream, batches, order) for order, (stream, batches) in enumerate(zip(streams, readers, strict=True))
    ]
    while cursors := [cursor for cursor in cursors if not cursor.is_over]:
        cursors.sort(key=lambda cursor: cursor.key)
        until = cursors[1].key if len(cursors) > 1 else None
        yield cursors[0].name, cursors[0].take(until)

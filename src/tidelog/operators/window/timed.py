"""Aggregates of windows of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.model.errors import InputError, TimeError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import FOREVER, Batches, Ints, Needs, Operator, Shape
from tidelog.operators.properties import Order, Properties
from tidelog.operators.state import State, together
from tidelog.operators.window.aggregating import REVISION, START, Aggregates, order_of
from tidelog.operators.window.frames import FixedFrames, Frames
from tidelog.operators.window.slices.slices import FIRST_ROW

_MOST: Final = 1 << 18
"""Windows that come out at once, about."""


@dataclass(frozen=True)
class FromFirst:
    """Windows of ``size`` ticks every ``slide`` ticks, one of which begins with the first row."""

    size: int
    slide: int


class TimeWindows(Operator):
    """A row for each window of time and key that has rows, when the watermark has passed the end of the window.

    Windows that are told early (:class:`~tidelog.operators.window.frames.GrowingFrames`) have a row for each revision.
    Rows come out by the ends of windows, those of one window in the order of their keys' first rows in it.
    """

    def __init__(
        self,
        shape: Shape,
        frames: Frames | FromFirst,
        aggregates: Mapping[str, str],
        by: Sequence[str] = (),
        *,
        empty: bool = False,
        complete_only: bool = False,
    ) -> None:
        """``empty`` gives rows for windows without rows too, from the first window that has some to the last.

        ``complete_only`` leaves out windows that begin before the first row, or end behind the last.
        """
        if isinstance(frames, FixedFrames | FromFirst) and (frames.size < 1 or frames.slide < 1):
            raise TimeError(f"found a size of {frames.size} and a slide of {frames.slide}; expected at least one tick")
        if empty and by:
            raise InputError("windows without rows have no key; fill gaps by key with time_bucket_gapfill")
        revised = isinstance(frames, Frames) and frames.revisions > 0
        self._aggregates = Aggregates(shape, aggregates, by, revised=revised)
        self._asked = frames
        self._frames = frames if isinstance(frames, Frames) else None
        self._empty = empty
        self._complete_only = complete_only
        # Windows from the first row on, and those that depend on where rows begin or end, depend on all rows.
        is_local = isinstance(frames, Frames) and not empty and not complete_only
        reach = frames.reach if is_local and isinstance(frames, Frames) else None
        keys: tuple[tuple[str, ...], ...] | None = (tuple(by),) if by and is_local else None
        super().__init__([shape], self._aggregates.output, Needs(True, keys, reach, 0))
        self._store = self._aggregates.make_store()
        self._next: int | None = None
        """The first window that has not come out."""
        self._last = 0
        """The last window that has rows."""
        self._first_time: int | None = None
        self._last_time = 0

    def use_threads(self, most: int) -> None:
        """For aggregates that take long."""
        self._aggregates.lifting.threads = most

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Add rows to slices; windows come out when the watermark has passed them."""
        if not batch.num_rows:
            return []
        own = self._aggregates
        times = own.shape.times(batch)
        if self._first_time is None:
            self._first_time = int(times[0])
            if isinstance(self._asked, FromFirst):
                self._frames = FixedFrames(self._asked.size, self._asked.slide, self._first_time)
        assert self._frames is not None
        cuts, starts = self._frames.slices(times)
        self._last_time = int(times[-1])
        if own.keys.columns:
            runs = np.repeat(np.arange(len(starts)), np.diff(cuts))
            codes = own.keys.encode(batch)
            fresh = own.slices(batch, order_of(runs * len(own.keys) + codes), starts[runs], codes)
        else:
            fresh = own.plain_slices(batch, cuts, starts)
        self._see(starts)
        self._store.add(self._frames, fresh)
        return []

    def _see(self, starts: Ints) -> None:
        """Note which windows have rows, by the starts of slices that have."""
        assert self._frames is not None
        firsts, lasts = self._frames.numbers(starts if self._frames.has_gaps else starts[[0, -1]])
        inside = np.flatnonzero(firsts <= lasts)
        if len(inside):
            self._next = int(firsts[inside[0]]) if self._next is None else self._next
            self._last = int(lasts[inside[-1]])

    def advance(self, watermark: int) -> Batches:
        """The windows that end at the watermark, or before it."""
        frames = self._frames
        if frames is None or self._next is None:
            return []
        high = self._due(frames, watermark)
        if high <= self._next:
            return []
        keys = self._store.keys()
        low, self._next = self._next, high
        bounds = np.full(len(keys), high, np.int64)
        found = self._store.windows(frames, keys, np.full(len(keys), low, np.int64), bounds)
        if self._empty:
            batch = self._with_empty(frames, low, high, found)
        elif found is None:
            self._store.drop(frames, keys, bounds)
            return []
        else:
            starts, ends = frames.starts(found.numbers), frames.ends(found.numbers)
            order = slice(None) if len(keys) == 1 else np.lexsort((found.first[FIRST_ROW], found.numbers))
            order = self._kept(starts, order)
            revisions = self._revisions(found.numbers)
            batch = self._aggregates.batch(found.first, starts, ends, found.states, order, revisions)
        self._store.drop(frames, keys, bounds)
        self._forget_keys()
        return [batch] if batch.num_rows else []

    def _due(self, frames: Frames, watermark: int) -> int:
        """The number behind the last window that ends at a watermark, or before it."""
        if self._complete_only:  # else a window might turn out to be complete by a row that is still to come
            watermark = min(watermark, self._last_time + 1)
        return self._last + 1 if watermark >= FOREVER else min(frames.closed(watermark), self._last + 1)

    def stages(self, watermark: int) -> Iterator[int]:
        """Ends of windows, about :data:`_MOST` of which come out at once."""
        frames, low = self._frames, self._next
        if frames is None or low is None:
            return
        count = self._due(frames, watermark) - low
        most = count * max(len(self._aggregates.keys), 1)
        if most > _MOST and not self._empty and (place := self._store.first_place) is not None:
            first, last = frames.numbers(np.array([place]))
            most = min(most, len(self._store) * int(last[0] - first[0] + 1))
        parts = min(-(-most // _MOST), count)
        for part in range(1, parts):
            yield int(frames.ends(np.array([low + count * part // parts - 1], np.int64))[0])

    def _forget_keys(self) -> None:
        """Forget keys that have no slices, now and then."""
        keys = self._aggregates.keys
        if not keys.are_many:
            return
        used = self._store.keys()
        if keys.may_forget(len(used)):
            assert self._frames is not None
            self._store.renumber(self._frames, keys.keep(used))

    def _kept(self, starts: Any, order: Any) -> Any:
        """Of windows in an order those that are wanted."""
        if not self._complete_only:
            return order
        assert self._first_time is not None
        places = np.arange(len(starts))[order]
        return places[starts[places] >= self._first_time]

    def _with_empty(self, frames: Frames, low: int, high: int, found: Any) -> pa.RecordBatch:
        """All windows from ``low`` to ``high``; those that have not been found have no rows."""
        numbers = np.arange(low, high, dtype=np.int64)
        folds = self._aggregates.folds
        starts, ends = frames.starts(numbers), frames.ends(numbers)
        words = np.zeros((FIRST_ROW + 1, len(numbers)), np.int64)
        states = []
        for place, fold in enumerate(folds):
            every = np.repeat(fold.start(), len(numbers), axis=0)
            if found is not None:
                every[found.numbers - low] = found.states[place]
            states.append(every)
        kept = self._kept(starts, slice(None))
        return self._aggregates.batch(words, starts, ends, states, kept, self._revisions(numbers))

    def _revisions(self, numbers: Ints) -> Ints | None:
        assert self._frames is not None
        return numbers % self._frames.revisions if self._frames.revisions else None

    def next_deadline(self) -> int | None:
        """The end of the first window that has rows and has not come out."""
        place = self._store.first_place
        if self._frames is None or self._next is None or place is None:
            return None
        firsts, _ = self._frames.numbers(np.array([place]))
        number = self._next if self._empty else max(int(firsts[0]), self._next)
        if number > self._last:
            return None
        end = int(self._frames.ends(np.array([number]))[0])
        return None if self._complete_only and end - 1 > self._last_time else end

    def passed(self, watermark: int) -> int:
        """Windows that are still to come end behind the watermark, but for those that a later row tells of."""
        if self._frames is None or self._next is None or watermark == FOREVER:
            return watermark
        if self._empty:
            watermark = min(watermark, int(self._frames.ends(np.array([self._next]))[0]))
        return min(watermark, self._last_time + 1) if self._complete_only else watermark

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Windows that end before it are not made, and rows before the first one that does not are of no use.

        Where rows decide which windows there are, all of them may be.
        """
        frames = self._frames
        if frames is None or self.needs.behind is None or not INT64_MIN + frames.reach < horizon <= INT64_MAX:
            return (INT64_MIN,)
        first = frames.closed(horizon - 1)
        if self._next is not None and first > self._next:
            self._next = first
            keys = self._store.keys()
            self._store.drop(frames, keys, np.full(len(keys), first, np.int64))
        return (int(frames.starts(np.array([first], np.int64))[0]),)

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """A row for each window and key, so that these are a key; one for each window rises strictly."""
        found = super().derive(inputs)
        by = self._aggregates.keys.columns
        if self._aggregates.is_revised:
            return replace(found, key=(*by, START, REVISION))
        return replace(found, key=by, order=found.order if by else Order.STRICT)

    def snapshot(self) -> State:
        """Slices and keys, and how far windows have come out."""
        core: dict[str, Any] = {"next": self._next, "last": self._last}
        core |= {"first time": self._first_time, "last time": self._last_time}
        core |= {"rows": self._aggregates.rows}
        return together({"slices": self._store.snapshot(), "keys": self._aggregates.keys.snapshot()}, core)

    def restore(self, state: State) -> None:
        """Go on with the same slices."""
        core, own = state.core, self._aggregates
        self._next, self._last = core["next"], core["last"]
        self._first_time, self._last_time = core["first time"], core["last time"]
        own.rows = core["rows"]
        if isinstance(self._asked, FromFirst) and self._first_time is not None:
            self._frames = FixedFrames(self._asked.size, self._asked.slide, self._first_time)
        own.keys.restore(state.part("keys"))
        self._store.restore(self._frames, state.part("slices"))
        if self._frames is not None and self._next is not None:
            keys = self._store.keys()
            self._store.drop(self._frames, keys, np.full(len(keys), self._next, np.int64))

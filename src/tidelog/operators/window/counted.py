"""Aggregates of windows of so many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tidelog.model.arguments import integer
from tidelog.model.arrays import distinct
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Batches, Ints, Needs, Operator, Shape
from tidelog.operators.state import State, together
from tidelog.operators.window import kernels
from tidelog.operators.window.aggregating import Aggregates, order_of
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.slices.log import SliceLog
from tidelog.operators.window.slices.slices import (
    FIRST_ROW,
    FIRST_TIME,
    KEY,
    LAST_ROW,
    LAST_TIME,
    UNWRITTEN,
    WRITTEN,
    Slices,
)


class CountWindows(Operator):
    """A row for each ``size`` rows of a key, every ``slide`` rows, as soon as the last of them has come.

    Its start and end are the times of the first and of the last of these rows. Windows are always full. Rows come out
    in the order of the last rows of windows.
    """

    def __init__(
        self, shape: Shape, size: int, slide: int, aggregates: Mapping[str, str], by: Sequence[str] = ()
    ) -> None:
        self._frames = FixedFrames(integer("the size of a window", size, 1), integer("the slide of a window", slide, 1))
        self._aggregates = Aggregates(shape, aggregates, by)
        keys: tuple[tuple[str, ...], ...] | None = (tuple(by),) if by else None
        super().__init__([shape], self._aggregates.output, Needs(True, keys, None, 0))
        # Places are ranks of rows among those of their key.
        self._store = self._aggregates.make_store()
        self._counts: Ints = np.zeros(0, np.int64)
        """How many rows of each key there have been."""
        self._written: Ints = np.zeros(0, np.int64)
        """To which chunk that was written, for each key."""
        self._log = SliceLog(())
        self._horizon = INT64_MIN

    def use_threads(self, most: int) -> None:
        """For aggregates that take long."""
        self._aggregates.lifting.threads = most

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """The windows that these rows complete."""
        if not batch.num_rows:
            return []
        own, frames = self._aggregates, self._frames
        codes = own.keys.encode(batch)
        touched = distinct(codes)
        fresh_keys = len(own.keys) - len(self._counts)
        if fresh_keys:
            self._counts = np.concatenate([self._counts, np.zeros(fresh_keys, np.int64)])
            self._written = np.concatenate([self._written, np.full(fresh_keys, UNWRITTEN, np.int64)])
        self._log.forget(self._written[touched])
        self._written[touched] = UNWRITTEN
        low = self._complete(touched)
        if own.keys.columns:
            ranks = np.empty(batch.num_rows, np.int64)
            kernels.rank_rows(codes, self._counts, ranks)
            fresh = own.slices(batch, order_of(codes), _slices_of(frames, ranks), codes)
        else:
            first = int(self._counts[0])
            self._counts[0] += batch.num_rows
            starts = _starts(frames, first, first + batch.num_rows)
            cuts = np.concatenate([np.zeros(1, np.int64), starts[1:] - first, [batch.num_rows]])
            fresh = own.plain_slices(batch, cuts, starts)
        self._store.add(frames, fresh)
        high = self._complete(touched)
        found = self._store.windows(frames, touched, low, high)
        if found is None:
            return []
        self._store.drop(frames, touched, high)
        ends = found.last[LAST_TIME]
        order = np.argsort(found.last[LAST_ROW], kind="stable") if own.keys.columns else np.arange(len(ends))
        order = order[ends[order] >= self._horizon]
        if not len(order):
            return []
        return [own.batch(found.first, found.first[FIRST_TIME], ends, found.states, order)]

    def _complete(self, keys: Ints) -> Ints:
        """How many windows of keys are full."""
        return np.maximum((self._counts[keys] - self._frames.size) // self._frames.slide + 1, 0)

    def advance(self, watermark: int) -> Batches:
        """Time alone completes no window."""
        return []

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Windows that end before it do not come out; rows count in all that follow, whatever their time."""
        self._horizon = max(self._horizon, horizon)
        return super().skip(horizon)

    def snapshot(self) -> State:
        """Slices and keys, and how many rows each key has had."""
        parts = {"slices": self._store.snapshot(), "keys": self._aggregates.keys.snapshot()}
        changed = np.flatnonzero(self._written == UNWRITTEN)
        again = self._log.begin(len(self._counts), len(changed))
        keys = np.concatenate([changed, np.flatnonzero(np.isin(self._written, again))]) if again else changed
        if len(keys):
            words = np.zeros((WRITTEN + 1, len(keys)), np.int64)
            words[KEY], words[FIRST_ROW] = keys, self._counts[keys]
            self._written[keys] = self._log.write(Slices(words, []))
        parts["counts"] = self._log.state()
        return together(parts, {"rows": self._aggregates.rows})

    def restore(self, state: State) -> None:
        """Go on with the same slices."""
        own, frames = self._aggregates, self._frames
        own.rows = state.core["rows"]
        own.keys.restore(state.part("keys"))
        counted = self._log.restore(state.part("counts"))
        self._counts, self._written = counted.words[FIRST_ROW].copy(), counted.words[WRITTEN].copy()
        self._store.restore(frames, state.part("slices"))
        keys = self._store.keys()
        self._store.drop(frames, keys, self._complete(keys))


def _slices_of(frames: FixedFrames, ranks: Ints) -> Ints:
    """The first ranks of the slices that ranks are in."""
    starts = ranks // frames.slide * frames.slide
    offset = frames.size % frames.slide
    return starts + (ranks - starts >= offset) * offset if offset else starts


def _starts(frames: FixedFrames, low: int, high: int) -> Ints:
    """The first ranks of the slices that ranks from ``low`` to ``high`` (exclusive) are in."""
    starts = np.arange(low // frames.slide, (high - 1) // frames.slide + 1) * frames.slide
    offset = frames.size % frames.slide
    if offset:
        starts = np.stack([starts, starts + offset], axis=1).ravel()
    first, last = np.searchsorted(starts, [low, high - 1], side="right")
    return starts[first - 1 : last]

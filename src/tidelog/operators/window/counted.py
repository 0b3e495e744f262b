"""Aggregates of windows of so many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.arguments import integer
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import Batches, Ints, Needs, Operator, Shape
from tidelog.operators.state import State, together
from tidelog.operators.window import kernels
from tidelog.operators.window.aggregating import Aggregates, order_of
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.slice_log import SliceLog
from tidelog.operators.window.slices import (
    FIRST_ROW,
    FIRST_TIME,
    KEY,
    LAST_ROW,
    LAST_TIME,
    PLACE,
    UNWRITTEN,
    WRITTEN,
    Slices,
)
from tidelog.operators.window.stores import make_store


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
        self._store = make_store(self._aggregates.folds, has_keys=bool(by))
        self._open = Slices.none(self._aggregates.folds)
        """Slices to which rows will be added, at most one of each key."""
        self._counts: Ints = np.zeros(0, np.int64)
        """How many rows of each key there have been."""
        self._written: Ints = np.zeros(0, np.int64)
        """To which chunk that was written, for each key."""
        self._log = SliceLog(())
        self._next: Ints = np.zeros(0, np.int64)
        """The first window of each key that has not come out."""
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
        fresh_keys = len(own.keys) - len(self._counts)
        self._counts = np.concatenate([self._counts, np.zeros(fresh_keys, np.int64)])
        self._next = np.concatenate([self._next, np.zeros(fresh_keys, np.int64)])
        self._written = np.concatenate([self._written, np.full(fresh_keys, UNWRITTEN, np.int64)])
        self._written[codes] = UNWRITTEN
        if own.keys.columns:
            ranks = np.empty(batch.num_rows, np.int64)
            kernels.rank_rows(codes, self._counts, ranks)
            fresh = own.slices(batch, order_of(codes), _bounds(frames, ranks)[0], codes)
        else:
            low = int(self._counts[0])
            self._counts[0] += batch.num_rows
            starts = _starts(frames, low, low + batch.num_rows)
            cuts = np.concatenate([np.zeros(1, np.int64), starts[1:] - low, [batch.num_rows]])
            fresh = own.plain_slices(batch, cuts, starts)
        fresh = self._open.continued(fresh, own.folds)
        is_whole = _bounds(frames, fresh.words[PLACE])[1] <= self._counts[fresh.words[KEY]]
        self._open = fresh.take(~is_whole)
        whole = fresh.take(is_whole)
        if frames.slide > frames.size:
            firsts, lasts = frames.numbers(whole.words[PLACE])
            whole = whole.take(firsts <= lasts)
        self._store.add(whole)
        high = self._complete()
        found = self._store.windows(frames, self._next, high)
        self._next = np.maximum(self._next, high)
        if found is None:
            return []
        self._store.drop(frames, self._next)
        ends = found.last[LAST_TIME]
        order = np.argsort(found.last[LAST_ROW], kind="stable") if own.keys.columns else np.arange(len(ends))
        order = order[ends[order] >= self._horizon]
        if not len(order):
            return []
        return [own.batch(found.first, found.first[FIRST_TIME], ends, found.states, order)]

    def _complete(self) -> Ints:
        """How many windows of each key are full."""
        return np.maximum((self._counts - self._frames.size) // self._frames.slide + 1, 0)

    def advance(self, watermark: int) -> Batches:
        """Time alone completes no window."""
        return []

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Windows that end before it do not come out; rows count in all that follow, whatever their time."""
        self._horizon = max(self._horizon, horizon)
        return super().skip(horizon)

    def snapshot(self) -> State:
        """Slices and keys, and how many rows each key has had."""
        counted = Slices(np.zeros((WRITTEN + 1, len(self._counts)), np.int64), [])
        counted.words[KEY] = np.arange(len(self._counts))
        counted.words[FIRST_ROW], counted.words[WRITTEN] = self._counts, self._written
        parts = {"slices": self._store.snapshot(self._open), "keys": self._aggregates.keys.snapshot()}
        parts["counts"] = self._log.snapshot([counted])
        self._written = counted.words[WRITTEN].copy()
        return together(parts, {"rows": self._aggregates.rows})

    def restore(self, state: State) -> None:
        """Go on with the same slices."""
        own, frames = self._aggregates, self._frames
        own.rows = state.core["rows"]
        own.keys.restore(state.part("keys"))
        counted = self._log.restore(state.part("counts"))
        self._counts, self._written = counted.words[FIRST_ROW].copy(), counted.words[WRITTEN].copy()
        self._next = self._complete()

        def is_open(slices: Slices) -> npt.NDArray[np.bool_]:
            behind = _bounds(frames, slices.words[PLACE])[1]
            return np.asarray(behind > self._counts[slices.words[KEY]])

        self._open = self._store.restore(state.part("slices"), is_open)
        self._store.drop(frames, self._next)


def _bounds(frames: FixedFrames, ranks: Ints) -> tuple[Ints, Ints]:
    """The first ranks of the slices that ranks are in, and the first ones behind these slices."""
    starts = ranks // frames.slide * frames.slide
    offset = frames.size % frames.slide
    if not offset:
        return starts, starts + frames.slide
    is_behind = ranks - starts >= offset
    return starts + is_behind * offset, starts + np.where(is_behind, frames.slide, offset)


def _starts(frames: FixedFrames, low: int, high: int) -> Ints:
    """The first ranks of the slices that ranks from ``low`` to ``high`` (exclusive) are in."""
    starts = np.arange(low // frames.slide, (high - 1) // frames.slide + 1) * frames.slide
    offset = frames.size % frames.slide
    if offset:
        starts = np.stack([starts, starts + offset], axis=1).ravel()
    first, last = np.searchsorted(starts, [low, high - 1], side="right")
    return starts[first - 1 : last]

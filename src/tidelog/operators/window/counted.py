"""Aggregates of windows of so many rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.model.arguments import integer
from tidelog.model.arrays import integer_column, integers
from tidelog.operators.base import Batches, Ints, Needs, Operator, Shape
from tidelog.operators.state import State, packed, together, unpacked
from tidelog.operators.window import kernels
from tidelog.operators.window.aggregating import Aggregates, order_of
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.slices import FIRST_TIME, KEY, LAST_ROW, LAST_TIME, PLACE, Slices, SliceStore

_COUNTS = pa.schema([("rows", pa.int64()), ("windows", pa.int64())])


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
        self._store = SliceStore(self._aggregates.folds, has_keys=bool(by))
        self._open = Slices.none(self._aggregates.folds)
        """Slices to which rows will be added, at most one of each key."""
        self._counts: Ints = np.zeros(0, np.int64)
        """How many rows of each key there have been."""
        self._next: Ints = np.zeros(0, np.int64)
        """The first window of each key that has not come out."""
        self._version = 0

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """The windows that these rows complete."""
        if not batch.num_rows:
            return []
        own, frames = self._aggregates, self._frames
        codes = own.keys.encode(batch)
        fresh_keys = len(own.keys) - len(self._counts)
        self._counts = np.concatenate([self._counts, np.zeros(fresh_keys, np.int64)])
        self._next = np.concatenate([self._next, np.zeros(fresh_keys, np.int64)])
        if own.keys.columns:
            ranks = np.empty(batch.num_rows, np.int64)
            kernels.rank_rows(codes, self._counts, ranks)
        else:
            ranks = np.arange(self._counts[0], self._counts[0] + batch.num_rows)
            self._counts[0] += batch.num_rows
        places, _ = _bounds(frames, ranks)
        fresh = own.slices(batch, order_of(codes) if own.keys.columns else None, places, codes)
        fresh = self._open.continued(fresh, own.folds)
        is_whole = _bounds(frames, fresh.words[PLACE])[1] <= self._counts[fresh.words[KEY]]
        self._open = fresh.take(~is_whole)
        self._version += 1
        whole = fresh.take(is_whole)
        if frames.slide > frames.size:
            firsts, lasts = frames.numbers(whole.words[PLACE])
            whole = whole.take(firsts <= lasts)
        self._store.add(whole)
        high = np.maximum((self._counts - frames.size) // frames.slide + 1, 0)
        found = self._store.windows(frames, self._next, high)
        self._next = np.maximum(self._next, high)
        if found is None:
            return []
        self._store.drop(frames, self._next)
        order = np.argsort(found.last[LAST_ROW], kind="stable") if own.keys.columns else slice(None)
        return [own.batch(found.first, found.first[FIRST_TIME], found.last[LAST_TIME], found.states, order)]

    def advance(self, watermark: int) -> Batches:
        """Time alone completes no window."""
        return []

    def snapshot(self) -> State:
        """Slices and keys, and how many rows each key has had."""
        core: dict[str, Any] = {"rows": self._aggregates.rows, "version": self._version}
        counts = pa.RecordBatch.from_arrays(
            [integer_column(each) for each in (self._counts, self._next)], schema=_COUNTS
        )
        chunks = {"counts": packed(counts), **self._open.snapshot(self._aggregates.folds)}
        newest = State({}, {f"{self._version}/{name}": each for name, each in chunks.items()})
        keys = self._aggregates.keys.snapshot()
        return together({"slices": self._store.snapshot(), "keys": keys, "newest": newest}, core)

    def restore(self, state: State) -> None:
        """Go on with the same slices."""
        own, self._version = self._aggregates, state.core["version"]
        own.rows = state.core["rows"]
        own.keys.restore(state.part("keys"))
        self._store.restore(state.part("slices"))
        newest = state.part("newest")
        self._open = Slices.restored(newest, str(self._version), own.folds)
        counts = unpacked(newest.chunks[f"{self._version}/counts"], _COUNTS)
        self._counts, self._next = (integers(column).copy() for column in counts.columns)


def _bounds(frames: FixedFrames, ranks: Ints) -> tuple[Ints, Ints]:
    """The first ranks of the slices that ranks are in, and the first ones behind these slices."""
    starts = ranks // frames.slide * frames.slide
    offset = frames.size % frames.slide
    if not offset:
        return starts, starts + frames.slide
    is_behind = ranks - starts >= offset
    return starts + is_behind * offset, starts + np.where(is_behind, frames.slide, offset)

"""Rows with the windows that they are in: each of them once for every window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import boolean_column, integer_column
from tidelog.model.errors import SchemaError, TimeError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.backlog import Backlog
from tidelog.operators.base import FOREVER, Batches, Ints, Needs, Operator, Shape
from tidelog.operators.keys import Keys
from tidelog.operators.state import State
from tidelog.operators.window.frames import FixedFrames, Frames

COLUMNS: Final = ("window_start", "window_end", "window_time")
"""What is told of a window: its first instant, the first one behind it, and its last one."""
_MOST: Final = 1 << 17
"""Rows that come out at once, about."""


class _Assigned(Operator):
    """Rows come out with all columns but ``_seq``, which several would share, and those of their window."""

    def __init__(self, shape: Shape, time: str, needs: Needs) -> None:
        self._kept = [name for name in shape.schema.names if name != SEQUENCE_COLUMN]
        taken = [name for name in COLUMNS if name in self._kept]
        if taken:
            raise SchemaError(f"found a column {taken[0]!r} beside those of windows; give it another name")
        own = [pa.field(name, shape.time_type, nullable=False) for name in COLUMNS]
        fields = [*(shape.schema.field(name) for name in self._kept), *own]
        super().__init__([shape], Shape(pa.schema(fields), time), needs)

    def _batch(self, rows: pa.RecordBatch, places: Ints, starts: Ints, ends: Ints) -> pa.RecordBatch:
        kept = rows.select(self._kept).take(integer_column(places))
        kind = self.inputs[0].time_type
        times = [integer_column(each) for each in (starts, ends, ends - 1)]
        columns = [each if kind == pa.int64() else each.view(kind) for each in times]
        return pa.RecordBatch.from_arrays([*kept.columns, *columns], schema=self.output.schema)


class WindowRows(_Assigned):
    """Rows with each window of time that they are in. Their time is what it was."""

    def __init__(self, shape: Shape, frames: Frames) -> None:
        if isinstance(frames, FixedFrames):
            if frames.size < 1 or frames.slide < 1:
                raise TimeError(f"found a size of {frames.size} and a slide of {frames.slide}; expected at least 1")
            self.most_rows = max(min(_MOST * frames.slide // frames.size, _MOST), 1)
        super().__init__(shape, shape.time, Needs(True))
        self._frames = frames

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Every row for every window."""
        if not batch.num_rows:
            return []
        times = self.inputs[0].times(batch)
        self._frames.slices(times)  # raises for times too near the ends of the clock
        firsts, lasts = self._frames.numbers(times)
        counts = np.maximum(lasts - firsts + 1, 0)
        places = np.repeat(np.arange(len(times)), counts)
        behind = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = firsts[places] + behind
        return [self._batch(batch, places, self._frames.starts(numbers), self._frames.ends(numbers))]

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Rows come out at the times at which they come in."""
        return (horizon,)

    def advance(self, watermark: int) -> Batches:
        """Nothing waits."""
        return []

    def snapshot(self) -> State:
        """There is nothing to know."""
        return State()

    def restore(self, state: State) -> None:
        """There was nothing to know."""


class SessionRows(_Assigned):
    """Rows with their session, when that is over: its end is their time.

    Sessions are those of :class:`~tidelog.operators.window.sessions.SessionWindows`. Rows come out by the ends of their
    sessions, then by the starts of these, then in their order.
    """

    def __init__(self, shape: Shape, gap: int, by: Sequence[str] = ()) -> None:
        if gap < 1:
            raise TimeError(f"found a gap of {gap}; expected at least one tick")
        Keys(shape, by)  # raises for what are none
        super().__init__(shape, COLUMNS[1], Needs(True, (tuple(by),) if by else None, None, None))
        self._gap, self._by = gap, tuple(by)
        self._rows = Backlog(shape)
        self._deadline: int | None = None
        """No session is over before it; None if that is not known."""
        self._horizon = INT64_MIN

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Let rows wait for the ends of their sessions."""
        if batch.num_rows:
            if int(self.inputs[0].times(batch)[-1]) > INT64_MAX - self._gap:
                raise TimeError(f"a session ends out of the range of the clock; found a gap of {self._gap}")
            if not self._rows.rows.num_rows:
                self._deadline = None
            self._rows.append(batch)
        return []

    def advance(self, watermark: int) -> Batches:
        """The rows of sessions that the watermark has passed."""
        rows = self._rows.rows
        if not rows.num_rows or (self._deadline is not None and watermark < self._deadline):
            return []
        starts, ends = self._sessions(rows)
        # A row at the very end would still belong to it.
        is_over = np.ones(len(ends), np.bool_) if watermark >= FOREVER else ends < watermark
        self._deadline = int(ends[~is_over].min()) + 1 if not is_over.all() else None
        if not is_over.any():
            return []
        places = np.flatnonzero(is_over)
        places = places[np.lexsort((places, starts[places], ends[places]))]
        self._rows.drop(rows.num_rows)
        if not is_over.all():
            self._rows.append(rows.filter(boolean_column(~is_over)))
        places = places[ends[places] >= self._horizon]
        return [self._batch(rows, places, starts[places], ends[places])] if len(places) else []

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Rows of sessions that end before it do not come out; one that ends later may have begun at any time."""
        self._horizon = max(self._horizon, horizon)
        return super().skip(horizon)

    def _sessions(self, rows: pa.RecordBatch) -> tuple[Ints, Ints]:
        """The start and the end of each row's session, as far as its rows are known."""
        times = self.inputs[0].times(rows)
        codes = Keys(self.inputs[0], self._by).encode(rows)
        order = np.argsort(codes, kind="stable")
        in_turn, keys = times[order], codes[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (keys[1:] != keys[:-1]) | (np.diff(in_turn) > self._gap)
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], len(order)) - 1
        number = np.cumsum(begins) - 1
        starts, ends = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        starts[order] = in_turn[firsts][number]
        ends[order] = in_turn[lasts][number] + self._gap
        return starts, ends

    def next_deadline(self) -> int | None:
        """When the first session is over, if no row comes."""
        rows = self._rows.rows
        return int(self._sessions(rows)[1].min()) + 1 if rows.num_rows else None

    def snapshot(self) -> State:
        """The rows of sessions that are not over."""
        return self._rows.snapshot()

    def restore(self, state: State) -> None:
        """Have the same rows."""
        self._rows.restore(state)

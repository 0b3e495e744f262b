"""Aggregates of sessions: rows of a key that follow one another closely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.model.errors import TimeError
from tidelog.model.times.clock import INT64_MAX
from tidelog.operators.base import Batches, Needs, Operator, Shape
from tidelog.operators.state import State, together
from tidelog.operators.window.aggregating import Aggregates, order_of
from tidelog.operators.window.slices import FIRST_ROW, FIRST_TIME, KEY, LAST_TIME, PLACE, Slices


class SessionWindows(Operator):
    """A row for each session: rows of a key, each at most ``gap`` ticks behind the one before it.

    It starts with its first row and ends ``gap`` behind its last one, and comes out when the watermark has passed that.
    Rows come out by the ends of sessions, then by their starts and first rows.
    """

    def __init__(self, shape: Shape, gap: int, aggregates: Mapping[str, str], by: Sequence[str] = ()) -> None:
        if gap < 1:
            raise TimeError(f"found a gap of {gap}; expected at least one tick")
        self._gap = gap
        self._aggregates = Aggregates(shape, aggregates, by)
        keys: tuple[tuple[str, ...], ...] | None = (tuple(by),) if by else None
        super().__init__([shape], self._aggregates.output, Needs(True, keys, None, None))
        self._sessions = Slices.none(self._aggregates.folds)
        """Those that have not come out; their places are the times of their first rows."""
        self._version = 0

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Add rows to sessions, or begin new ones."""
        if not batch.num_rows:
            return []
        own = self._aggregates
        times = own.shape.times(batch)
        if int(times[-1]) > INT64_MAX - self._gap:
            raise TimeError(
                f"a session of the time {times[-1]} ends out of the range of the clock; found a gap of {self._gap}"
            )
        codes = own.keys.encode(batch)
        order = order_of(codes)
        at = np.arange(len(times)) if order is None else order
        in_turn, keys = times[at], codes[at]
        begins = np.ones(len(at), np.bool_)
        begins[1:] = (keys[1:] != keys[:-1]) | (np.diff(in_turn) > self._gap)
        places = np.empty(len(at), np.int64)
        places[at] = in_turn[np.maximum.accumulate(np.where(begins, np.arange(len(at)), 0))]
        fresh = own.slices(batch, order, places, codes)
        self._go_on(fresh)
        self._sessions = Slices.joined([self._sessions, fresh]).united(own.folds)
        self._version += 1
        return []

    def _go_on(self, fresh: Slices) -> None:
        """Give stretches that go on with a session its place."""
        words, known = fresh.words, self._sessions.words
        newest = np.full(len(self._aggregates.keys), -1, np.int64)
        in_time = np.argsort(known[PLACE], kind="stable")
        newest[known[KEY, in_time]] = in_time  # of several of a key the last one stays
        is_first = np.ones(len(fresh), np.bool_)
        is_first[1:] = words[KEY, 1:] != words[KEY, :-1]
        candidates = np.flatnonzero(is_first & (newest[words[KEY]] >= 0))
        session = newest[words[KEY, candidates]]
        goes_on = words[FIRST_TIME, candidates] - known[LAST_TIME, session] <= self._gap
        words[PLACE, candidates[goes_on]] = known[PLACE, session[goes_on]]

    def advance(self, watermark: int) -> Batches:
        """The sessions that the watermark has passed."""
        words = self._sessions.words
        ends = words[LAST_TIME] + self._gap
        # A row at the very end would still belong to it.
        is_over = np.ones(len(ends), np.bool_) if watermark > INT64_MAX else ends < watermark
        if not is_over.any():
            return []
        done = self._sessions.take(is_over)
        starts, ends = done.words[PLACE], ends[is_over]
        order = np.lexsort((done.words[FIRST_ROW], starts, ends))
        self._sessions = self._sessions.take(~is_over)
        self._version += 1
        batch = self._aggregates.batch(done.words, starts, ends, done.states, order)
        keys = self._aggregates.keys
        if keys.are_many:
            self._sessions = self._sessions.renumbered(keys.keep(np.unique(self._sessions.words[KEY])))
        return [batch]

    def next_deadline(self) -> int | None:
        """When the first session is over."""
        if not len(self._sessions):
            return None
        return int(self._sessions.words[LAST_TIME].min()) + self._gap + 1

    def snapshot(self) -> State:
        """The sessions that have not come out."""
        core: dict[str, Any] = {"rows": self._aggregates.rows, "version": self._version}
        chunks = self._sessions.snapshot(self._aggregates.folds)
        newest = State({}, {f"{self._version}/{name}": each for name, each in chunks.items()})
        return together({"keys": self._aggregates.keys.snapshot(), "newest": newest}, core)

    def restore(self, state: State) -> None:
        """Go on with the same sessions."""
        own, self._version = self._aggregates, state.core["version"]
        own.rows = state.core["rows"]
        own.keys.restore(state.part("keys"))
        self._sessions = Slices.restored(state.part("newest"), str(self._version), own.folds)

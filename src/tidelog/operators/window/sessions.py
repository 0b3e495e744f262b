"""Aggregates of sessions: rows of a key that follow one another closely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.model.errors import TimeError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import FOREVER, Batches, Needs, Operator, Shape
from tidelog.operators.properties import Order, Properties
from tidelog.operators.state import State, together
from tidelog.operators.window.aggregating import Aggregates, order_of
from tidelog.operators.window.open_sessions import OpenSessions
from tidelog.operators.window.slices.slices import FIRST_ROW, LAST_TIME, PLACE


class SessionWindows(Operator):
    """A row for each session: rows of a key, each at most ``gap`` ticks behind the one before it.

    It starts with its first row and ends ``gap`` behind its last one, and comes out when the watermark has passed that.
    Rows come out by the ends of sessions, then by their starts and first rows. Without a gap all rows of a key are one
    session, which ends with its last row, and comes out when all rows have come.
    """

    def __init__(self, shape: Shape, gap: int | None, aggregates: Mapping[str, str], by: Sequence[str] = ()) -> None:
        if gap is not None and gap < 1:
            raise TimeError(f"found a gap of {gap}; expected at least one tick")
        self._is_endless = gap is None
        self._gap = INT64_MAX if gap is None else gap
        self._aggregates = Aggregates(shape, aggregates, by)
        keys: tuple[tuple[str, ...], ...] | None = (tuple(by),) if by else None
        super().__init__([shape], self._aggregates.output, Needs(True, keys, None, None))
        self._sessions = OpenSessions(self._aggregates.folds, self._gap)
        self._watermark: int | None = None
        """All that ended before this one have come out."""
        self._horizon = INT64_MIN

    def use_threads(self, most: int) -> None:
        """For aggregates that take long."""
        self._aggregates.lifting.threads = most

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Add rows to sessions, or begin new ones."""
        if not batch.num_rows:
            return []
        own = self._aggregates
        times = own.shape.times(batch)
        if not self._is_endless and int(times[-1]) > INT64_MAX - self._gap:
            raise TimeError(
                f"a session of the time {times[-1]} ends out of the range of the clock; found a gap of {self._gap}"
            )
        codes = own.keys.encode(batch)
        order = order_of(codes)
        at = np.arange(len(times)) if order is None else order
        in_turn, keys = times[at], codes[at]
        begins = np.ones(len(at), np.bool_)
        begins[1:] = keys[1:] != keys[:-1]
        if not self._is_endless:
            begins[1:] |= np.diff(in_turn) > self._gap
        places = np.empty(len(at), np.int64)
        places[at] = in_turn[np.maximum.accumulate(np.where(begins, np.arange(len(at)), 0))]
        fresh = own.slices(batch, order, places, codes)
        self._sessions.add(fresh)
        return []

    def advance(self, watermark: int) -> Batches:
        """The sessions that the watermark has passed."""
        self._watermark = watermark
        if self._is_endless and watermark < FOREVER:
            return []
        done = self._sessions.take_over(watermark)
        if not len(done):
            return []
        starts, ends = done.words[PLACE], done.words[LAST_TIME] + (0 if self._is_endless else self._gap)
        order = np.lexsort((done.words[FIRST_ROW], starts, ends))
        order = order[ends[order] >= self._horizon]
        found = [self._aggregates.batch(done.words, starts, ends, done.states, order)] if len(order) else []
        keys = self._aggregates.keys
        if keys.are_many:
            used = self._sessions.keys()
            if keys.may_forget(len(used)):
                self._sessions.renumber(keys.keep(used))
        return found

    def next_deadline(self) -> int | None:
        """When the first session is over: a row at the very end would still belong to it."""
        if self._is_endless:
            return FOREVER if len(self._sessions) else None
        first = self._sessions.first_end()
        return None if first is None else first + 1

    def passed(self, watermark: int) -> int:
        """Without a gap nothing has come out before all rows have come."""
        return INT64_MIN if self._is_endless and watermark < FOREVER else super().passed(watermark)

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Sessions that end before it do not come out; one that ends later may have begun at any time."""
        self._horizon = max(self._horizon, horizon)
        return super().skip(horizon)

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """No two sessions of a key end at once."""
        by = self._aggregates.keys.columns
        found = super().derive(inputs)
        return replace(found, key=by, order=found.order if by else Order.STRICT)

    def snapshot(self) -> State:
        """The sessions that have not come out."""
        core: dict[str, Any] = {"rows": self._aggregates.rows, "watermark": self._watermark}
        return together({"keys": self._aggregates.keys.snapshot(), "sessions": self._sessions.snapshot()}, core)

    def restore(self, state: State) -> None:
        """Go on with the same sessions."""
        own, self._watermark = self._aggregates, state.core["watermark"]
        own.rows = state.core["rows"]
        own.keys.restore(state.part("keys"))
        is_open = self._is_endless and self._watermark is not None and self._watermark < FOREVER
        self._sessions.restore(state.part("sessions"), None if is_open else self._watermark)

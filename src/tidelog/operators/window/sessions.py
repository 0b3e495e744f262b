"""Aggregates of sessions: rows of a key that follow one another closely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import TimeError
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import Batches, Needs, Operator, Shape
from tidelog.operators.properties import Order, Properties
from tidelog.operators.state import State, together
from tidelog.operators.window.aggregating import Aggregates, order_of
from tidelog.operators.window.slice_log import SliceLog
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
        self._log = SliceLog(self._aggregates.folds)
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
        self._watermark = watermark
        is_over = self._over(self._sessions, watermark)
        if not is_over.any():
            return []
        done = self._sessions.take(is_over)
        starts, ends = done.words[PLACE], done.words[LAST_TIME] + self._gap
        order = np.lexsort((done.words[FIRST_ROW], starts, ends))
        order = order[ends[order] >= self._horizon]
        self._sessions = self._sessions.take(~is_over)
        found = [self._aggregates.batch(done.words, starts, ends, done.states, order)] if len(order) else []
        keys = self._aggregates.keys
        if keys.are_many:
            used = np.unique(self._sessions.words[KEY])
            if keys.may_forget(len(used)):
                self._sessions = self._sessions.renumbered(keys.keep(used))
        return found

    def _over(self, sessions: Slices, watermark: int) -> npt.NDArray[np.bool_]:
        """Which ones a watermark has passed: a row at the very end would still belong to one."""
        if watermark > INT64_MAX:
            return np.ones(len(sessions), np.bool_)
        is_over: npt.NDArray[np.bool_] = sessions.words[LAST_TIME] + self._gap < watermark
        return is_over

    def next_deadline(self) -> int | None:
        """When the first session is over."""
        if not len(self._sessions):
            return None
        return int(self._sessions.words[LAST_TIME].min()) + self._gap + 1

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
        return together(
            {"keys": self._aggregates.keys.snapshot(), "sessions": self._log.snapshot([self._sessions])}, core
        )

    def restore(self, state: State) -> None:
        """Go on with the same sessions."""
        own, self._watermark = self._aggregates, state.core["watermark"]
        own.rows = state.core["rows"]
        own.keys.restore(state.part("keys"))
        kept = self._log.restore(state.part("sessions"))
        self._sessions = kept if self._watermark is None else kept.take(~self._over(kept, self._watermark))

"""Rows of an input put into the order of time, for algorithms that want it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelog.engine.online.merging.sources import QuerySource, Source
from tidelog.model.arrays import boolean_column
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.arrivals import late_rows
from tidelog.operators.base import Shape
from tidelog.operators.merge.columns import is_elements
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.state import State, together
from tidelog.operators.waiting import Waiting


class InOrder(Source):
    """The rows of another source in order: each waits until no row before it can come any more.

    That is told by the newest row less the delay, rows farther behind being dropped; of queries, by their watermark.
    """

    def __init__(self, source: Source, shape: Shape, delay: int | None) -> None:
        self._source = source
        self._shape = shape
        self._delay = delay
        self._waiting = Waiting(shape)
        self._newest: int | None = None
        self._late = 0
        self._has_ended = False
        self.inputs = source.inputs

    def take(self) -> pa.RecordBatch | None:
        """The rows that others let go, which may be none."""
        if self._has_ended:
            raise EOFError
        try:
            rows = self._source.take()
        except EOFError:
            self._has_ended = True
            raise
        if rows is None:
            return None
        if rows.num_rows:
            self._add(rows)
        mark = self.stable
        let_go = None if mark is None else self._waiting.take(mark)
        return self._shape.empty() if let_go is None else let_go

    def _add(self, rows: pa.RecordBatch) -> None:
        if self._delay is not None:
            times = self._shape.times(rows)
            late = late_rows(times, self._newest, self._delay)
            newest = int(times.max())
            self._newest = newest if self._newest is None else max(newest, self._newest)
            if late is not None and late.any():
                self._late += int(late.sum())
                rows = rows.filter(boolean_column(~late))
        self._waiting.add(rows)

    @property
    def waits(self) -> int | None:
        """The time of the first row that waits."""
        return self._waiting.first

    @property
    def has_ended(self) -> bool:
        """Whether nothing comes any more."""
        return self._has_ended

    def rest(self, before: int) -> pa.RecordBatch | None:
        """The rows before a time that wait."""
        return self._waiting.take(before)

    def take_late(self) -> int:
        """How many rows were dropped since the last call."""
        late, self._late = self._late + self._source.take_late(), 0
        return late

    @property
    def stable(self) -> int | None:
        """The time before which no row is left."""
        if self._delay is None:
            return self._source.stable
        return None if self._newest is None else max(self._newest - self._delay, INT64_MIN)

    @property
    def is_endless(self) -> bool:
        """As the source."""
        return self._source.is_endless

    def skip(self, horizon: int) -> None:
        """Nor are they read."""
        self._source.skip(horizon)

    @property
    def about(self) -> dict[str, Any]:
        """What the source is."""
        return self._source.about

    def snapshot(self) -> tuple[Any, State]:
        """How far the source is, and what waits; late rows are taken before."""
        position, state = self._source.snapshot()
        return position, together({"source": state, "waiting": self._waiting.snapshot()}, {"newest": self._newest})

    def restore(self, position: Any, state: State) -> None:
        """Go on from there."""
        self._source.restore(position, state.part("source"))
        self._waiting.restore(state.part("waiting"))
        self._newest = state.core["newest"]

    def close(self) -> None:
        """With the source."""
        self._source.close()


def in_order(source: Source, operator: MergeOperator, shape: Shape, delay: int | None) -> Source:
    """A source as a merge needs it: in order, where it goes by that and something tells what is still to come."""
    if not operator.algorithm.is_ordered or is_elements(shape.schema):
        return source
    if delay is None and not (isinstance(source, QuerySource) and not source.is_ordered):
        return source
    return InOrder(source, shape, delay)

"""Joins of two streams by windows: each row that arrives with the rows in the other stream's window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog import threads as shared
from tidelog.expr import predicate
from tidelog.model.errors import InputError, SchemaError, TimeError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.backlog import Backlog
from tidelog.operators.base import Batches, Ints, Needs, Operator, Shape, count_before
from tidelog.operators.join.pairing import Pairing
from tidelog.operators.join.pairs import LEFT, RIGHT, Arriving, Path
from tidelog.operators.join.partners import JoinWindow, TimeWindow
from tidelog.operators.keys import check_keys
from tidelog.operators.state import State, together


class WindowJoin(Operator):
    """Pairs of rows of two streams, one of which was in the window of its stream when the other one arrived.

    A pair comes out once, at the later of its times; pairs in the order of the later rows, then of the earlier ones.
    They have to have equal keys (``by``), and to satisfy a condition (``where``), of the columns that come out.

    Where a condition bounds how far numbers of both rows may be apart, partners are found by value; other conditions
    are tried on all pairs, by several threads: comparisons of arithmetic by a kernel, all else as expressions.
    """

    most_rows = 1 << 12

    def __init__(
        self,
        left: Shape,
        right: Shape,
        windows: tuple[JoinWindow, JoinWindow],
        by: Mapping[str, str] | None = None,
        where: str | None = None,
        *,
        literal: bool = False,
        suffix: str = "_right",
        time: str = "time",
        threads: int | None = None,
    ) -> None:
        """``windows`` are those over the left and the right stream.

        ``by`` are columns of the right stream by those of the left one that they have to equal.

        ``literal`` takes no partners from a stream before its first window is complete. Columns of the right stream
        whose names the left one has get a ``suffix``; ``_seq`` does not come out. ``time`` is the later time.
        ``threads`` is how many tiles of pairs are looked at at once; by default as many as there are shared threads.
        """
        if threads is not None and threads < 1:
            raise InputError(f"found {threads} threads for a join; expected at least 1")
        self._threads = threads or shared.THREADS
        self._windows, self._literal = windows, literal
        self._by = dict(by or {})
        check_keys(left, right, self._by)
        columns: list[list[str]] = []
        fields: list[pa.Field] = []
        for shape in (left, right):
            names = [name for name in shape.schema.names if name != SEQUENCE_COLUMN]
            columns.append(names)
            taken = {field.name for field in fields}
            fields += [shape.schema.field(name).with_name(name + suffix * (name in taken)) for name in names]
        fields.append(pa.field(time, left.time_type, nullable=False))
        names = [field.name for field in fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"several columns of a join are called {', '.join(map(repr, twice))}; choose other names")
        is_local = _by_time(windows) and not literal  # else where a stream begins decides, or how many rows there are
        keys_of = (tuple(self._by), tuple(self._by.values())) if self._by and is_local else None
        reach = max(each.size + each.slide for each in windows) if is_local else None
        super().__init__([left, right], Shape(pa.schema(fields), time), Needs(True, keys_of, reach, 0))
        condition = None if where is None else predicate(where, self.output.schema)
        self._rows = (Backlog(left), Backlog(right))
        self._pairing = Pairing(self.output.schema, self._rows, columns, self._by, condition, left)
        self._dropped = [0, 0]
        """How many rows of each input are gone."""
        self._done = [0, 0]
        """How many have arrived."""
        self._first_times: list[int | None] = [None, None]

    def use_threads(self, most: int) -> None:
        """For tiles of pairs."""
        self._threads = most

    @property
    def path(self) -> Path:
        """Where partners are looked for."""
        return self._pairing.path

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Let rows wait for the watermark."""
        if batch.num_rows:
            times = self.inputs[port].times(batch)
            reach = max(each.size + each.slide if isinstance(each, TimeWindow) else 0 for each in self._windows)
            if int(times[0]) < INT64_MIN + reach or int(times[-1]) > INT64_MAX - reach:
                raise TimeError(
                    f"windows around the times {times[0]} to {times[-1]} reach out of the range of the clock"
                )
            if self._first_times[port] is None:
                self._first_times[port] = int(times[0])
            self._add(port, batch)
        return []

    def _add(self, port: int, batch: pa.RecordBatch) -> None:
        self._rows[port].append(batch)
        self._pairing.append(port, batch)

    def advance(self, watermark: int) -> Batches:
        """The pairs of rows that arrive before the watermark."""
        times = [log.times for log in self._rows]
        ends = [count_before(own, watermark) for own in times]
        begins = [done - dropped for done, dropped in zip(self._done, self._dropped, strict=True)]
        if begins == ends:
            self._forget(watermark)
            return []
        parts = []
        for port in (LEFT, RIGHT):
            fresh = times[port][begins[port] : ends[port]]
            others = times[1 - port][: ends[1 - port]]
            side: Any = "left" if port == LEFT else "right"  # of one time the left rows are first
            before = np.searchsorted(others, fresh, side=side) + self._dropped[1 - port]
            rows = np.arange(begins[port], ends[port])
            parts.append((fresh, np.full(len(rows), port), rows, *self._ranges(port, fresh, before, others)))
        at, ports, rows, firsts, lasts = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((rows, ports, at))
        arriving = Arriving(ports[order], rows[order], firsts[order], lasts[order])
        found = list(self._in_order(self._pairing.jobs(arriving, self._threads)))
        self._done = [dropped + end for dropped, end in zip(self._dropped, ends, strict=True)]
        self._forget(watermark)
        return [batch for batches in found for batch in batches]

    def _in_order(self, jobs: Iterator[Any]) -> Iterator[Batches]:
        if self._threads == 1:
            return (job() for job in jobs)
        return shared.in_order(jobs, self._threads - 1)

    def _ranges(self, port: int, fresh: Ints, before: Ints, others: Ints) -> tuple[Ints, Ints]:
        """For arriving rows of an input the places of their possible partners."""
        other = 1 - port
        window, base = self._windows[other], self._dropped[other]
        firsts, lasts = window.ranges(fresh, before, others, base)
        if self._literal:
            first_time = self._first_times[other]
            if first_time is not None:
                lasts = np.where(window.is_complete(fresh, before, first_time), lasts, firsts)
        return firsts - base, np.maximum(lasts, firsts) - base

    def _forget(self, watermark: int) -> None:
        """Drop rows that are in no window any more."""
        for port in (LEFT, RIGHT):
            mark = min(watermark, INT64_MAX - self._windows[port].size - self._windows[port].slide)
            base = self._dropped[port]
            first = self._windows[port].needed_from(mark, self._done[port], self._rows[port].times, base)
            gone = min(first, self._done[port]) - base
            if gone > 0:
                self._rows[port].drop(gone)
                self._pairing.drop(port, gone)
                self._dropped[port] += gone

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Rows may be partners of later ones as long as they are in the window over their stream."""
        if self.needs.behind is None:
            return INT64_MIN, INT64_MIN
        left, right = (max(horizon - each.size - each.slide, INT64_MIN) for each in self._windows)
        return left, right

    def next_deadline(self) -> int | None:
        """When the first row that waits arrives."""
        firsts = []
        for port in (LEFT, RIGHT):
            waiting = self._rows[port].times[self._done[port] - self._dropped[port] :]
            if len(waiting):
                firsts.append(int(waiting[0]) + 1)
        return min(firsts, default=None)

    def snapshot(self) -> State:
        """The rows of both windows."""
        core = {"dropped": list(self._dropped), "done": list(self._done), "first": list(self._first_times)}
        return together({"left": self._rows[LEFT].snapshot(), "right": self._rows[RIGHT].snapshot()}, core)

    def restore(self, state: State) -> None:
        """Have the same rows."""
        core = state.core
        self._dropped, self._done = list(core["dropped"]), list(core["done"])
        self._first_times = list(core["first"])
        self._rows[LEFT].restore(state.part("left"))
        self._rows[RIGHT].restore(state.part("right"))
        self._pairing.restore([done - dropped for done, dropped in zip(self._done, self._dropped, strict=True)])


def _by_time(windows: tuple[JoinWindow, JoinWindow]) -> bool:
    return all(isinstance(each, TimeWindow) for each in windows)

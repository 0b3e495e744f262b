"""Joins of two streams by windows: each row that arrives with the rows in the other stream's window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog import threads
from tidelog.expr import Predicate, predicate
from tidelog.model.arrays import integer_column
from tidelog.model.errors import SchemaError, TimeError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.backlog import Backlog
from tidelog.operators.base import Batches, Ints, Needs, Operator, Shape, count_before
from tidelog.operators.join import kernels
from tidelog.operators.join.partners import JoinWindow, TimeWindow
from tidelog.operators.keys import Keys, check_keys
from tidelog.operators.state import State, together

LEFT: Final = 0
RIGHT: Final = 1

_TILE: Final = 1 << 17
"""Pairs that are looked at together: their columns stay in the cache, and memory is bounded."""


class WindowJoin(Operator):
    """Pairs of rows of two streams, one of which was in the window of its stream when the other one arrived.

    A pair comes out once, at the later of its times; pairs in the order of the later rows, then of the earlier ones.
    They have to have equal keys (``by``), and to satisfy a condition (``where``), of the columns that come out.
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
    ) -> None:
        """``windows`` are those over the left and the right stream.

        ``by`` are columns of the right stream by those of the left one that they have to equal.

        ``literal`` takes no partners from a stream before its first window is complete. Columns of the right stream
        whose names the left one has get a ``suffix``; ``_seq`` does not come out. ``time`` is the later time.
        """
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
        self._columns = columns
        keys_of = (tuple(self._by), tuple(self._by.values())) if self._by and _by_time(windows) else None
        reach = max(each.size + each.slide for each in windows) if _by_time(windows) else None
        super().__init__([left, right], Shape(pa.schema(fields), time), Needs(True, keys_of, reach, 0))
        self._predicate = None if where is None else predicate(where, self.output.schema)
        self._rows = (Backlog(left), Backlog(right))
        self._dropped = [0, 0]
        """How many rows of each input are gone."""
        self._done = [0, 0]
        """How many have arrived."""
        self._first_times: list[int | None] = [None, None]

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
            self._rows[port].append(batch)
        return []

    def advance(self, watermark: int) -> Batches:
        """The pairs of rows that arrive before the watermark."""
        rows = [log.rows for log in self._rows]
        times = [shape.times(batch) for shape, batch in zip(self.inputs, rows, strict=True)]
        ends = [count_before(own, watermark) for own in times]
        begins = [done - dropped for done, dropped in zip(self._done, self._dropped, strict=True)]
        if all(begin == end for begin, end in zip(begins, ends, strict=True)):
            return []
        arrivals = []
        for port in (LEFT, RIGHT):
            fresh = times[port][begins[port] : ends[port]]
            side: Any = "left" if port == LEFT else "right"  # of one time the left rows are first
            before = np.searchsorted(times[1 - port][: ends[1 - port]], fresh, side=side) + self._dropped[1 - port]
            arrivals.append((fresh, before))
        pairs = _Pairs(self, [batch.slice(0, end) for batch, end in zip(rows, ends, strict=True)], begins)
        ranges = [self._ranges(port, *arrivals[port], times[1 - port][: ends[1 - port]]) for port in (LEFT, RIGHT)]
        found = [batch for batch in threads.in_order(pairs.jobs(ranges), threads.THREADS) if batch is not None]
        self._done = [dropped + end for dropped, end in zip(self._dropped, ends, strict=True)]
        self._forget(watermark, times)
        return found

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

    def _forget(self, watermark: int, times: list[Ints]) -> None:
        """Drop rows that are in no window any more."""
        for port in (LEFT, RIGHT):
            mark = min(watermark, INT64_MAX - self._windows[port].size - self._windows[port].slide)
            base = self._dropped[port]
            first = self._windows[port].needed_from(mark, self._done[port], times[port], base)
            gone = min(first, self._done[port]) - base
            if gone > 0:
                self._rows[port].drop(gone)
                self._dropped[port] += gone

    def next_deadline(self) -> int | None:
        """When the first row that waits arrives."""
        firsts = []
        for port in (LEFT, RIGHT):
            waiting = self._rows[port].rows.slice(self._done[port] - self._dropped[port])
            if waiting.num_rows:
                firsts.append(int(self.inputs[port].times(waiting)[0]) + 1)
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


class _Pairs:
    """Finds the pairs of one advance: candidates by ranges and keys, tile by tile, and of these what is wanted."""

    def __init__(self, join: WindowJoin, rows: list[pa.RecordBatch], begins: list[int]) -> None:
        self._output = join.output.schema
        self._predicate: Predicate | None = join._predicate
        self._rows = [batch.select(names) for batch, names in zip(rows, join._columns, strict=True)]
        self._begins = begins
        self._by = join._by
        self._shape = join.inputs[LEFT]
        self._codes: list[Ints] = []
        self._order: list[Ints] = []
        self._times = [shape.times(batch) for shape, batch in zip(join.inputs, rows, strict=True)]
        if self._by:
            self._number()

    def _number(self) -> None:
        """Number keys; rows with nulls match nothing. Rows of each input are put into the order of key and rank."""
        keys = Keys(self._shape, list(self._by))
        sides = [
            self._rows[LEFT].select(list(self._by)),
            self._rows[RIGHT].select(list(self._by.values())).rename_columns(list(self._by)),
        ]
        for place, batch in enumerate(sides):
            codes = keys.encode(batch)
            for column in batch.columns:
                if column.null_count:
                    codes = np.where(np.asarray(column.is_valid()), codes, -1 - place)
            self._codes.append(codes)
            self._order.append(np.argsort(codes, kind="stable"))

    def jobs(self, ranges: list[tuple[Ints, Ints]]) -> Iterator[Any]:
        """For each tile a job that finds its pairs, in the order in which they come out."""
        firsts, lasts, ports, rows = self._arrivals(ranges)
        counts = lasts - firsts
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        for first in range(0, total, _TILE):
            yield partial(self._tile, first, min(first + _TILE, total), firsts, ends, counts, ports, rows)

    def _arrivals(self, ranges: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints, Ints, Ints]:
        """All arriving rows in their order: ranges of candidates, inputs, and places in these."""
        parts = []
        for port, (firsts, lasts) in enumerate(ranges):
            own = np.arange(self._begins[port], self._begins[port] + len(firsts))
            if self._by:
                firsts, lasts = self._within_key(port, own, firsts, lasts)
            parts.append((self._times[port][own], np.full(len(own), port), own, firsts, lasts))
        at, ports, rows, firsts, lasts = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((rows, ports, at))
        return firsts[order], lasts[order], ports[order], rows[order]

    def _within_key(self, port: int, own: Ints, firsts: Ints, lasts: Ints) -> tuple[Ints, Ints]:
        """Ranges of ranks as ranges in the order of key and rank."""
        other = 1 - port
        order, codes = self._order[other], self._codes[port][own]
        width = len(order) + 1
        places = self._codes[other][order] * width + order
        return np.searchsorted(places, codes * width + firsts), np.searchsorted(places, codes * width + lasts)

    def _tile(
        self, begin: int, end: int, firsts: Ints, ends: Ints, counts: Ints, ports: Ints, rows: Ints
    ) -> pa.RecordBatch | None:
        """The pairs among candidates ``begin`` to ``end``."""
        arriving, partners = np.empty(end - begin, np.int64), np.empty(end - begin, np.int64)
        kernels.expand_ranges(begin, end, firsts, ends, counts, arriving, partners)
        sides, own = ports[arriving], rows[arriving]
        if self._by:
            is_left = sides == LEFT
            partners = np.where(
                is_left,
                self._order[RIGHT][np.where(is_left, partners, 0)] if len(self._order[RIGHT]) else 0,
                self._order[LEFT][np.where(is_left, 0, partners)] if len(self._order[LEFT]) else 0,
            )
        left, right = np.where(sides == LEFT, own, partners), np.where(sides == LEFT, partners, own)
        if self._predicate is not None:
            kept = np.flatnonzero(self._predicate.mask(self._batch(left, right, sides, set(self._predicate.columns))))
            left, right, sides = left[kept], right[kept], sides[kept]
        return self._batch(left, right, sides) if len(left) else None

    def _batch(self, left: Ints, right: Ints, sides: Ints, wanted: set[str] | None = None) -> pa.RecordBatch:
        """The columns of pairs; only some of them if these are told."""
        fields, arrays = [], []
        names = iter(self._output)
        for batch, places in ((self._rows[LEFT], left), (self._rows[RIGHT], right)):
            chosen = integer_column(places)
            for column in batch.columns:
                field = next(names)
                if wanted is None or field.name in wanted:
                    fields.append(field)
                    arrays.append(column.take(chosen))
        field = next(names)
        if wanted is None or field.name in wanted:
            times = np.where(sides == LEFT, self._times[LEFT][left], self._times[RIGHT][right])
            fields.append(field)
            column = integer_column(times)
            arrays.append(column if field.type == pa.int64() else column.view(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _by_time(windows: tuple[JoinWindow, JoinWindow]) -> bool:
    return all(isinstance(each, TimeWindow) for each in windows)

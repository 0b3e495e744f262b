"""AS-OF joins: to each row of one input the row of another one that is nearest in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog import threads
from tidelog.model.arrays import boolean_column, distinct
from tidelog.model.errors import SchemaError, TimeError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.backlog import Backlog
from tidelog.operators.base import FOREVER, Batches, Ints, Needs, Operator, Shape, count_before
from tidelog.operators.columns.series import Series
from tidelog.operators.join import kernels
from tidelog.operators.keys import Keys, check_keys
from tidelog.operators.properties import Properties
from tidelog.operators.state import State, together

LEFT: Final = 0
RIGHT: Final = 1

_FEW: Final = 1024
"""Rows that nobody needs any more and that are kept, rather than copying others."""

_TOGETHER: Final = 1 << 16
"""Rows that are put beside their partners at once."""
_DIVIDED: Final = 1 << 15
"""Rows that one of several threads puts beside their partners."""

_ANY_DISTANCE: Final = 2**64 - 1

Mask = npt.NDArray[np.bool_]


class Direction(Enum):
    """Where the nearest row is looked for."""

    BACKWARD = "backward"
    """Before a row, or at its time."""
    FORWARD = "forward"
    """Behind a row, or at its time."""
    NEAREST = "nearest"
    """Either, whichever is nearer; before it if both are as near."""


class AsOfJoin(Operator):
    """Each row of the left input beside the nearest row of the right one with the same key.

    Of several right rows of one time the last one is taken backward, and the first one forward. Null matches nothing.
    Left rows without a partner come out with nulls if ``outer``, else not at all. Rows come out in the order of the
    left ones, so one that still waits for a partner holds back those behind it.
    """

    def __init__(
        self,
        left: Shape,
        right: Shape,
        by: Mapping[str, str] | None = None,
        direction: Direction = Direction.BACKWARD,
        *,
        strict: bool = False,
        tolerance: int | None = None,
        outer: bool = False,
        suffix: str = "_right",
    ) -> None:
        """``by`` are columns of the right input by those of the left one that they have to equal.

        ``strict`` excludes rows of the very same time. ``tolerance`` is the greatest distance in ticks. Columns of the
        right input whose names the left one has get a ``suffix``; its ``_seq`` does not come out.
        """
        if tolerance is not None and not 0 <= tolerance <= INT64_MAX:
            raise TimeError(f"found a tolerance of {tolerance}; expected at least zero ticks")
        self._threads = threads.THREADS
        self._by = dict(by or {})
        check_keys(left, right, self._by)
        self._direction, self._strict, self._tolerance, self._outer = direction, strict, tolerance, outer
        self._right_columns = [name for name in right.schema.names if name != SEQUENCE_COLUMN]
        fields = list(left.schema)
        for name in self._right_columns:
            field = right.schema.field(name)
            field = field.with_name(name + suffix if name in left.schema.names else name)
            fields.append(field.with_nullable(True) if outer else field)
        names = [field.name for field in fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"several columns of a join are called {', '.join(map(repr, twice))}; choose a suffix")
        keys = (tuple(self._by), tuple(self._by.values())) if self._by else None
        behind = 0 if direction is Direction.FORWARD else tolerance
        ahead = 0 if direction is Direction.BACKWARD else tolerance
        super().__init__([left, right], Shape(pa.schema(fields), left.time), Needs(True, keys, behind, ahead))
        self._rows = (Backlog(left), Backlog(right))
        self._keys = Keys(left, list(self._by))
        self._codes = (Series(np.int64), Series(np.int64))
        """The numbers of the keys of all rows, -1 for those with nulls; without keys there are none."""

    def use_threads(self, most: int) -> None:
        """For keys that are looked up, and rows that are put beside partners with the same keys."""
        self._threads = most

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Let rows wait for the watermark."""
        self._rows[port].append(batch)
        self._encode(port, batch)
        return []

    def _encode(self, port: int, batch: pa.RecordBatch) -> None:
        if not self._by or not batch.num_rows:
            return
        names = self._by.values() if port == RIGHT else self._by
        columns = batch.select(list(names)).rename_columns(list(self._by))
        self._codes[port].append(self._keys.encode_present(columns, self._threads))

    def advance(self, watermark: int) -> Batches:
        """The left rows before the watermark, as far as their partners are known."""
        times, others = (log.times for log in self._rows)
        count = count_before(times, watermark)
        if not count:
            self._forget(watermark)
            return []
        times, others = times[:count], others[: count_before(others, watermark)]
        found, waits = self._partners(times, others, watermark)
        done = int(np.argmax(waits)) if waits is not None and waits.any() else count
        # Without keys partners follow one another, and memory is all that it takes: that of other threads costs more.
        is_divided = self._threads > 1 and self._by
        jobs = self._jobs(found[:done], _DIVIDED if is_divided else _TOGETHER)
        batches = list(threads.in_order(jobs, self._threads)) if is_divided else [job() for job in jobs]
        self._drop(LEFT, done)
        self._forget(watermark)
        return [batch for batch in batches if batch.num_rows]

    def _jobs(self, found: Ints, most: int) -> Iterator[Callable[[], pa.RecordBatch]]:
        """Jobs that put the first left rows beside their partners, so many rows each at the most."""
        first = 0
        for rows in self._rows[LEFT].slices(0, len(found)):
            for begin in range(0, rows.num_rows, most):
                part = rows.slice(begin, most)
                yield partial(self._joined, part, found[first : first + part.num_rows])
                first += part.num_rows

    def _drop(self, port: int, count: int) -> None:
        self._rows[port].drop(count)
        if self._by:
            self._codes[port].drop(count)

    def _partners(self, times: Ints, others: Ints, watermark: int) -> tuple[Ints, Mask | None]:
        """For each of the first left rows its partner or -1, and whether a nearer one may come: None for never."""
        if self._direction is not Direction.FORWARD:
            before = self._near(times, others, self._found(kernels.find_before, times, others))
            if self._direction is Direction.BACKWARD:
                return before, None
        else:
            before = np.full(len(times), -1, np.int64)
        waits = np.zeros(len(times), np.bool_)
        behind = self._found(kernels.find_behind, times, others)
        is_open = behind < 0
        behind = self._near(times, others, behind)
        if watermark < FOREVER and is_open.any():
            reach = np.full(len(times), _ANY_DISTANCE if self._tolerance is None else self._tolerance, np.uint64)
            has_other = before >= 0
            # One as far away as that before it would not be taken.
            distance = np.maximum(_distances(times[has_other], others[before[has_other]]), 1) - np.uint64(1)
            reach[has_other] = np.minimum(reach[has_other], distance)
            waits = is_open & (reach >= _distances(times, np.int64(max(watermark, INT64_MIN))))
            if self._by:
                waits &= self._codes[LEFT].line[: len(times)] >= 0
        if self._direction is Direction.FORWARD:
            return behind, waits
        both = (before >= 0) & (behind >= 0)
        is_nearer = np.zeros(len(times), np.bool_)
        is_nearer[both] = _distances(times[both], others[behind[both]]) < _distances(times[both], others[before[both]])
        return np.where((before < 0) | is_nearer, behind, before), waits

    def _found(self, kernel: Any, times: Ints, others: Ints) -> Ints:
        """The nearest of the others by a kernel that finds those before rows, or behind them."""
        found = np.empty(len(times), np.int64)
        if self._by:
            keys, other_keys = (codes.line for codes in self._codes)
            newest = np.full(max(len(self._keys), 1), -1)
            kernel(times, keys[: len(times)], others, other_keys[: len(others)], int(self._strict), newest, found)
        elif kernel is kernels.find_before:
            kernels.count_others(times, others, int(not self._strict), -1, found)
        else:
            kernels.count_others(times, others, int(self._strict), 0, found)
            found[found == len(others)] = -1
        return found

    def _near(self, times: Ints, others: Ints, found: Ints) -> Ints:
        """Partners that are near enough."""
        if self._tolerance is None or not len(others):
            return found
        is_near = _distances(times, others[found]) <= np.uint64(self._tolerance)
        return np.where(is_near, found, -1)

    def _joined(self, left: pa.RecordBatch, found: Ints) -> pa.RecordBatch:
        if not self._outer and len(found) and int(found.min()) < 0:
            has_partner = found >= 0
            left, found = left.filter(boolean_column(has_partner)), found[has_partner]
        partners = self._rows[RIGHT].take(found, self._right_columns)
        return pa.RecordBatch.from_arrays([*left.columns, *partners], schema=self.output.schema)

    def _forget(self, watermark: int) -> None:
        """Drop right rows that no left row which is still to come, or waits, can have for a partner."""
        first = self._first_left(watermark)
        times = self._rows[RIGHT].times
        old = count_before(times, first)
        if self._direction is Direction.FORWARD:
            self._drop(RIGHT, old)
        else:
            if self._tolerance is not None and first < FOREVER:
                too_old = count_before(times[:old], max(first - self._tolerance, INT64_MIN))
                self._drop(RIGHT, too_old)
                old -= too_old
            if not self._by:
                self._drop(RIGHT, max(old - 1, 0))
            elif old > _FEW:
                self._keep_newest(old)
        if self._by and self._keys.are_many:
            lines = [codes.line for codes in self._codes]
            used = distinct(np.concatenate(lines))
            numbers = self._keys.keep(used[used >= 0])
            for line in lines:
                line[line >= 0] = numbers[line[line >= 0]]

    def _keep_newest(self, old: int) -> None:
        """Of the first right rows keep the last one of each key, if these are few."""
        codes = self._codes[RIGHT].line
        kept = np.empty(old, np.int64)
        size = kernels.last_of_keys(codes, old, np.full(max(len(self._keys), 1), -1), kept)
        if 2 * size <= old:
            kept = kept[:size]
            log = self._rows[RIGHT]
            columns = log.take(kept, self.inputs[RIGHT].schema.names)
            log.replace(old, pa.RecordBatch.from_arrays(columns, schema=self.inputs[RIGHT].schema))
            codes = np.concatenate([codes[kept], codes[old:]])
            self._codes[RIGHT].drop(len(self._codes[RIGHT]))
            self._codes[RIGHT].append(codes)

    def _first_left(self, watermark: int) -> int:
        """The time before which there will be no left row any more."""
        waiting = self._rows[LEFT].times
        return min(int(waiting[0]), watermark) if len(waiting) else watermark

    def next_deadline(self) -> int | None:
        """When the first left row that waits may have all its partners; that it waits is all that is known."""
        waiting = self._rows[LEFT].times
        return int(waiting[0]) + 1 if len(waiting) else None

    def passed(self, watermark: int) -> int:
        """Left rows that wait are still to come."""
        return self._first_left(watermark)

    def skip(self, horizon: int) -> tuple[int, ...]:
        """Left rows come out at their times; right ones may be partners of later rows, as far as they may be away."""
        if self._direction is Direction.FORWARD:
            return horizon, horizon
        return horizon, INT64_MIN if self._tolerance is None else max(horizon - self._tolerance, INT64_MIN)

    def derive(self, inputs: Sequence[Properties]) -> Properties:
        """Each row of the left input comes out once at the most, so its key and its order stay."""
        left, _ = inputs
        found = super().derive(inputs)
        return replace(found, key=left.key, order=max(left.order, found.order))

    def snapshot(self) -> State:
        """The rows that wait, and those that may be partners."""
        return together({"left": self._rows[LEFT].snapshot(), "right": self._rows[RIGHT].snapshot()})

    def restore(self, state: State) -> None:
        """Have the same rows."""
        self._rows[LEFT].restore(state.part("left"))
        self._rows[RIGHT].restore(state.part("right"))
        for port, log in enumerate(self._rows):
            for rows in log.slices(0, len(log)):
                self._encode(port, rows)


def _distances(times: Ints, others: Ints | np.int64) -> npt.NDArray[np.uint64]:
    """How far times are from others, which may be 64 bits."""
    high, low = np.maximum(times, others), np.minimum(times, others)
    return high.astype(np.uint64) - low.astype(np.uint64)

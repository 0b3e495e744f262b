"""AS-OF joins: to each row of one input the row of another one that is nearest in time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.arrays import boolean_column, integer_column
from tidelog.model.errors import SchemaError, TimeError
from tidelog.model.schema import SEQUENCE_COLUMN
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.backlog import Backlog
from tidelog.operators.base import FOREVER, Batches, Ints, Needs, Operator, Shape, count_before
from tidelog.operators.join import kernels
from tidelog.operators.keys import Keys, check_keys
from tidelog.operators.state import State, together

LEFT: Final = 0
RIGHT: Final = 1

_FEW: Final = 1024
"""Rows that nobody needs any more and that are kept, rather than copying others."""

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

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """Let rows wait for the watermark."""
        self._rows[port].append(batch)
        return []

    def advance(self, watermark: int) -> Batches:
        """The left rows before the watermark, as far as their partners are known."""
        left, right = (log.rows for log in self._rows)
        times = self.inputs[LEFT].times(left)
        count = count_before(times, watermark)
        if not count:
            self._forget(watermark, right)
            return []
        left, times = left.slice(0, count), times[:count]
        known = count_before(self.inputs[RIGHT].times(right), watermark)
        partners = right.slice(0, known)
        found, waits = self._partners(left, times, partners, watermark)
        done = int(np.argmax(waits)) if waits.any() else count
        batch = self._joined(left.slice(0, done), partners, found[:done])
        self._rows[LEFT].drop(done)
        self._forget(watermark, right)
        return [batch] if batch.num_rows else []

    def _partners(self, left: pa.RecordBatch, times: Ints, right: pa.RecordBatch, watermark: int) -> tuple[Ints, Mask]:
        """For each left row its partner or -1, and whether a nearer one may still come."""
        others = self.inputs[RIGHT].times(right)
        keys, other_keys, count = self._codes(left, right)
        strict = int(self._strict)
        waits = np.zeros(len(times), np.bool_)
        before = behind = np.full(len(times), -1, np.int64)
        if self._direction is not Direction.FORWARD:
            before = np.empty(len(times), np.int64)
            kernels.find_before(times, keys, others, other_keys, strict, np.full(count, -1), before)
            before = self._near(times, others, before)
        if self._direction is Direction.BACKWARD:
            return before, waits
        behind = np.empty(len(times), np.int64)
        kernels.find_behind(times, keys, others, other_keys, strict, np.full(count, -1), behind)
        is_open = behind < 0
        behind = self._near(times, others, behind)
        if watermark < FOREVER and is_open.any():
            reach = np.full(len(times), _ANY_DISTANCE if self._tolerance is None else self._tolerance, np.uint64)
            has_other = before >= 0
            # One as far away as that before it would not be taken.
            distance = np.maximum(_distances(times[has_other], others[before[has_other]]), 1) - np.uint64(1)
            reach[has_other] = np.minimum(reach[has_other], distance)
            waits = is_open & (keys >= 0) & (reach >= _distances(times, np.int64(max(watermark, INT64_MIN))))
        if self._direction is Direction.FORWARD:
            return behind, waits
        both = (before >= 0) & (behind >= 0)
        is_nearer = np.zeros(len(times), np.bool_)
        is_nearer[both] = _distances(times[both], others[behind[both]]) < _distances(times[both], others[before[both]])
        return np.where((before < 0) | is_nearer, behind, before), waits

    def _near(self, times: Ints, others: Ints, found: Ints) -> Ints:
        """Partners that are near enough."""
        if self._tolerance is None or not len(others):
            return found
        is_near = _distances(times, others[found]) <= np.uint64(self._tolerance)
        return np.where(is_near, found, -1)

    def _codes(self, left: pa.RecordBatch, right: pa.RecordBatch) -> tuple[Ints, Ints, int]:
        """Numbers of the keys of all rows, -1 for those with nulls; and how many there are."""
        if not self._by:
            return np.zeros(left.num_rows, np.int64), np.zeros(right.num_rows, np.int64), 1
        shape = self.inputs[LEFT]
        keys = Keys(shape, list(self._by))
        renamed = right.select(list(self._by.values())).rename_columns(list(self._by))
        sides = []
        for batch in (left.select(list(self._by)), renamed):
            codes = keys.encode(batch)
            for column in batch.columns:
                if column.null_count:
                    codes = np.where(np.asarray(column.is_valid()), codes, -1)
            sides.append(codes)
        return sides[0], sides[1], max(len(keys), 1)

    def _joined(self, left: pa.RecordBatch, right: pa.RecordBatch, found: Ints) -> pa.RecordBatch:
        has_partner = found >= 0
        every = bool(has_partner.all())
        if not every and not self._outer:
            left, found = left.filter(boolean_column(has_partner)), found[has_partner]
            every = True
        places = integer_column(found) if every else pa.array(found, mask=~has_partner)
        partners = right.select(self._right_columns).take(places)
        return pa.RecordBatch.from_arrays([*left.columns, *partners.columns], schema=self.output.schema)

    def _forget(self, watermark: int, right: pa.RecordBatch) -> None:
        """Drop right rows that no left row which is still to come, or waits, can have for a partner."""
        first = self._first_left(watermark)
        times = self.inputs[RIGHT].times(right)
        old = count_before(times, first)
        if self._direction is Direction.FORWARD:
            self._rows[RIGHT].drop(old)
            return
        if self._tolerance is not None and first < FOREVER:
            too_old = count_before(times[:old], max(first - self._tolerance, INT64_MIN))
            self._rows[RIGHT].drop(too_old)
            right, old = right.slice(too_old), old - too_old
        if not self._by:
            self._rows[RIGHT].drop(max(old - 1, 0))
            return
        if old <= _FEW:
            return
        _, codes, count = self._codes(self.inputs[LEFT].empty(), right.slice(0, old))
        kept = np.empty(old, np.int64)
        size = kernels.last_of_keys(codes, old, np.full(count, -1), kept)
        if 2 * size <= old:
            self._rows[RIGHT].replace(old, right.take(integer_column(kept[:size])))

    def _first_left(self, watermark: int) -> int:
        """The time before which there will be no left row any more."""
        waiting = self._rows[LEFT].rows
        if not waiting.num_rows:
            return watermark
        return min(int(self.inputs[LEFT].times(waiting)[0]), watermark)

    def next_deadline(self) -> int | None:
        """When the first left row that waits may have all its partners; that it waits is all that is known."""
        waiting = self._rows[LEFT].rows
        return int(self.inputs[LEFT].times(waiting)[0]) + 1 if waiting.num_rows else None

    def passed(self, watermark: int) -> int:
        """Left rows that wait are still to come."""
        return self._first_left(watermark)

    def snapshot(self) -> State:
        """The rows that wait, and those that may be partners."""
        return together({"left": self._rows[LEFT].snapshot(), "right": self._rows[RIGHT].snapshot()})

    def restore(self, state: State) -> None:
        """Have the same rows."""
        self._rows[LEFT].restore(state.part("left"))
        self._rows[RIGHT].restore(state.part("right"))


def _distances(times: Ints, others: Ints | np.int64) -> npt.NDArray[np.uint64]:
    """How far times are from others, which may be 64 bits."""
    high, low = np.maximum(times, others), np.minimum(times, others)
    return high.astype(np.uint64) - low.astype(np.uint64)

"""What time means while rows arrive: watermarks, rows that are late, inputs that are silent.

The watermark of an input is its newest time less its *lateness*; that of an operator is the least of those of its
inputs. A row is late if it is before the watermark that its input had when it came. Which rows are late thus depends
on the order in which the rows of an input came, and on nothing else: not on how they were cut into batches, nor on
other inputs. (Rows of one time come in the order of their numbers, which are the order of arrival.) Late rows are
counted and handed out, and never reach the operator: kept and late rows together are all rows.

An input without rows holds the others back, unless it has been closed, or has been silent for ``idle_timeout`` seconds.
When it comes back, its rows before the watermark that the operator has been given are late as well.

Operators may also go on without inputs that lag, as merges of copies do: :meth:`Operator.progress` says how far. They
do so whenever :meth:`Arrivals.settle` tells that all rows that are there have been pushed, and never go past inputs of
which some are left. So what is stored already comes out whole, however it is cut; of what comes later, it depends on
the order of arrival beside other inputs which rows are late.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.index import kernels
from tidelog.model.arrays import boolean_column
from tidelog.model.errors import InputError, SchemaError
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import FOREVER, Batches, Ints, Operator, advanced
from tidelog.operators.state import State, together
from tidelog.operators.waiting import Waiting


class Arrivals:
    """Drives an operator by rows as they arrive, in any order within the lateness of their inputs."""

    def __init__(
        self,
        operator: Operator,
        lateness: int | Sequence[int] = 0,
        *,
        idle_timeout: float | None = None,
        now: float = 0.0,
    ) -> None:
        """``lateness`` in ticks, for all inputs or for each. ``now`` is the time, in seconds of any clock."""
        ports = len(operator.inputs)
        self.operator = operator
        self._lateness = [lateness] * ports if isinstance(lateness, int) else list(lateness)
        if len(self._lateness) != ports or any(each < 0 for each in self._lateness):
            raise InputError(f"found the lateness {lateness}; expected one of at least zero for each of {ports} inputs")
        self._idle_timeout = idle_timeout
        self._newest: list[int | None] = [None] * ports
        self.heard = [now] * ports
        """When something was last heard of each input; not part of a snapshot."""
        self._is_closed = [False] * ports
        self._waiting = [Waiting(shape) for shape in operator.inputs] if operator.needs.order else []
        self.watermark: int | None = None
        """What the operator has been advanced to; None for nowhere yet."""
        self.rows = [0] * ports
        """How many rows of each input have come."""
        self.late_rows = [0] * ports
        """How many of them were late."""
        self._late: list[tuple[int, pa.RecordBatch]] = []
        self._has_more: Collection[int] | None = None
        """The inputs of which rows are there that were not pushed; None for all, as far as is known."""
        self.share = 0
        """Which one of those that share the work this is."""

    def push(self, port: int, batch: pa.RecordBatch, now: float = 0.0) -> Batches:
        """Take rows of an input, in the order in which they came, and give what comes out."""
        shape = self.operator.inputs[port]
        if not batch.schema.equals(shape.schema):
            raise SchemaError(f"input {port} has the columns {shape.schema}; found {batch.schema}")
        if self._is_closed[port]:
            raise InputError(f"input {port} is closed; rows are taken before that")
        self.heard[port] = now
        self._has_more = None
        self.rows[port] += batch.num_rows
        if not batch.num_rows:
            return self.tick(now)
        newest, times = self._newest[port], shape.times(batch)
        first = int(times[0])
        is_risen = (newest is None or first >= newest) and not kernels.falls(times)
        if not is_risen or (self.watermark is not None and first < self.watermark):
            batch = self._in_time(port, batch, times)
            times = shape.times(batch)
            if not batch.num_rows:
                return self.tick(now)
        top = int(times[-1] if is_risen else times.max())
        self._newest[port] = top if newest is None else max(newest, top)
        if not self._waiting or self._passes(port):
            return self.operator.push(port, batch) + self.tick(now)
        self._waiting[port].add(batch)
        return self.tick(now)

    def hear(self, port: int, newest: int, now: float = 0.0) -> Batches:
        """Rows of an input, up to a time, have come to others who share the work: they count for time as if here."""
        self.heard[port] = now
        self._has_more = None
        known = self._newest[port]
        self._newest[port] = newest if known is None else max(known, newest)
        return self.tick(now)

    def _passes(self, port: int) -> bool:
        """Whether rows are in order as they come: without lateness all that are out of order are late.

        Rows may wait in spite of that, if there was a lateness when the snapshot was taken.
        """
        return self._lateness[port] == 0 and self._waiting[port].first is None

    def _in_time(self, port: int, batch: pa.RecordBatch, times: Ints) -> pa.RecordBatch:
        """The rows that are not late; the others are put aside."""
        late = late_rows(times, self._newest[port], self._lateness[port])
        if self.watermark is not None and self.watermark > INT64_MIN:
            overdue = times < min(self.watermark, FOREVER - 1)
            late = overdue if late is None else late | overdue
        if late is None or not late.any():
            return batch
        self.late_rows[port] += int(late.sum())
        self._late.append((port, batch.filter(boolean_column(late))))
        return batch.filter(boolean_column(~late))

    def tick(self, now: float = 0.0) -> Batches:
        """Look at the time: give what comes out because inputs have been silent for too long."""
        if all(self._is_closed):
            return self._to(FOREVER)
        mark = self._mark(now)
        return [] if mark is None else self._to(mark)

    def _mark(self, now: float) -> int | None:
        """The watermark that inputs make, as if somebody had looked at the time whenever one became idle."""
        ports = sorted((heard, port) for port, heard in enumerate(self.heard) if not self._is_closed[port])
        found = []
        for place, (heard, _) in enumerate(ports):
            if place and (self._idle_timeout is None or now - ports[place - 1][0] < self._idle_timeout):
                break  # the one before is not idle, and holds those behind it back
            if place and heard == ports[place - 1][0]:
                continue  # it became idle together with that one
            mark = self._progress([port for _, port in ports[place:]])
            if mark is not None:
                found.append(mark)
        return max(found, default=None)

    def _progress(self, ports: Sequence[int]) -> int | None:
        """How far the operator may go by some inputs, the others being silent or closed."""
        marks: list[int | None] = [FOREVER] * len(self._newest)
        for port in ports:
            top = self._newest[port]
            marks[port] = None if top is None else max(top - self._lateness[port], INT64_MIN)
        reached = self.operator.progress(marks)
        if reached is None or not self.operator.leaves_behind:
            return reached
        for port in ports:
            mark = marks[port]
            if self._has_more is None or port in self._has_more:
                if mark is None:
                    return None
                reached = min(reached, mark)
        return reached

    def close(self, port: int, now: float = 0.0) -> Batches:
        """An input will have no rows any more; give what comes out by that."""
        self._is_closed[port] = True
        return self.tick(now)

    def settle(self, now: float = 0.0, has_more: Collection[int] = ()) -> Batches:
        """All rows that come together have come, but for some of these inputs; give what comes out by that."""
        if not self.operator.leaves_behind:
            return []
        self._has_more = has_more
        return self.tick(now)

    def finish(self) -> Batches:
        """No input will have rows any more; give the rest."""
        found: Batches = []
        for port in range(len(self._is_closed)):
            found += self.close(port)
        return found

    def _to(self, watermark: int) -> Batches:
        if self.watermark is not None and watermark <= self.watermark:
            return []
        self.watermark = watermark
        found: Batches = []
        for port, waiting in enumerate(self._waiting):
            rows = waiting.take(watermark)
            if rows is not None:
                found += self.operator.push(port, rows)
        return [*found, *advanced(self.operator, watermark)]

    def take_late(self) -> list[tuple[int, pa.RecordBatch]]:
        """The late rows since the last call, each batch with its input."""
        late, self._late = self._late, []
        return late

    def snapshot(self) -> State:
        """All that is known; take late rows before, they are not part of it."""
        core: dict[str, Any] = {"newest": list(self._newest), "closed": list(self._is_closed)}
        core |= {"watermark": self.watermark, "rows": list(self.rows), "late": list(self.late_rows)}
        waiting = {f"waiting {port}": each.snapshot() for port, each in enumerate(self._waiting)}
        return together({"operator": self.operator.snapshot(), **waiting}, core)

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        core = state.core
        self._newest, self._is_closed, self.watermark = list(core["newest"]), list(core["closed"]), core["watermark"]
        self.rows, self.late_rows = list(core["rows"]), list(core["late"])
        for port, waiting in enumerate(self._waiting):
            waiting.restore(state.part(f"waiting {port}"))
        self.operator.restore(state.part("operator"))


def late_rows(times: Ints, newest: int | None, lateness: int) -> npt.NDArray[np.bool_] | None:
    """Which rows are before the watermark that the rows before them make; None if none is."""
    if not len(times):
        return None
    tops = np.maximum.accumulate(times)
    if newest is not None:
        tops = np.maximum(tops, newest)
    if (tops == times).all():
        return None
    behind = tops.view(np.uint64) - times.view(np.uint64)  # a distance of 64 bits has no sign
    late: npt.NDArray[np.bool_] = behind > np.uint64(lateness)
    return late

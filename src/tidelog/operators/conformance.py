"""What every operator must fulfil, checked for given rows in every runtime: :mod:`tidelog.operators.base` in words.

To be run against your own operators too::

    OperatorConformance(lambda: Filter(shape, "price > 3")).check([rows], np.random.default_rng(1), lateness=5)

Runtimes are given the same rows, and have to give the same. Others than those here (on Spark, by threads) fulfil
:class:`Runtime`, and are handed over as ``runtimes``.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np
import pyarrow as pa

from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import FOREVER, Batches, Ints, Operator, Shape
from tidelog.operators.live import Live
from tidelog.operators.state import State

Make: TypeAlias = Callable[[], Operator]
"""Gives a new operator, always an equal one."""
Dice: TypeAlias = np.random.Generator
Row: TypeAlias = tuple[Any, ...]

_MOST_CUTS: Final = 8
_RESTART: Final = 0.3
"""How often an operator is replaced by its snapshot, of the times when it could be."""


@dataclass(frozen=True)
class Case:
    """An operator, and rows for it."""

    make: Make
    rows: Sequence[pa.RecordBatch]
    """Those of each input, in the order of arrival, late ones among them."""
    lateness: Sequence[int]


class Runtime(ABC):
    """A way to drive an operator."""

    name: ClassVar[str]
    keeps_order: ClassVar[bool] = True
    """Whether rows come out in the order of the operator; without it only which they are is compared."""

    @abstractmethod
    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """All that comes out for the rows of each input, given in the order of arrival, late ones among them."""

    def run_all(self, cases: Sequence[Case], dice: Dice) -> list[Batches]:
        """What comes out for each of many cases; runtimes that take long to start run them together."""
        return [self.run(case.make, case.rows, case.lateness, dice) for case in cases]


@final
class Replayed(Runtime):
    """Everything at once, in order."""

    name = "replay"

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """Push all rows that are in time, then finish."""
        operator = make()
        found: Batches = []
        for port, (shape, batch, allowed) in enumerate(zip(operator.inputs, rows, lateness, strict=True)):
            found += operator.push(port, in_order(shape, timely(shape, batch, allowed)))
        found += operator.finish()
        assert operator.passed(FOREVER) == FOREVER, "it has finished, and what stands behind it waits for more"
        return found


@final
class Cut(Runtime):
    """In order, in batches of any size, the watermark moved now and then, the operator replaced by its snapshot."""

    name = "batches"

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """Push rows batch by batch, inputs in turns."""
        operator, disk = make(), Disk()
        waiting = []
        for shape, batch, allowed in zip(operator.inputs, rows, lateness, strict=True):
            kept = in_order(shape, timely(shape, batch, allowed))
            waiting.append(_cut(kept, dice))
        reached: list[int] = [-FOREVER if parts else FOREVER for parts in waiting]
        found: Batches = []
        check = _Progress(operator.output)
        while any(waiting):
            port = int(dice.choice([port for port, parts in enumerate(waiting) if parts]))
            batch = waiting[port].pop(0)
            found += check.rows(operator.push(port, batch))
            times = operator.inputs[port].times(batch)
            if len(times):
                reached[port] = int(times[-1])
            if not waiting[port]:
                reached[port] = FOREVER
            mark = min(reached)
            if -FOREVER < mark < FOREVER and dice.random() < 0.5:
                found += check.rows(operator.advance(mark))
                check.passed(operator.passed(mark))
            if dice.random() < _RESTART:
                operator = disk.restarted(operator.snapshot(), make())
                _check_deadline(operator, disk, make)
        return found + check.rows(operator.finish())


@final
class Arriving(Runtime):
    """In the order of arrival, in batches of any size, late rows put aside, everything replaced by its snapshot."""

    name = "arrivals"

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """Push rows as they arrive, inputs in turns."""
        arrivals, disk = Arrivals(make(), lateness), Disk()
        waiting = [_cut(batch, dice) for batch in rows]
        found: Batches = []
        late = [0] * len(rows)
        for port, parts in enumerate(waiting):
            if not parts:
                found += arrivals.close(port)
        while any(waiting):
            port = int(dice.choice([port for port, parts in enumerate(waiting) if parts]))
            found += arrivals.push(port, waiting[port].pop(0))
            for each, batch in arrivals.take_late():
                late[each] += batch.num_rows
            if dice.random() < _RESTART:
                state = arrivals.snapshot()
                arrivals = Arrivals(make(), lateness)
                disk.restored(state, arrivals.restore)
        found += arrivals.finish()
        for port, (shape, batch, allowed) in enumerate(zip(arrivals.operator.inputs, rows, lateness, strict=True)):
            kept = int(np.sum(in_time(shape, batch, allowed)))
            assert late[port] == arrivals.late_rows[port] == batch.num_rows - kept, (
                f"of {batch.num_rows} rows of input {port} {kept} are in time, and {late[port]} were late"
            )
        return found


@final
class Online(Runtime):
    """As they arrive, through short queues, by another thread; now and then it is stopped, and another one goes on."""

    name = "online"

    def run(self, make: Make, rows: Sequence[pa.RecordBatch], lateness: Sequence[int], dice: Dice) -> Batches:
        """Put rows in, inputs in turns."""
        disk = Disk()
        found: Batches = []
        late: list[int] = []
        waiting = [_cut(batch, dice) for batch in rows]

        def started(state: State | None) -> Live:
            arrivals = Arrivals(make(), lateness)
            if state is not None:
                disk.restored(state, arrivals.restore)
            return Live(arrivals, found.append, lambda _, batch: late.append(batch.num_rows), capacity=8)

        live = started(None)
        for port, parts in enumerate(waiting):
            if not parts:
                live.close(port)
        while any(waiting):
            port = int(dice.choice([port for port, parts in enumerate(waiting) if parts]))
            assert live.put(port, waiting[port].pop(0))
            if dice.random() < _RESTART:
                state = live.snapshot()
                live.stop()
                live = started(state)
        live.finish()
        shapes = make().inputs
        kept = sum(sum(in_time(*each)) for each in zip(shapes, rows, lateness, strict=True))
        every = sum(batch.num_rows for batch in rows)
        assert sum(late) + kept == every, f"of {every} rows {kept} are in time, and {sum(late)} were late"
        return found


EMBEDDED: Final[tuple[Runtime, ...]] = (Cut(), Arriving(), Online())
"""The runtimes of this package; all are compared with :class:`Replayed`."""


@final
class OperatorConformance:
    """Checks of one operator; each raises :class:`AssertionError`, which says what is not as it must be."""

    def __init__(self, make: Make, runtimes: Sequence[Runtime] = EMBEDDED) -> None:
        self._make = make
        self._runtimes = tuple(runtimes)

    def check(
        self, rows: Sequence[pa.RecordBatch], dice: Dice, *, lateness: int | Sequence[int] = 0, rounds: int = 3
    ) -> list[Row]:
        """Run the rows of all inputs, given in the order of arrival, in all runtimes; the rows that come out."""
        allowed = [lateness] * len(rows) if isinstance(lateness, int) else list(lateness)
        case = Case(self._make, rows, allowed)
        expected: list[Row] = []
        for runtime in self._runtimes:
            for _ in range(rounds):
                (expected,) = check_all([case], runtime, dice)
        return expected


def check_all(cases: Sequence[Case], runtime: Runtime, dice: Dice) -> list[list[Row]]:
    """Run many cases in one runtime, which has to give the rows of :class:`Replayed`; the rows that come out of each.

    Raises :class:`AssertionError`, which says of which case what is not as it must be.
    """
    found = runtime.run_all(cases, dice)
    return [
        _checked(number, case, runtime, own, dice) for number, (case, own) in enumerate(zip(cases, found, strict=True))
    ]


def _checked(number: int, case: Case, runtime: Runtime, batches: Batches, dice: Dice) -> list[Row]:
    operator = case.make()
    has_order = operator.needs.order or operator.gives_order  # else rows come out as they come in
    expected = rows_of(operator.output, Replayed().run(case.make, case.rows, case.lateness, dice))
    one, other = rows_of(operator.output, batches), expected
    if not (has_order and runtime.keeps_order):
        one, other = _sorted(one), _sorted(other)
    what = f"{runtime.name}: case {number}" if number else runtime.name
    assert len(one) == len(other), f"{what}: found {len(one)} rows, expected {len(other)}"
    for place, (theirs, ours) in enumerate(zip(one, other, strict=True)):
        assert _same(theirs, ours), f"{what}: row {place} is {theirs}, expected {ours}"
    return expected


@final
class Disk:
    """Keeps states as a runtime would: each chunk once, and as bytes."""

    def __init__(self) -> None:
        self._chunks: dict[str, bytes] = {}

    def restarted(self, state: State, operator: Operator) -> Operator:
        """An operator that goes on from a state."""
        self.restored(state, operator.restore)
        return operator

    def restored(self, state: State, restore: Callable[[State], None]) -> None:
        """Write a state, read it, and have it restored."""
        for name, content in state.chunks.items():
            before = self._chunks.setdefault(name, bytes(content))
            assert before == bytes(content), f"the chunk {name!r} has changed; a name stands for its bytes for good"
        self._chunks = {name: self._chunks[name] for name in state.chunks}
        restore(
            State(json.loads(json.dumps(state.core)), {name: pa.py_buffer(self._chunks[name]) for name in state.chunks})
        )


class _Progress:
    """Rows that come out are in order, and not before what was said to be passed."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._reached = -FOREVER

    def rows(self, batches: Batches) -> Batches:
        for batch in batches:
            assert batch.schema.equals(self._shape.schema), f"found the columns {batch.schema}"
            if batch.num_rows:
                first = int(self._shape.times(batch).min())
                assert first >= self._reached, f"a row of time {first} came out after {self._reached} had passed"
        return batches

    def passed(self, time: int) -> None:
        self._reached = max(self._reached, time)


def _check_deadline(operator: Operator, disk: Disk, make: Make) -> None:
    """Nothing comes out before the deadline if no row comes."""
    deadline = operator.next_deadline()
    copy = disk.restarted(operator.snapshot(), make())
    if deadline is None:
        assert not sum(batch.num_rows for batch in copy.finish()), "rows wait, and there is no deadline"
    elif deadline > -(2**63):
        early = sum(batch.num_rows for batch in copy.advance(deadline - 1))
        assert not early, f"{early} rows came out before the deadline {deadline}"


def in_time(shape: Shape, batch: pa.RecordBatch, lateness: int) -> list[bool]:
    """Which rows are not before the newest time so far less the lateness."""
    newest, kept = -FOREVER, []
    for time in shape.times(batch).tolist():
        kept.append(time >= newest - lateness)
        newest = max(newest, time)
    return kept


def timely(shape: Shape, batch: pa.RecordBatch, lateness: int) -> pa.RecordBatch:
    """The rows that are not late."""
    return batch.filter(pa.array(in_time(shape, batch, lateness), pa.bool_()))


def in_order(shape: Shape, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows by time, then by number or arrival."""
    times, numbers = shape.times(batch).tolist(), shape.numbers(batch)
    ties = range(len(times)) if numbers is None else numbers.tolist()
    order = sorted(range(len(times)), key=lambda row: (times[row], ties[row]))
    return batch.take(pa.array(order, pa.int64()))


def rows_of(shape: Shape, batches: Batches) -> list[Row]:
    """Rows as values of Python; points and lengths of time are integers."""
    columns = []
    for field in shape.schema:
        whole = pa.chunked_array([batch.column(field.name) for batch in batches], field.type)
        is_span = pa.types.is_temporal(field.type) and field.type.bit_width == 64
        columns.append((whole.cast(pa.int64()) if is_span else whole).to_pylist())
    return list(zip(*columns, strict=True))


def _cut(batch: pa.RecordBatch, dice: Dice) -> Batches:
    """Rows in some batches, a few of them empty; none for no rows."""
    if not batch.num_rows:
        return []
    inner: Ints = np.sort(dice.integers(0, batch.num_rows + 1, int(dice.integers(0, _MOST_CUTS))))
    return [batch.slice(first, last - first) for first, last in pairwise([0, *inner.tolist(), batch.num_rows])]


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)

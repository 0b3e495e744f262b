"""History through an operator: as much of it in memory as is needed, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import dicts, rows, shape
from tidelog.model.errors import SchemaError
from tidelog.operators.base import Batches
from tidelog.operators.composed import chain
from tidelog.operators.conformance import Make, OperatorConformance, Runtime, in_order, in_time, rows_of
from tidelog.operators.join.partners import TimeWindow
from tidelog.operators.join.windowed import WindowJoin
from tidelog.operators.ordering import Union
from tidelog.operators.replaying import replay
from tidelog.operators.rowwise import Filter
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.timed import TimeWindows

OF = shape()


class History(Runtime):
    """Replay of batches of any size."""

    name = "history"

    def run(self, make: Make, rows: list[pa.RecordBatch], lateness: list[int], dice: np.random.Generator) -> Batches:
        inputs = []
        for batch, allowed in zip(rows, lateness, strict=True):
            kept = in_order(OF, batch.filter(pa.array(in_time(OF, batch, allowed), pa.bool_())))
            size = int(dice.integers(1, 20))
            inputs.append([kept.slice(first, size) for first in range(0, kept.num_rows, size)])
        return list(replay(make(), inputs))


def test_history_gives_the_same_rows() -> None:
    dice = np.random.default_rng(40)
    for count in (0, 1, 50):
        batches = [rows(OF, dice, count, jitter=4) for _ in range(3)]
        OperatorConformance(lambda: Union([OF] * 3), [History()]).check(batches, dice, lateness=4)
    make = lambda: TimeWindows(OF, FixedFrames(9, 4), {"total": "sum(n)"}, ["k"])  # noqa: E731
    OperatorConformance(make, [History()]).check([rows(OF, dice, 60)], dice)


def test_inputs_are_read_as_they_are_needed_and_closed() -> None:
    taken = [0, 0]
    closed = []

    def source(port: int, step: int) -> Iterator[pa.RecordBatch]:
        try:
            for number in range(100):
                taken[port] += 1
                batch = rows(OF, np.random.default_rng(number), 1)
                times = pa.array([number * step], pa.int64())
                yield batch.set_column(0, OF.schema.field(0), times)
        finally:
            closed.append(port)

    found = replay(Union([OF, OF]), [source(0, 1), source(1, 10)])
    first = [next(found) for _ in range(30)]
    assert taken[0] <= 35
    assert taken[1] <= 5  # ten times as fast
    assert rows_of(Union([OF, OF]).output, first)
    found.close()
    assert sorted(closed) == [0, 1]


def test_operators_that_multiply_rows_get_few_at_once() -> None:
    class Counting(WindowJoin):
        most_rows = 7
        pushed: ClassVar[list[int]] = []

        def push(self, port: int, batch: pa.RecordBatch) -> Batches:
            self.pushed.append(batch.num_rows)
            return super().push(port, batch)

    dice = np.random.default_rng(41)
    batches = [in_order(OF, rows(OF, dice, 50)) for _ in range(2)]
    windows = (TimeWindow(5), TimeWindow(5))
    make = lambda: Counting(OF, OF, windows)  # noqa: E731
    OperatorConformance(make, [History()]).check(batches, dice)
    Counting.pushed.clear()
    whole = chain(make(), Filter(make().output, "true"))
    assert rows_of(whole.output, list(replay(whole, [[batch] for batch in batches])))
    assert max(Counting.pushed) == 7
    assert sum(Counting.pushed) == 100


def test_there_is_an_input_for_each() -> None:
    with pytest.raises(SchemaError, match="1 inputs for an operator of 2"):
        next(replay(Union([OF, OF]), [[]]))
    assert dicts(rows(OF, np.random.default_rng(1), 0)) == []

"""Watermarks, late rows, silent inputs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import rows, shape
from tidelog.model.errors import InputError, SchemaError
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import FOREVER, Batches, Shape
from tidelog.operators.composed import Composed
from tidelog.operators.conformance import Arriving, in_time, rows_of
from tidelog.operators.merge.operator import MergeOperator
from tidelog.operators.merge.ports import Input
from tidelog.operators.ordering import Reorder, Union
from tidelog.operators.window.counted import CountWindows

OF = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")


def at(*times: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(times, pa.int64())], schema=OF.schema)


def times(batches: Batches) -> list[int]:
    return [time for (time,) in rows_of(OF, batches)]


def test_a_row_is_late_before_the_newest_time_less_the_lateness() -> None:
    arrivals = Arrivals(Reorder(OF), 3)
    assert times(arrivals.push(0, at(10, 7, 6, 12, 9, 8))) == [7]
    assert arrivals.watermark == 9
    assert [times([batch]) for _, batch in arrivals.take_late()] == [[6, 8]]
    assert arrivals.take_late() == []
    assert (arrivals.rows, arrivals.late_rows) == ([6], [2])
    assert times(arrivals.finish()) == [9, 10, 12]
    assert arrivals.watermark == FOREVER


def test_rows_that_wait_come_before_others_when_there_is_no_lateness_any_more() -> None:
    def pairs() -> CountWindows:
        return CountWindows(OF, 2, 2, {"rows": "count(*)"})

    before = Arrivals(pairs(), 10)
    assert before.push(0, at(1, 5, 3, 8)) == []
    after = Arrivals(pairs())
    after.restore(before.snapshot())
    found = after.push(0, at(9, 12)) + after.finish()
    assert [row["window_start"] for batch in found for row in batch.to_pylist()] == [1, 5, 9]


@pytest.mark.parametrize("cut", range(7))
def test_which_rows_are_late_does_not_depend_on_batches(cut: int) -> None:
    every = at(5, 9, 4, 6, 20, 3, 17)
    arrivals = Arrivals(Reorder(OF), 3)
    found = times(arrivals.push(0, every.slice(0, cut)) + arrivals.push(0, every.slice(cut)) + arrivals.finish())
    assert found == [5, 6, 9, 17, 20]
    assert sorted(time for _, batch in arrivals.take_late() for time in times([batch])) == [3, 4]


def test_the_ends_of_time() -> None:
    low, high = -(2**63), 2**63 - 1
    arrivals = Arrivals(Reorder(OF), high)
    assert times(arrivals.push(0, at(0, low, low + 1))) == []
    assert arrivals.late_rows == [1]  # by one tick
    assert times(arrivals.push(0, at(high, low, 0))) == [low + 1]
    assert arrivals.watermark == 0
    assert arrivals.late_rows == [2]
    assert times(arrivals.finish()) == [0, 0, high]
    strict = Arrivals(Reorder(OF))
    assert times(strict.push(0, at(low))) == []
    assert times(strict.push(0, at(low, high, high, low)) + strict.finish()) == [low, low, high, high]
    assert strict.late_rows == [1]


def test_the_slowest_input_counts_until_it_is_idle_or_closed() -> None:
    arrivals = Arrivals(Union([OF, OF]), idle_timeout=10.0)
    assert arrivals.push(0, at(5, 6), now=0.0) == []
    assert times(arrivals.push(1, at(5, 5), now=1.0)) == []
    assert times(arrivals.push(0, at(8), now=5.0)) == []
    assert times(arrivals.tick(now=10.9)) == []
    assert times(arrivals.tick(now=11.0)) == [5, 5, 5, 6]  # the second has said nothing for ten seconds
    assert arrivals.watermark == 8
    assert times(arrivals.push(1, at(7, 8), now=12.0)) == []  # 7 is behind what was given out
    assert arrivals.late_rows == [0, 1]
    assert times(arrivals.push(1, at(9), now=13.0)) == []
    assert times(arrivals.close(0, now=13.0)) == [8, 8]
    assert times(arrivals.close(1, now=13.0)) == [9]


def test_idle_inputs_do_not_end_time() -> None:
    arrivals = Arrivals(Reorder(OF), idle_timeout=1.0)
    assert times(arrivals.push(0, at(5), now=0.0)) == []
    assert times(arrivals.tick(now=100.0)) == []
    assert times(arrivals.push(0, at(6), now=101.0)) == [5]


def test_wrong_rows_are_refused() -> None:
    arrivals = Arrivals(Reorder(OF))
    with pytest.raises(SchemaError, match="input 0 has the columns"):
        arrivals.push(0, rows(shape(), np.random.default_rng(1), 3))
    arrivals.finish()
    with pytest.raises(InputError, match="is closed"):
        arrivals.push(0, at(1))
    with pytest.raises(InputError, match="for each of 1 inputs"):
        Arrivals(Reorder(OF), [1, 2])
    with pytest.raises(InputError, match="at least zero"):
        Arrivals(Reorder(OF), -1)


def test_kept_and_late_are_all_rows() -> None:
    dice = np.random.default_rng(9)
    of = shape()
    for _ in range(10):
        batch = rows(of, dice, 60, jitter=12)
        kept = int(np.sum(in_time(of, batch, 4)))
        assert 0 < kept < 60
        found = Arriving().run(lambda: Reorder(of), [batch], [4], dice)  # checks the late ones
        assert sum(each.num_rows for each in found) == kept


def test_the_last_input_to_fall_silent_tells_how_far_time_is() -> None:
    """As if somebody had looked whenever one became idle, however seldom that was in fact."""
    for looks in ([10.0], [0.5, 1.1, 2.1, 10.0]):
        arrivals = Arrivals(Union([OF] * 3), 0, idle_timeout=1.0)
        found = [*arrivals.push(0, at(4, 9), 0.3), *arrivals.push(1, at(2, 6), 1.0)]
        for now in looks:
            found += arrivals.tick(now)
        assert arrivals.watermark == 6
        assert times(found) == [2, 4]


def test_merges_leave_inputs_behind_but_no_rows_that_are_there() -> None:
    merge = MergeOperator([Input("a", OF), Input("b", OF)], "R2ddup")
    merge.patience = 3
    arrivals = Arrivals(Composed(Union([merge.output, OF]), [merge, None]), [0, 2, 0])

    def reached(port: int, *of: int, has_more: tuple[int, ...] = ()) -> int | None:
        arrivals.push(port, at(*of))
        arrivals.settle(has_more=has_more)
        return arrivals.watermark

    assert reached(2, 50) is None
    assert reached(0, 40, has_more=(1,)) is None
    assert reached(0, 60, has_more=(2,)) == 50
    arrivals.push(2, at(100))
    assert arrivals.watermark == 50  # there may be more of all
    arrivals.settle()
    assert arrivals.watermark == 60 - 3
    assert reached(1, 59, has_more=(1,)) == 60 - 3
    assert reached(1, 58, 70, has_more=(0,)) == 60
    assert reached(0) == 70 - 2 - 3
    assert reached(0, 64) == 70 - 2 - 3
    assert arrivals.late_rows == [1, 0, 0]
    arrivals.close(0)
    assert arrivals.watermark == 70 - 2

"""Sessions, against sessions row by row."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import dicts, rows, shape
from operators.window.models import AGGREGATES, sessions
from tidelog.model.errors import TimeError
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.window import open_sessions
from tidelog.operators.window.sessions import SessionWindows


@pytest.mark.parametrize("by", [(), ("k",), ("k", "n")], ids=str)
@pytest.mark.parametrize("gap", [1, 2, 5, 30])
def test_sessions(gap: int, by: tuple[str, ...]) -> None:
    dice = np.random.default_rng(21)
    of = shape()
    for count in (0, 1, 50):
        batch = rows(of, dice, count, span=100, jitter=6)
        make = partial(SessionWindows, of, gap, AGGREGATES, by)
        found = OperatorConformance(make).check([batch], dice, lateness=6, rounds=2)
        assert found == sessions(dicts(in_order(of, batch)), gap, by)


@pytest.mark.parametrize("by", [(), ("k",), ("k", "n")], ids=str)
def test_all_rows_of_a_key_are_one_session_without_a_gap(by: tuple[str, ...]) -> None:
    dice = np.random.default_rng(23)
    of = shape()
    far, end = 10_000, len(by) + 1
    for count in (0, 1, 50):
        batch = rows(of, dice, count, span=100, jitter=6)
        found = OperatorConformance(partial(SessionWindows, of, None, AGGREGATES, by)).check(
            [batch], dice, lateness=6, rounds=2
        )
        known = sessions(dicts(in_order(of, batch)), far, by)
        assert found == [(*each[:end], each[end] - far, *each[end + 1 :]) for each in known]
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    operator = SessionWindows(of, None, {"rows": "count(*)"})
    for time in (-(2**63), 5, 2**63 - 1):
        assert not operator.advance(time)
        operator.push(0, pa.RecordBatch.from_arrays([pa.array([time])], schema=of.schema))
    (last,) = operator.finish()
    assert last.to_pylist() == [{"window_start": -(2**63), "window_end": 2**63 - 1, "rows": 3}]


def test_what_cannot_be() -> None:
    with pytest.raises(TimeError, match="at least one tick"):
        SessionWindows(shape(), 0, {})
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    with pytest.raises(TimeError, match="out of the range"):
        SessionWindows(of, 5, {}).push(0, pa.RecordBatch.from_arrays([pa.array([2**63 - 3])], schema=of.schema))


@pytest.mark.parametrize("by", [(), ("k",)], ids=str)
def test_rows_that_come_one_by_one(by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends that are not true any more are forgotten, and slots are used again."""
    monkeypatch.setattr(open_sessions, "_ROOM", 4)
    monkeypatch.setattr(open_sessions, "_AT_ONCE", 2)
    dice = np.random.default_rng(22)
    of = shape()
    batch = in_order(of, rows(of, dice, 200, span=600))
    operator = SessionWindows(of, 4, AGGREGATES, by)
    found, deadlines = [], []
    times = of.times(batch).tolist()
    for row, time in enumerate(times):
        for each in operator.advance(time):
            deadlines.append(time)
            found += dicts(each)
        operator.push(0, batch.slice(row, 1))
        if row % 3 == 0:
            due = operator.next_deadline()
            assert due is not None
            ends = [end for _, end, *_ in (each[-15:] for each in sessions(dicts(batch.slice(0, row + 1)), 4, by))]
            assert due == min(end for end in ends if end >= time) + 1
    for each in operator.finish():
        found += dicts(each)
    assert [tuple(each.values()) for each in found] == sessions(dicts(batch), 4, by)
    assert len(deadlines) > 10

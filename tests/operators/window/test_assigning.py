"""Rows with their windows, against windows row by row."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import dicts, rows, shape
from tidelog.model.errors import SchemaError, TimeError
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.window.assigning import SessionRows, WindowRows
from tidelog.operators.window.frames import CalendarFrames, FixedFrames, Period


@pytest.mark.parametrize(("size", "slide", "origin"), [(10, 10, 0), (10, 3, 1), (7, 20, -5), (1, 1, 0)])
def test_each_row_once_for_each_window(size: int, slide: int, origin: int) -> None:
    dice = np.random.default_rng(4)
    of = shape()
    for count in (0, 1, 60):
        batch = rows(of, dice, count, span=70, jitter=5)
        found = OperatorConformance(partial(WindowRows, of, FixedFrames(size, slide, origin))).check(
            [batch], dice, lateness=5, rounds=2
        )
        expected = [
            (row["ts"], row["k"], row["n"], row["x"], start, start + size, start + size - 1)
            for row in dicts(in_order(of, batch))
            for start in range(origin - 40 * slide - 40, 200, 1)
            if (start - origin) % slide == 0 and start <= row["ts"] < start + size
        ]
        assert found == expected


def test_windows_of_a_calendar() -> None:
    of = shape(pa.timestamp("us"))
    frames = CalendarFrames(of.clock, Period(days=1), Period(days=1), "Europe/Berlin")
    batch = rows(of, np.random.default_rng(1), 5)
    (given,) = WindowRows(of, frames).push(0, batch)
    assert given.schema.names == ["ts", "k", "n", "x", "window_start", "window_end", "window_time"]
    assert {each.hour for each in given["window_start"].to_pylist()} == {23}


@pytest.mark.parametrize("by", [(), ("k",), ("k", "n")], ids=str)
@pytest.mark.parametrize("gap", [1, 2, 5, 30])
def test_rows_of_sessions(gap: int, by: tuple[str, ...]) -> None:
    dice = np.random.default_rng(8)
    of = shape()
    for count in (0, 1, 50):
        batch = rows(of, dice, count, span=100, jitter=6)
        found = OperatorConformance(partial(SessionRows, of, gap, by)).check([batch], dice, lateness=6, rounds=2)
        assert found == _expected(dicts(in_order(of, batch)), gap, by)


def _expected(given: list[dict[str, Any]], gap: int, by: tuple[str, ...]) -> list[tuple[object, ...]]:
    sessions: dict[tuple[object, ...], list[list[tuple[int, dict[str, Any]]]]] = {}
    for number, row in enumerate(given):
        own = sessions.setdefault(tuple(row[each] for each in by), [])
        if own and row["ts"] - own[-1][-1][1]["ts"] <= gap:
            own[-1].append((number, row))
        else:
            own.append([(number, row)])
    found = []
    for session in (each for own in sessions.values() for each in own):
        start, end = session[0][1]["ts"], session[-1][1]["ts"] + gap
        for number, row in session:
            values = (row["ts"], row["k"], row["n"], row["x"], start, end, end - 1)
            found.append((end, start, number, values))
    return [each[-1] for each in sorted(found, key=lambda each: each[:3])]


def test_what_cannot_be() -> None:
    with pytest.raises(TimeError, match="at least one tick"):
        SessionRows(shape(), 0)
    with pytest.raises(TimeError, match="expected at least 1"):
        WindowRows(shape(), FixedFrames(5, 0))
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False), ("window_end", pa.int64())]), "ts")
    with pytest.raises(SchemaError, match="'window_end' beside those of windows"):
        WindowRows(of, FixedFrames(5, 5))
    plain = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    late = pa.RecordBatch.from_arrays([pa.array([2**63 - 3])], schema=plain.schema)
    for operator in (SessionRows(plain, 5), WindowRows(plain, FixedFrames(5, 5))):
        with pytest.raises(TimeError, match="out of the range"):
            operator.push(0, late)

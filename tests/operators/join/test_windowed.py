"""Joins by windows, against a join row by row."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import TIMES, dicts, rows, shape
from tidelog.model.errors import InputError, SchemaError
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.join import banded, keyed, pairing, pairs
from tidelog.operators.join.partners import JoinWindow, RowWindow, TimeWindow
from tidelog.operators.join.windowed import WindowJoin

Row = dict[str, Any]


def active(seen: list[Row], window: JoinWindow, time: int, literal: bool) -> list[Row]:
    """The rows in the last window that is complete at a time, of those that came before."""
    size, slide = window.size, window.slide
    if isinstance(window, TimeWindow):
        end = max(number * slide + size for number in range(-500, 500) if number * slide + size <= time + 1)
        if literal and (not seen or end - size < seen[0]["ts"]):
            return []
        return [row for row in seen if end - size <= row["ts"] < end]
    first = max(number * slide for number in range(-500, 500) if number * slide + size <= len(seen))
    if literal and first < 0:
        return []
    return seen[max(first, 0) : max(first + size, 0)]


def joined(
    sides: tuple[list[Row], list[Row]], windows: tuple[JoinWindow, JoinWindow], keep: Any, literal: bool
) -> list[tuple[Any, ...]]:
    """Rows of both sides in one order, each with the window of the other side."""
    found = []
    seen: tuple[list[Row], list[Row]] = ([], [])
    arrivals = sorted(
        ((row["ts"], port, number) for port in (0, 1) for number, row in enumerate(sides[port])),
    )
    for time, port, number in arrivals:
        row = sides[port][number]
        for partner in active(seen[1 - port], windows[1 - port], time, literal):
            left, right = (row, partner) if port == 0 else (partner, row)
            if keep(left, right):
                pair = [side[name] for side in (left, right) for name in ("ts", "k", "n", "x")]
                found.append((*pair, time))
        seen[port].append(row)
    return found


WINDOWS: list[tuple[JoinWindow, JoinWindow]] = [
    (TimeWindow(10), TimeWindow(10)),
    (TimeWindow(10, 4), TimeWindow(5, 7)),
    (RowWindow(5), RowWindow(3)),
    (RowWindow(7, 3), TimeWindow(6)),
    (RowWindow(2, 5), RowWindow(4, 2)),
]


@pytest.mark.parametrize("windows", WINDOWS, ids=str)
@pytest.mark.parametrize("literal", [False, True])
def test_against_every_pair(
    windows: tuple[JoinWindow, JoinWindow], literal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (pairing, pairs, keyed, banded):
        monkeypatch.setattr(module, "TILE", 17)
    monkeypatch.setattr(pairs, "MATCHED", 31)
    monkeypatch.setattr(banded, "_LEAST_RUN", 4)
    dice = np.random.default_rng(50)
    of = shape()
    conditions: list[tuple[dict[str, str], str | None, Any]] = [
        ({}, None, lambda left, right: True),
        ({"k": "k"}, None, lambda left, right: left["k"] is not None and left["k"] == right["k"]),
        (
            {},
            "(x - x_right) * (x - x_right) + 1 < 9 and time > -15",
            lambda left, right: (
                left["x"] is not None
                and right["x"] is not None
                and (left["x"] - right["x"]) ** 2 + 1 < 9
                and max(left["ts"], right["ts"]) > -15
            ),
        ),
        (
            {"k": "k"},
            "n <= n_right",
            lambda left, right: (
                left["k"] is not None
                and left["k"] == right["k"]
                and left["n"] is not None
                and right["n"] is not None
                and left["n"] <= right["n"]
            ),
        ),
    ]
    for by, where, keep in conditions:
        for counts in ((25, 30), (0, 4), (1, 1)):
            batches = [rows(of, dice, count, jitter=4) for count in counts]
            make = partial(WindowJoin, of, of, windows, by, where, literal=literal)
            found = OperatorConformance(make).check(batches, dice, lateness=4, rounds=1)
            left, right = (dicts(in_order(of, batch)) for batch in batches)
            assert found == joined((left, right), windows, keep, literal)


def test_the_worked_case() -> None:
    """spec/offline-queries.md 1.5: of the two rows in the left window the one of 5 is not above 6."""
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False), ("v", pa.int64())]), "ts")
    left = pa.RecordBatch.from_arrays([pa.array([0, 1, 3]), pa.array([1, 7, 5])], schema=of.schema)
    right = pa.RecordBatch.from_arrays([pa.array([4]), pa.array([6])], schema=of.schema)
    make = partial(WindowJoin, of, of, (RowWindow(2), RowWindow(2)), None, "v <= v_right")
    assert OperatorConformance(make).check([left, right], np.random.default_rng(51)) == [(3, 5, 4, 6, 4)]


@pytest.mark.parametrize("time", TIMES, ids=str)
def test_every_clock(time: pa.DataType) -> None:
    dice = np.random.default_rng(52)
    of = shape(time)
    batches = [rows(of, dice, 20) for _ in range(2)]
    windows = (TimeWindow(5), RowWindow(4))
    make = partial(WindowJoin, of, of, windows, {"k": "k"})
    found = OperatorConformance(make).check(batches, dice, rounds=1)
    left, right = (dicts(in_order(of, batch)) for batch in batches)
    assert found == joined(
        (left, right), windows, lambda one, two: one["k"] is not None and one["k"] == two["k"], False
    )
    assert make().output.time_type == time


def test_rows_leave_windows() -> None:
    of = shape()
    operator = WindowJoin(of, of, (TimeWindow(10), RowWindow(5)))
    for start in range(0, 1000, 100):
        for port in (0, 1):
            batch = rows(of, np.random.default_rng(start + port), 100, span=20)
            times = pa.array(np.sort(np.asarray(batch.column("ts"))) + start + 20)
            operator.push(port, batch.set_column(0, of.schema.field("ts"), times))
        operator.advance(start + 100)
        assert len(operator._rows[0]) == 0
        assert len(operator._rows[1]) == 5


def test_what_cannot_be() -> None:
    of = shape()
    with pytest.raises(InputError, match="at least 1"):
        TimeWindow(0)
    with pytest.raises(InputError, match="at least 1"):
        RowWindow(1, 0)
    with pytest.raises(SchemaError, match="choose other names"):
        WindowJoin(of, of, WINDOWS[0], time="ts")
    with pytest.raises(SchemaError, match="expected the same one"):
        WindowJoin(of, of, WINDOWS[0], {"n": "x"})


def test_keys_without_rows_are_forgotten() -> None:
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False), ("k", pa.int64())]), "ts")
    operator = WindowJoin(of, of, (TimeWindow(100), RowWindow(50)), {"k": "k"})
    found = []
    for start in range(0, 50_000, 500):
        times = np.arange(start, start + 500)
        for port in (0, 1):
            keys = pa.array(times // 2 if port else times)
            operator.push(port, pa.RecordBatch.from_arrays([pa.array(times), keys], schema=of.schema))
        for batch in operator.advance(start + 500):
            found += batch.to_pylist()
    assert len(operator._pairing._finder._keys) < 4_000  # type: ignore[attr-defined]
    assert [(row["ts"], row["k"], row["ts_right"]) for row in found] == sorted(
        ((row["ts"], row["k"], row["ts_right"]) for row in found), key=lambda row: max(row[0], row[2])
    )
    # A right row of the key k comes at 2k and 2k + 1, and finds the left one of time k in a window of 100.
    expected = [(0, 0, 0)] + [(k, k, time) for time in range(1, 200) for k in [time // 2] if time - k < 100]
    assert [(row["ts"], row["k"], row["ts_right"]) for row in found] == expected

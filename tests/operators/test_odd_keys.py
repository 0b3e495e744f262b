"""Keys of every type through operators that have some, against Python: nulls, NaN, zeros, dictionaries, extremes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance
from tidelog.operators.join.asof import AsOfJoin
from tidelog.operators.join.partners import RowWindow, TimeWindow
from tidelog.operators.join.windowed import WindowJoin
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import TimeWindows

KINDS: dict[pa.DataType, list[Any]] = {
    pa.dictionary(pa.int32(), pa.string()): ["a", "b", None, "ccc"],
    pa.dictionary(pa.int8(), pa.float64()): [0.0, -0.0, None, math.nan],
    pa.large_string(): ["a", "", None],
    pa.string(): [None],
    pa.binary(2): [b"ab", b"cd", None],
    pa.decimal128(10, 2): [Decimal("1.50"), Decimal(2), None],
    pa.uint64(): [2**64 - 1, 2**63, 0, None],
    pa.int64(): [2**63 - 1, -(2**63), None],
    pa.bool_(): [True, False, None],
    pa.float64(): [math.nan, 0.0, -0.0, math.inf, None],
    pa.float32(): [math.nan, 0.5, -math.inf, None],
    pa.date32(): [1, -5, None],
    pa.time64("ns"): [1, 2, None],
    pa.duration("us"): [1, -2, None],
    pa.timestamp("ns"): [2**62, -5, None],
    pa.timestamp("s", "Europe/Berlin"): [0, 2**33, None],
}


def key(value: Any) -> Any:
    """What is equal is one value."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def batches(kind: pa.DataType, dice: np.random.Generator) -> Iterator[tuple[Shape, pa.RecordBatch, list[Any]]]:
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False), pa.field("k", kind)]), "ts")
    for count in (30, 25):
        chosen = [KINDS[kind][place] for place in dice.integers(0, len(KINDS[kind]), count)]
        times = np.sort(dice.integers(0, 20, count))
        column = (
            pa.array(chosen, kind.value_type).dictionary_encode().cast(kind)
            if pa.types.is_dictionary(kind)
            else pa.array(chosen, kind)
        )
        yield (
            of,
            pa.RecordBatch.from_arrays([pa.array(times), column], schema=of.schema),
            [key(each) for each in chosen],
        )


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_joins(kind: pa.DataType) -> None:
    dice = np.random.default_rng(60)
    (of, left, left_keys), (_, right, right_keys) = batches(kind, dice)
    times, others = of.times(left).tolist(), of.times(right).tolist()
    make = partial(AsOfJoin, of, of, {"k": "k"}, outer=True)
    found = OperatorConformance(make).check([left, right], dice, rounds=2)
    expected = []
    for time, value in zip(times, left_keys, strict=True):
        fitting = [t for t, v in zip(others, right_keys, strict=True) if value is not None and v == value and t <= time]
        expected.append((time, fitting[-1] if fitting else None))
    assert [(row[0], row[2]) for row in found] == expected

    window = partial(WindowJoin, of, of, (TimeWindow(6), RowWindow(9)), {"k": "k"})
    found = OperatorConformance(window).check([left, right], dice, rounds=2)
    pairs = []
    seen: tuple[list[tuple[int, Any]], list[tuple[int, Any]]] = ([], [])
    arrivals = [(time, 0, value) for time, value in zip(times, left_keys, strict=True)]
    arrivals += [(time, 1, value) for time, value in zip(others, right_keys, strict=True)]
    for time, port, value in sorted(arrivals, key=lambda each: each[:2]):
        partners = seen[1][-9:] if port == 0 else [each for each in seen[0] if each[0] > time - 6]
        near = [t for t, v in partners if value is not None and v == value]
        pairs += [(time, other, time) if port == 0 else (other, time, time) for other in near]
        seen[port].append((time, value))
    assert [(row[0], row[2], row[4]) for row in found] == pairs


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_windows(kind: pa.DataType) -> None:
    dice = np.random.default_rng(61)
    of, batch, keys = next(batches(kind, dice))
    times = of.times(batch).tolist()
    found = OperatorConformance(partial(TimeWindows, of, FixedFrames(5, 5), {"n": "count(*)"}, ["k"])).check(
        [batch], dice, rounds=2
    )
    assert sum(row[-1] for row in found) == len(times)
    names = TimeWindows(of, FixedFrames(5, 5), {"n": "count(*)"}, ["k"]).output.schema.names
    at = {name: names.index(name) for name in names}
    counted: dict[Any, int] = {}
    for time, value in zip(times, keys, strict=True):
        counted[time // 5 * 5, value] = counted.get((time // 5 * 5, value), 0) + 1
    assert sorted((row[at["window_start"]], row[at["n"]]) for row in found) == sorted(
        (start, count) for (start, _), count in counted.items()
    )
    for make in (
        partial(CountWindows, of, 4, 2, {"n": "count(*)"}, ["k"]),
        partial(SessionWindows, of, 2, {"n": "count(*)"}, ["k"]),
    ):
        OperatorConformance(make).check([batch], dice, rounds=2)
    sessions = 0
    for value in set(keys):
        own = [time for time, each in zip(times, keys, strict=True) if each == value]
        sessions += sum(1 for before, time in zip([-10, *own], own, strict=False) if time - before > 2)
    session = partial(SessionWindows, of, 2, {"n": "count(*)"}, ["k"])
    assert len(OperatorConformance(session).check([batch], dice, rounds=1)) == sessions

"""Keys are numbered as GROUP BY tells them apart."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import shape
from operators.window.models import fixed, sessions, time_windows
from tidelog.model.errors import SchemaError
from tidelog.operators import keys as module
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance
from tidelog.operators.keys import Keys
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import TimeWindows


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        (pa.int64(), [3, 1, None, 3, None], [0, 1, 2, 0, 2]),
        (pa.float64(), [0.0, -0.0, math.nan, None, math.nan, 1.5], [0, 0, 1, 2, 1, 3]),
        (pa.float32(), [1.5, math.nan, 1.5], [0, 1, 0]),
        (pa.string(), ["", None, "a", ""], [0, 1, 2, 0]),
        (pa.binary(), [b"", b"x", b""], [0, 1, 0]),
        (pa.bool_(), [True, False, None, True], [0, 1, 2, 0]),
        (pa.timestamp("ns"), [1, 2, 1], [0, 1, 0]),
        (pa.date32(), [date(2020, 1, 1), None, date(2020, 1, 1)], [0, 1, 0]),
        (pa.decimal128(38, 2), [Decimal("1.10"), Decimal("1.1"), None], [0, 0, 1]),
    ],
    ids=str,
)
def test_numbers(type_: pa.DataType, values: list[object], expected: list[int]) -> None:
    schema = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("v", type_), ("w", pa.int8())])
    of = Shape(schema, "ts")
    other = pa.array([0] * len(values), pa.int8())
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(values)), pa.int64()), pa.array(values, type_), other], schema=schema
    )
    for columns in (["v"], ["v", "w"], ["w", "v"]):
        keys = Keys(of, columns)
        assert keys.encode(batch).tolist() == expected
        assert keys.encode(batch.slice(1)).tolist() == expected[1:]
        firsts = [expected.index(number) for number in range(len(keys))]
        found = keys.values(np.arange(len(keys)))[columns.index("v")]
        assert str(found) == str(batch.column("v").take(pa.array(firsts)))
        again = Keys(of, columns)
        again.restore(keys.snapshot())
        assert again.encode(batch).tolist() == expected
        numbers = again.keep(np.array([len(keys) - 1]))
        assert numbers.tolist() == [-1] * (len(keys) - 1) + [0]
        assert len(again) == 1
        assert set(again.snapshot().chunks).isdisjoint(keys.snapshot().chunks)


def test_nested_values_are_no_keys() -> None:
    of = Shape(pa.schema([("ts", pa.int64()), ("l", pa.list_(pa.int64()))]), "ts")
    with pytest.raises(SchemaError, match="cannot be a key"):
        Keys(of, ["l"])


def test_keys_that_nobody_needs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", 2)
    of = shape()
    count = 120
    times = np.arange(count)
    names = [f"{each // 5}-{each % 2}" for each in times.tolist()]
    columns = [pa.array(times), pa.array(names), pa.array(times % 7), pa.array(times / 4), pa.array(times)]
    batch = pa.RecordBatch.from_arrays(columns, schema=of.schema)
    rows = batch.to_pylist()
    few = {"rows": "count(*)"}
    windows = partial(TimeWindows, of, FixedFrames(12, 5), few, ["k"])
    found = OperatorConformance(windows).check([batch], np.random.default_rng(70), rounds=8)
    assert found == [row[:4] for row in time_windows(rows, fixed(12, 5, 0), ["k"])]
    apart = partial(SessionWindows, of, 3, few, ["k"])
    found = OperatorConformance(apart).check([batch], np.random.default_rng(71), rounds=8)
    assert found == [row[:4] for row in sessions(rows, 3, ["k"])]
    operator = windows()
    for row in range(count):
        operator.push(0, batch.slice(row, 1))
        operator.advance(row)
        assert len(operator._aggregates.keys) < 30


def test_chunks_of_keys_stay_few() -> None:
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False), ("v", pa.int64())]), "ts")
    keys = Keys(of, ["v"])
    for number in range(3000):
        values = pa.array([number, number // 2])
        batch = pa.RecordBatch.from_arrays([pa.array([0, 0]), values], schema=of.schema)
        assert keys.encode(batch).tolist() == [number, number // 2]
        assert len(keys.snapshot().chunks) <= 257
    again = Keys(of, ["v"])
    again.restore(keys.snapshot())
    assert again.values(np.arange(3000))[0].to_pylist() == list(range(3000))
    assert again.encode(batch).tolist() == keys.encode(batch).tolist()

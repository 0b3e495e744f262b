"""Rows are put into order by one implementation, whoever needs it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import TIMES, dicts, rows, shape
from tidelog.model.errors import SchemaError
from tidelog.operators.base import FOREVER, Shape
from tidelog.operators.conformance import OperatorConformance, rows_of
from tidelog.operators.ordering import Reorder, Union
from tidelog.operators.waiting import Waiting


@pytest.mark.parametrize("time", TIMES, ids=str)
@pytest.mark.parametrize("seq", [True, False])
def test_reorder(time: pa.DataType, seq: bool) -> None:
    dice = np.random.default_rng(4)
    of = shape(time, seq=seq)
    for count in (0, 1, 2, 60):
        batch = rows(of, dice, count, jitter=9)
        found = OperatorConformance(lambda: Reorder(of)).check([batch], dice, lateness=9)
        expected = sorted(dicts(batch), key=lambda row: row["ts"])  # stable, and numbers rise with arrival
        assert [dict(zip(of.schema.names, row, strict=True)) for row in found] == expected


def test_rows_of_one_time_are_in_the_order_of_their_numbers_whenever_they_come() -> None:
    of = Shape(pa.schema([("ts", pa.int64()), ("_seq", pa.int64())]), "ts")
    waiting = Waiting(of)
    for times, numbers in (([5, 5], [7, 3]), ([5], [1]), ([], []), ([9, 5], [0, 5]), ([2**63 - 1], [9])):
        waiting.add(
            pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), pa.array(numbers, pa.int64())], of.schema.names)
        )
    assert (waiting.first, waiting.rows) == (5, 6)
    assert waiting.take(5) is None
    taken = waiting.take(6)
    assert taken is not None
    assert rows_of(of, [taken]) == [(5, 1), (5, 3), (5, 5), (5, 7)]
    assert waiting.rows == 2
    rest = waiting.take(FOREVER)
    assert rest is not None
    assert rows_of(of, [rest]) == [(9, 0), (2**63 - 1, 9)]
    assert waiting.first is None


def test_a_chunk_is_written_once_while_its_rows_leave_one_by_one() -> None:
    of = shape()
    operator = Reorder(of)
    operator.push(0, rows(of, np.random.default_rng(5), 50))
    first = operator.snapshot()
    operator.advance(0)
    operator.push(0, rows(of, np.random.default_rng(6), 5))
    second = operator.snapshot()
    assert set(first.chunks) == {"0"}
    assert set(second.chunks) == {"0", "1"}
    assert second.chunks["0"] is first.chunks["0"]
    operator.finish()
    assert not operator.snapshot().chunks


@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_union_is_in_the_order_of_time_then_of_inputs(inputs: int) -> None:
    dice = np.random.default_rng(7)
    of = shape()
    for count in (0, 1, 30):
        batches = [rows(of, dice, count + number, jitter=5) for number in range(inputs)]
        found = OperatorConformance(lambda: Union([of] * inputs)).check(batches, dice, lateness=5)
        tagged = [(row["ts"], number, row["_seq"], row) for number, batch in enumerate(batches) for row in dicts(batch)]
        expected = [row for *_, row in sorted(tagged, key=lambda each: each[:3])]
        assert [list(row) for row in found] == [[row[name] for name in ("ts", "k", "n", "x")] for row in expected]


def test_a_union_is_of_one_kind_of_rows() -> None:
    with pytest.raises(SchemaError, match="input 1 of a union"):
        Union([shape(), Shape(pa.schema([("ts", pa.int64())]), "ts")])
    with pytest.raises(SchemaError, match="input 1 of a union"):
        Union([shape(pa.timestamp("s")), shape(pa.timestamp("ms"))])
    Union([shape(seq=True), shape(seq=False)])

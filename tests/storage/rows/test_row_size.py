"""The sizes of rows against what Arrow says of all their columns."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from tidelog.storage.rows.numbered import NumberedRows
from tidelog.storage.rows.row_size import RowSize

BATCH = pa.record_batch(
    {
        "number": pa.array(range(64), pa.int16()),
        "flag": pa.array([True, False] * 32),
        "time": pa.array(range(64), pa.timestamp("ns")),
        "date": pa.array([datetime.date(2020, 1, 1)] * 64),
        "fixed": pa.array([b"abc"] * 64, pa.binary(3)),
        "price": pa.array([decimal.Decimal("1.5")] * 64, pa.decimal128(20, 2)),
        "text": pa.array([str(each) * each for each in range(64)]),
        "wide": pa.array([b"x" * each for each in range(64)], pa.large_binary()),
        "list": pa.array([[1.0] * (each % 5) for each in range(64)]),
    }
)


@pytest.mark.parametrize("part", [BATCH, BATCH.slice(8, 16)], ids=["whole", "slice"])
def test_all_values_count(part: pa.RecordBatch) -> None:
    assert RowSize(part.schema).of(part) == part.nbytes


def test_numbers_that_are_not_in_memory_count() -> None:
    stored = BATCH.schema.append(pa.field("_seq", pa.int64(), nullable=False))
    assert RowSize(stored).of(NumberedRows(BATCH, 5)) == BATCH.nbytes + 8 * 64


def test_bits_of_nulls_do_not_count() -> None:
    batch = pa.record_batch({"x": pa.array([1, None, 3], pa.int64()), "nothing": pa.nulls(3)})
    assert RowSize(batch.schema).of(batch) == 24

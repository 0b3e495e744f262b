from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.conversion.packing import RowPacker
from tidelog.model.conversion.rows import RowReader
from tidelog.model.schema import Schema

# Canonical values of every storable type, and what Arrow must read from them.
EXAMPLES: list[tuple[pa.DataType, list[tuple[Any, Any]]]] = [
    (pa.bool_(), [(True, True), (False, False)]),
    *[
        (pa.type_for_alias(f"int{b}"), [(-(2 ** (b - 1)), -(2 ** (b - 1))), (2 ** (b - 1) - 1,) * 2])
        for b in (8, 16, 32, 64)
    ],
    *[(pa.type_for_alias(f"uint{b}"), [(0, 0), (2**b - 1, 2**b - 1)]) for b in (8, 16, 32, 64)],
    (pa.float32(), [(0.5, 0.5), (-float("inf"), -float("inf"))]),
    (pa.float64(), [(0.1, 0.1), (5e-324, 5e-324)]),
    (pa.string(), [("", ""), ("ü", "ü"), ("x" * 64, "x" * 64), ("y" * 65, "y" * 65), ("z" * 5000, "z" * 5000)]),
    (pa.large_string(), [("", ""), ("☃" * 30, "☃" * 30), ("z" * 5000, "z" * 5000)]),
    (pa.binary(), [(b"", b""), (b"\0\xff", b"\0\xff"), (bytes(4096), bytes(4096)), (bytes(4097), bytes(4097))]),
    (pa.large_binary(), [(b"x" * 513, b"x" * 513)]),
    (pa.date32(), [(-1, date(1969, 12, 31))]),
    (pa.date64(), [(86_400_000, date(1970, 1, 2))]),
    (pa.decimal128(5, 2), [(Decimal("-999.99"), Decimal("-999.99")), (Decimal("0.00"), Decimal(0))]),
    (
        pa.decimal128(38, 0),
        [(Decimal(10**38 - 1), Decimal(10**38 - 1)), (Decimal(-(10**38) + 1), Decimal(-(10**38) + 1))],
    ),
]


@pytest.mark.parametrize(("type_", "examples"), EXAMPLES, ids=[str(type_) for type_, _ in EXAMPLES])
def test_packs_every_type(type_: pa.DataType, examples: list[tuple[Any, Any]]) -> None:
    schema = pa.schema([pa.field("a", type_), pa.field("ts", pa.int64(), False), pa.field("b", type_)])
    packer = RowPacker(schema)
    for left, left_read in [*examples, (None, None)]:
        for right, right_read in [*examples, (None, None)]:
            batch = packer.batch((left, 7, right))
            batch.validate(full=True)
            assert batch.schema.equals(schema, check_metadata=True)
            assert batch.to_pylist() == [{"a": left_read, "ts": 7, "b": right_read}]
            assert [column.null_count for column in batch.columns] == [left is None, 0, right is None]


def test_remembers_a_bounded_number_of_patterns() -> None:
    strings = [pa.field(f"c{i}", pa.string()) for i in range(7)]
    packer = RowPacker(pa.schema([pa.field("ts", pa.timestamp("ns", "Asia/Tokyo"), False), *strings]))
    for pattern in [*range(128), *range(128)]:
        row = [None if pattern >> i & 1 else "x" * i for i in range(7)]
        assert list(packer.batch((5, *row)).to_pylist()[0].values())[1:] == row
        assert len(packer._templates) <= 64


@given(st.lists(st.lists(st.none() | st.text(max_size=90), min_size=3, max_size=3), min_size=1, max_size=9))
def test_rows_leave_nothing_behind_for_others(rows: list[list[str | None]]) -> None:
    packer = RowPacker(pa.schema([pa.field("ts", pa.int64(), False), *((f"c{i}", pa.string()) for i in range(3))]))
    for row in rows:
        assert list(packer.batch((5, *row)).to_pylist()[0].values())[1:] == row


def test_batches_are_independent() -> None:
    reader = RowReader(Schema(pa.schema([("ts", pa.int64()), ("x", pa.string())]), "ts"))
    batches = [reader.batch([reader.read({"ts": i, "x": str(i)})]) for i in range(100)]
    assert [batch.to_pylist()[0] for batch in batches] == [{"ts": i, "x": str(i)} for i in range(100)]


def test_rows_can_be_collected_and_become_one_batch() -> None:
    schema = Schema(
        pa.schema([("d", pa.date64()), ("ts", pa.timestamp("ms")), ("n", pa.decimal128(5, 1)), ("f", pa.float32())]),
        "ts",
    )
    events = [
        {"ts": "2024-01-01", "d": "2024-02-29", "n": 3, "f": 0.1},
        {"ts": 5, "d": None},
        {"n": Decimal("1.5"), "ts": 6},
    ]
    reader = RowReader(schema)
    rows = [reader.read(event) for event in events]
    batch = reader.batch(rows)
    assert batch.schema.equals(schema.arrow, check_metadata=True)
    assert batch["ts"].cast(pa.int64()).to_pylist() == [1_704_067_200_000, 5, 6]
    assert batch["d"].to_pylist() == [date(2024, 2, 29), None, None]
    assert batch["n"].to_pylist() == [Decimal("3.0"), None, Decimal("1.5")]
    assert [reader.batch([row]).to_pylist()[0] for row in rows] == batch.to_pylist()


def test_a_schema_may_have_only_its_time() -> None:
    reader = RowReader(Schema(pa.schema([("ts", pa.int64())]), "ts"))
    assert reader.batch([reader.read({"ts": 3})]).to_pylist() == [{"ts": 3}]

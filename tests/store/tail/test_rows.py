"""Rows of fixed width, which are put in their order by the encoding threads: a stream of them against a sorted list."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from support.media.crash import RecordingMedium, durable
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream
from tidelog.index.tabtree.merging import Merge
from tidelog.storage.codec import Ints
from tidelog.storage.rows.ordered import OrderedRows
from tidelog.store.tail import rows as tail_rows

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.int64(), nullable=False),
        ("value", pa.float64()),
        ("small", pa.int16()),
        ("flag", pa.bool_()),
        ("at", pa.timestamp("ms")),
    ]
)
Row = tuple[int, float | None, int, bool, int]


def batch(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def rows_of(stream: Stream) -> list[Row]:
    found = stream.scan().read_all()
    columns = [column.cast(pa.int64()) if column.type == SCHEMA.types[-1] else column for column in found.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("nulls", [0.0, 0.1])
@pytest.mark.parametrize("lateness", [3, 60, 2000])
def test_rows_come_out_in_the_order_of_their_times(
    lateness: int, nulls: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_rows, "_SMALL", 20)
    dice = random.Random(lateness + int(nulls * 100))
    medium = RecordingMedium()
    options = {"leaf_rows": 16, "fanout": 3, "late_rows": 150, "late_bytes": 4000, "journal_bytes": 20_000}
    store = Store(medium)
    stream = store.create_stream("s", SCHEMA, "ts", **options)
    appended: list[Row] = []
    now = 0

    def row() -> Row:
        nonlocal now
        now += dice.choice((0, 1, 1, 2))
        number = len(appended)
        time = now - dice.randrange(lateness) if dice.random() < 0.2 else now
        value = None if dice.random() < nulls else number / 4
        return time, value, number % 30_000, bool(number % 3), number

    for _ in range(60):
        size = dice.choice((1, 5, 40, 150, 400))
        some = []
        for _ in range(size):
            some.append(row())
            appended.append(some[-1])
        if dice.random() < 0.2:  # in order, as most appends of many rows are
            some.sort(key=lambda each: each[0])
            appended[-size:] = some
        stream.append(batch(some))
        chance = dice.random()
        if chance < 0.2:
            stream.flush()
            with Store(durable(medium), read_only=True) as other:
                assert rows_of(other.stream("s")) == sorted(appended, key=lambda each: each[0])
        elif chance < 0.3:
            assert rows_of(stream) == sorted(appended, key=lambda each: each[0])
        elif chance < 0.35:
            store.close()
            store = Store(medium)
            stream = store.stream("s")
    assert rows_of(stream) == sorted(appended, key=lambda each: each[0])  # which is stable, as sequence numbers are
    values = [each[1] for each in appended if each[1] is not None]
    assert stream.aggregate(None, None, ["count(*)", "sum(value)", "max(small)"]) == {
        "count(*)": len(appended),
        "sum(value)": sum(values),
        "max(small)": max(each[2] for each in appended),
    }
    assert stream.stats()["late"]["rows"] > 100
    assert store.check() == []
    store.close()


@pytest.mark.parametrize("size", [40, 400])
def test_stretches_that_come_late_find_leaves_of_their_own(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_rows, "_SMALL", 20)
    old_rows = list[int]()
    change = Merge.__call__

    def count(self: Merge, old: pa.RecordBatch, cuts: Ints) -> tuple[OrderedRows, Ints]:
        old_rows.append(old.num_rows)
        return change(self, old, cuts)

    monkeypatch.setattr(Merge, "__call__", count)
    # Of each ten stretches of 30 rows one comes 3000 rows late: more than wait for others in memory.
    arrival = sorted(range(12_000), key=lambda row: row + 3000 * (row // 30 % 10 == 3))
    rows: list[Row] = [(row, row / 4, row % 30_000, bool(row % 3), row) for row in arrival]
    medium = RecordingMedium()
    with Store(medium) as store:
        stream = store.create_stream("s", SCHEMA, "ts", leaf_rows=32, fanout=3, late_rows=200)
        for start in range(0, len(rows), size):
            stream.append(batch(rows[start : start + size]))
        stream.flush()
        late = stream.stats()["late"]
        assert late["placed"] == 0
        assert late["merged"] > 1000
        # In leaves of 32 rows there would be as many again that are written anew with those that come.
        assert sum(old_rows) < late["merged"] / 2
    with Store(durable(medium), read_only=True) as other:
        assert rows_of(other.stream("s")) == sorted(rows)
        assert other.check() == []

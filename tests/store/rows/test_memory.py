"""Rows of a tail in memory, against a plain list."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.profiles import scaled
from tidelog.model import Schema
from tidelog.storage.rows.numbered import NumberedRows, Rows
from tidelog.storage.rows.ordered import OrderedRows
from tidelog.store.rows.memory import MemoryRows, split_late
from tidelog.store.rows.stored import as_stored, without

SCHEMA = Schema(pa.schema([("ts", pa.int64())]), "ts")
STORED = pa.schema([*SCHEMA.arrow, pa.field("_seq", pa.int64(), nullable=False)])
Row = tuple[int, int]


def batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([row[i] for row in rows], pa.int64()) for i in (0, 1)], schema=STORED)


def numbered(rows: list[Row]) -> NumberedRows:
    times = pa.RecordBatch.from_arrays([pa.array([time for time, _ in rows], pa.int64())], schema=SCHEMA.arrow)
    return NumberedRows(times, rows[0][1] if rows else 0)


Form = Callable[[list[Row]], Rows]
FORMS = st.sampled_from([batch, numbered])


def rows(found: pa.RecordBatch) -> list[Row]:
    assert found.schema.equals(STORED)
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@settings(max_examples=scaled(60))
@given(
    st.lists(st.one_of(st.lists(st.integers(-3, 9), max_size=8), st.integers(0, 12), st.none()), max_size=20),
    st.lists(FORMS, min_size=20, max_size=20),
    st.booleans(),
)
def test_rows_come_out_in_order_whatever_is_added_and_taken(
    steps: list[list[int] | int | None], forms: list[Form], to_encode: bool
) -> None:
    memory, model, seq = MemoryRows(SCHEMA, STORED), list[Row](), 0
    pinned: list[tuple[pa.RecordBatch, list[Row]]] = []
    for step, form in zip(steps, forms, strict=False):
        if isinstance(step, list):
            added = [(time, seq + index) for index, time in enumerate(step)]
            seq += len(step)
            memory.add(form(added))
            model += added
        elif step is None:
            assert sorted(row for part in memory.since(seq // 2) for row in rows(part)) == sorted(
                row for row in model if row[1] >= seq // 2
            )
            pinned.append((memory.sorted(), sorted(model)))
        else:
            model.sort()
            taken = memory.take_to_encode(step) if to_encode else memory.take(step)
            assert rows(as_stored(taken, STORED)) == model[:step]
            del model[:step]
        assert memory.rows == len(model)
        assert memory.times().tolist() == sorted(time for time, _ in model)
        assert memory.last_time == max((time for time, _ in model), default=None)
    assert rows(memory.sorted()) == sorted(model)
    assert rows(as_stored(memory.take_to_encode(), STORED) if to_encode else memory.take()) == sorted(model)
    assert (memory.rows, memory.bytes, memory.last_time) == (0, 0, None)
    assert all(rows(found) == expected for found, expected in pinned)


def test_rows_that_stay_behind_are_those_that_came_before() -> None:
    """Many rounds in which most rows are taken and others come: rows that stay are not copied, most of the time."""
    dice = random.Random(1)
    memory, model, seq, kept = MemoryRows(SCHEMA, STORED), list[Row](), 0, 0
    for now in range(400):
        added = [(now + dice.randrange(12), seq + index) for index in range(dice.randrange(12))]
        seq += len(added)
        memory.add(dice.choice((batch, numbered))(added))
        model = sorted(model + added)
        if dice.random() < 0.1:
            assert sorted(row for part in memory.since(seq - 5) for row in rows(part)) == sorted(
                row for row in model if row[1] >= seq - 5
            )
        count = dice.randrange(8)
        assert rows(as_stored(memory.take_to_encode(count), STORED)) == model[:count]
        del model[:count]
        kept += memory._kept is not None
        assert memory.times().tolist() == [time for time, _ in model]
        assert (memory.rows, memory.bytes) == (len(model), 16 * len(model))
    assert kept > 100
    assert rows(memory.take()) == model


@given(st.lists(st.integers(-3, 3)), st.one_of(st.none(), st.integers(-4, 4)), FORMS, st.booleans())
def test_late_rows_are_those_before_what_is_sealed(
    times: list[int], sealed: int | None, form: Form, to_encode: bool
) -> None:
    whole = [(time, index) for index, time in enumerate(times)]
    fresh, late, delays = split_late(form(whole), SCHEMA, STORED, sealed, to_encode=to_encode)
    expected = [row for row in whole if sealed is not None and row[0] < sealed]
    others = [row for row in whole if row not in expected]
    # Rows that are put in order when they are encoded must be in the order of times and numbers.
    assert rows(as_stored(fresh, STORED)) == (sorted(others) if isinstance(fresh, OrderedRows) else others)
    newest = [sealed] if sealed is not None and expected else []  # rows before what is sealed are late in any case
    assert len(delays) == sum(time < max([*newest, *times[: row + 1]]) for row, time in enumerate(times))
    assert (late is None) == (not expected)
    assert late is None or [whole[place] for place in late] == expected


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9)))
def test_rows_that_are_elsewhere_are_left_out(numbers: list[int], elsewhere: list[int]) -> None:
    found = without(batch([(0, n) for n in numbers]), np.array(elsewhere, np.int64))
    assert rows(found) == [(0, n) for n in numbers if n not in elsewhere]

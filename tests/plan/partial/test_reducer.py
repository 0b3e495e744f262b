"""Rows reduced to groups, and put together again, against a dictionary of Python."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.expr import predicate
from tidelog.plan.partial import groups
from tidelog.plan.partial.groups import Buckets
from tidelog.plan.partial.reducer import Reducer, State, state_name

KINDS = {
    "ts": pa.timestamp("us"),
    "s": pa.string(),
    "i": pa.int64(),
    "u": pa.uint64(),
    "b": pa.int8(),
    "f": pa.float64(),
    "h": pa.float32(),
    "d": pa.date32(),
    "t": pa.bool_(),
}
SCHEMA = pa.schema(list(KINDS.items()))
WHOLE = 1 << 64


def some_rows(dice: random.Random, rows: int, distinct: int) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.1 else value

    return [
        {
            "ts": at // 3,
            "s": maybe(f"text {dice.randrange(distinct)}"),
            "i": maybe(dice.choice([-(1 << 63), (1 << 63) - 1, dice.randrange(distinct)])),
            "u": maybe(dice.choice([WHOLE - 1, dice.randrange(distinct)])),
            "b": maybe(dice.randrange(-128, 128)),
            "f": maybe(dice.choice([math.nan, math.inf, -math.inf, dice.randrange(-99, 99) / 4])),
            "h": maybe(dice.choice([math.nan, dice.randrange(-99, 99) / 4])),
            "d": maybe(dice.randrange(-9, 9)),
            "t": maybe(dice.random() < 0.5),
        }
        for at in range(rows)
    ]


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def extreme(values: list[Any], largest: bool) -> Any:
    """NaN is greater than every number."""
    return (max if largest else min)(values, key=lambda each: (each != each, each if each == each else 0))


def expected(state: State, rows: list[dict[str, Any]]) -> Any:
    """The value of a state, from rows as Python knows them."""
    assert state.value is None or isinstance(state.value, str)
    if state.where is not None:
        rows = [row for row in rows if row["b"] is not None and row["b"] > 0]
    values = [1 if state.value is None else row[state.value] for row in rows]
    if state.skips_nulls:
        values = [each for each in values if each is not None]
    if state.function == "count":
        return len(values)
    if not values:
        return None
    if state.function in ("first", "last"):
        return values[0 if state.function == "first" else -1]
    if state.function in ("min", "max"):
        return extreme(values, state.function == "max")
    return sum(values)


def merged(state: State, name: str, rows: list[dict[str, Any]]) -> Any:
    """The value of a state from those of batches."""
    rows = [row for row in rows if row[name] is not None or f"{name} place" in row]
    if state.function == "count":
        return sum(row[name] for row in rows)
    if f"{name} place" in rows[0] if rows else False:
        rows = [row for row in rows if row[f"{name} place"] is not None]
    if not rows:
        return None
    if state.function in ("first", "last"):
        places = [row[f"{name} place"] for row in rows]
        return rows[places.index((min if state.function == "first" else max)(places))][name]
    if state.function in ("min", "max"):
        return extreme([row[name] for row in rows], state.function == "max")
    if f"{name} high" in rows[0]:
        return sum((row[f"{name} high"] << 32) + row[name] for row in rows)
    return sum(row[name] for row in rows)


def alike(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


POSITIVE = predicate("b > 0", SCHEMA)
STATES = [
    State("count", None),
    State("count", "s", POSITIVE),
    *(State(name, column) for name in ("sum", "min", "max") for column in ("i", "u", "b", "f", "h")),
    State("avg", "i", POSITIVE),
    State("max", "d"),
    State("min", "ts"),
    *(State(name, "s", None, skips) for name in ("first", "last") for skips in (True, False)),
    State("last", "i", POSITIVE, False),
]
KEYS: list[list[str]] = [[], ["s"], ["i"], ["f", "t"], ["d", "b", "s"], ["u", "i", "s"], ["ts"]]


@pytest.mark.parametrize("keys", KEYS, ids=str)
@pytest.mark.parametrize("coded", [False, True])
def test_what_batches_tell_is_put_together(keys: list[str], coded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_DENSE", 64)
    monkeypatch.setattr(groups, "_FIRST_ROOM", 2)
    dice = random.Random(str(keys))
    rows = some_rows(dice, 900, 12)
    buckets = Buckets(np.array([-5, 40, 41, 250]), pa.array([0, 40, 41, 250], pa.timestamp("us")))
    reducer = Reducer("ts", [*keys, buckets], dict(enumerate(STATES)), SCHEMA)
    parts: list[dict[str, Any]] = []
    for number, first in enumerate(range(0, 900, 150)):
        batch = batch_of(rows[first : first + 150]).select(list(reducer.columns))
        if coded and "s" in batch.schema.names:
            at = batch.schema.get_field_index("s")
            batch = batch.set_column(at, "s", batch.column("s").dictionary_encode())
        found = reducer.reduce(batch, number)
        assert found.schema.names == reducer.schema.names
        for at, field in enumerate(reducer.schema):
            kind = found.schema.types[at]
            assert (kind.value_type if pa.types.is_dictionary(kind) else kind) == field.type
            part = found.column(at)
            column = part if not pa.types.is_timestamp(field.type) else part.cast(pa.int64())
            values = column.cast(pa.int32()) if pa.types.is_date32(field.type) else column
            for row, value in enumerate(values.to_pylist()):
                if at == 0 and row == 0:
                    parts += [{} for _ in range(found.num_rows)]
                parts[len(parts) - found.num_rows + row][field.name] = value
    of_parts: dict[Any, list[dict[str, Any]]] = {}
    of_rows: dict[Any, list[dict[str, Any]]] = {}
    for part in parts:
        names = [*keys, f"#bucket {len(keys)}"]
        of_parts.setdefault(tuple(alike(part[name]) for name in names), []).append(part)
    for row in rows:
        bucket = next(each for each in (250, 41, 40, 0) if row["ts"] >= each or not each)
        of_rows.setdefault((*(alike(row[name]) for name in keys), bucket), []).append(row)
    assert of_parts.keys() == of_rows.keys()
    for key, own in of_rows.items():
        for at, state in enumerate(STATES):
            told = merged(state, state_name(at), of_parts[key])
            assert alike(told) == alike(expected(state, own)), (key, state)


def test_rows_of_groups_of_their_own_are_passed_on() -> None:
    rows = 1 << 17
    columns = [np.arange(rows), np.arange(rows) * 7919 - (1 << 40), np.arange(rows) / 4]
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.float64())])
    batch = pa.RecordBatch.from_arrays([pa.array(each) for each in columns], schema=schema)
    reducer = Reducer("ts", ["k"], {0: State("sum", "x"), 1: State("count", None)}, schema)
    for number in range(2):
        found = reducer.reduce(batch, number)
        assert found["k"].equals(batch["k"])
        assert found["#0"].equals(batch["x"])
        assert found["#1"].to_pylist() == [1] * rows


def test_only_states_that_are_wanted_are_kept() -> None:
    reducer = Reducer("ts", ["s"], {0: State("sum", "f"), 1: State("avg", "i")}, SCHEMA)
    assert reducer.narrowed(["s", "#1 rows"]).columns == ("s", "i")
    assert reducer.narrowed(["s"]).columns == ("s",)


@pytest.mark.parametrize("count", [3, 1_000, 20_000, 300_000, 10_000_000])
def test_how_many_groups_are_likely(count: int) -> None:
    """Few rows tell how many groups many rows have, as far as they tell at all."""
    dice = np.random.default_rng(count)
    keys = dice.integers(0, count, 1 << 18)
    seen, found = (len(np.unique(keys[:rows])) for rows in (1 << 13, 1 << 18))
    assert groups.likely_groups(1 << 18, 1 << 13, seen) == pytest.approx(found, rel=0.2)
    assert groups.likely_groups(1 << 13, 1 << 13, seen) == pytest.approx(seen, abs=1)

"""Rows put in order in memory: as DuckDB orders them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tidelog.operators.rowpattern import sorting
from tidelog.operators.rowpattern.sorting import can_sort, sorted_batches
from tidelog.operators.rowpattern.syntax import OrderKey, RowPattern, Variable

Dice = np.random.Generator
DAY = datetime.date(2026, 1, 1)
KINDS: dict[str, tuple[pa.DataType, Callable[[Dice], Any]]] = {
    "small": (pa.int64(), lambda dice: int(dice.integers(-3, 4))),
    "narrow": (pa.int8(), lambda dice: int(dice.integers(-128, 128))),
    "wide": (pa.int64(), lambda dice: int(dice.choice([-(2**63), 2**63 - 1, 0, 5, -7]))),
    "large": (pa.int64(), lambda dice: int(dice.integers(0, 2**40))),
    "without_sign": (pa.uint32(), lambda dice: int(dice.choice([0, 2**32 - 1, 9]))),
    "flag": (pa.bool_(), lambda dice: bool(dice.integers(2))),
    "text": (pa.string(), lambda dice: str(dice.choice(["", "a", "B", "\u00e4", "ab", "\U0001f30a", "z"]))),
    "dated": (pa.date32(), lambda dice: DAY + datetime.timedelta(days=int(dice.integers(-9, 9)))),
    "moment": (pa.timestamp("us"), lambda dice: datetime.datetime(2026, 1, 1, 0, 0, int(dice.integers(0, 9)))),
}
SCHEMA = pa.schema([("n", pa.int64()), *((name, kind) for name, (kind, _) in KINDS.items())])


def rows(dice: Dice, count: int) -> pa.Table:
    """Random values, a tenth of them null in some columns, which have some chunks."""
    columns = [pa.array(np.arange(count))]
    for kind, make in KINDS.values():
        nulls = dice.choice([0.0, 0.1])
        columns.append(pa.array([None if dice.random() < nulls else make(dice) for _ in range(count)], kind))
    table = pa.table(columns, schema=SCHEMA)
    cut = int(dice.integers(0, count + 1))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


@pytest.mark.parametrize("seed", range(25))
def test_rows_are_in_the_order_of_a_database(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_BATCH", 17)
    dice = np.random.default_rng(seed)
    for _ in range(8):
        table = rows(dice, int(dice.choice([0, 1, 2, 60, 300])))
        partition = tuple(map(str, dice.choice(list(KINDS), int(dice.integers(0, 4)), replace=False)))
        keys = [str(each) for each in dice.choice([each for each in KINDS if each != "text"], int(dice.integers(0, 3)))]
        order = tuple(OrderKey(each, bool(dice.integers(2)), bool(dice.integers(2))) for each in keys)
        if dice.integers(3) == 0:
            order = (OrderKey("n"),)
        query = RowPattern(SCHEMA, Variable("A"), partition=partition, order=order)
        assert can_sort(query)
        texts = list(partition)
        for each in order:
            way, nulls = "DESC" if each.is_descending else "ASC", "FIRST" if each.nulls_first else "LAST"
            texts.append(f"{each.column} {way} NULLS {nulls}")
        wanted = duckdb.sql(f'SELECT n FROM "table" ORDER BY {", ".join([*texts, "n"])}').fetchall()
        found = [each for batch in sorted_batches(query, table) for each in batch.to_pylist()]
        assert [each["n"] for each in found] == [n for (n,) in wanted], (partition, order)
        assert found == table.take(pa.array([n for (n,) in wanted], pa.int64())).to_pylist()


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(9, 2), pa.binary(), pa.uint64()])
def test_other_keys_are_left_to_the_database(kind: pa.DataType) -> None:
    schema = pa.schema([("n", pa.int64()), ("k", kind)])
    assert not can_sort(RowPattern(schema, Variable("A"), partition=("k",), order=(OrderKey("n"),)))
    assert not can_sort(RowPattern(schema, Variable("A"), order=(OrderKey("k"),)))

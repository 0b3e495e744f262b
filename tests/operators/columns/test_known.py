"""Looking up values, against a dictionary of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.operators.base import Shape
from tidelog.operators.columns import known as known_module
from tidelog.operators.columns.known import known_values
from tidelog.operators.keys import Keys


def _texts(dice: np.random.Generator, count: int) -> list[Any]:
    """Short and long ones that differ in any byte, by zeros and by length alone; some are NULL."""
    letters = np.array(["a", "b", "\0", "é", "longer than eight bytes "])
    return [
        None if dice.random() < 0.05 else "".join(letters[dice.integers(0, len(letters), int(size))])
        for size in dice.integers(0, 6, count)
    ]


def _integers(dice: np.random.Generator, count: int) -> list[Any]:
    return [None if dice.random() < 0.05 else int(each) for each in dice.integers(-100, 100, count)]


def _floats(dice: np.random.Generator, count: int) -> list[Any]:
    values = np.array([0.0, -0.0, 1.5, float("nan"), float("inf"), *np.arange(50) / 4])
    return [None if dice.random() < 0.05 else float(each) for each in dice.choice(values, count)]


@pytest.mark.parametrize(
    ("type_", "make"),
    [
        (pa.string(), _texts),
        (pa.int64(), _integers),
        (pa.int8(), _integers),
        (pa.timestamp("us"), _integers),
        (pa.float64(), _floats),
        (pa.float32(), _floats),
        (pa.dictionary(pa.int32(), pa.string()), _texts),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_keys_of_many_rows(type_: pa.DataType, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches large enough for kernels, and others between them, give keys the numbers that Python gives them."""
    monkeypatch.setattr(known_module, "_TOGETHER", 128)  # so that threads divide the larger ones
    dice = np.random.default_rng(60)
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False), ("k", type_)]), "ts")
    keys = Keys(of, ["k"])
    known: dict[Any, int] = {}
    for count in (3, 700, 300, 5, 2000, 1, 4000):
        values = make(dice, count)
        batch = pa.RecordBatch.from_arrays([pa.array(range(count)), pa.array(values, type_)], schema=of.schema)
        start = int(dice.integers(0, count))
        got = keys.encode(batch, 3).tolist() + keys.encode(batch.slice(start)).tolist()
        named = ["nan" if value != value else value for value in values]
        assert got == [known.setdefault(value, len(known)) for value in named + named[start:]]
        if count == 2000:  # all but some are forgotten
            kept = np.sort(dice.choice(len(known), len(known) // 2, replace=False))
            numbers = keys.keep(kept)
            known = {value: int(numbers[number]) for value, number in known.items() if numbers[number] >= 0}


def test_tables_grow() -> None:
    dice = np.random.default_rng(61)
    for type_, values in (
        (pa.int64(), dice.permutation(20_000)),
        (pa.string(), [f"{each}{'-' * (each % 13)}" for each in dice.permutation(20_000).tolist()]),
    ):
        known = known_values(type_)
        assert known is not None
        column = pa.array(values, type_)
        assert (known.find(column) == -1).all()
        for first in range(0, 15_000, 1_000):
            known.add(column.slice(first, 1_000), np.arange(first, first + 1_000))
        assert known.find(column).tolist() == [*range(15_000), *([-1] * 5_000)]


def test_values_without_tables() -> None:
    assert known_values(pa.decimal128(10, 2)) is None
    assert known_values(pa.bool_()) is None

"""Gathering, against lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidelog.operators.columns.memory import gathered


@pytest.mark.parametrize("type_", [pa.string(), pa.binary(), pa.large_string(), pa.int64()], ids=str)
def test_against_lists(type_: pa.DataType) -> None:
    """Texts of all lengths up to three words, at any place of memory, some of them missing or NULL."""
    dice = np.random.default_rng(62)
    for round_ in range(60):
        sizes = dice.integers(0, 26, int(dice.integers(1, 40)))
        texts = ["".join(chr(97 + int(each)) for each in dice.integers(0, 26, int(size))) for size in sizes]
        values = list(sizes.tolist()) if type_ == pa.int64() else texts
        if type_ == pa.binary():
            values = [text.encode() for text in texts]
        if round_ % 3 == 0:
            values = [None if dice.random() < 0.2 else value for value in values]
        first = int(dice.integers(0, len(values)))
        column = pa.array(values, type_).slice(first, int(dice.integers(1, len(values) - first + 1)))
        places = dice.integers(-1 if round_ % 2 else 0, len(column), int(dice.integers(0, 100)))
        known = column.to_pylist()
        twice = gathered([column, column], places)
        for found in twice:
            found.validate(full=True)
            assert found.type == type_
            assert found.to_pylist() == [None if place < 0 else known[place] for place in places.tolist()]

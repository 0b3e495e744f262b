"""Lookup joins, against pairs row by row."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import dicts, rows, shape
from tidelog.model.errors import SchemaError
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.join.lookup import Lookup


@pytest.mark.parametrize("by", [{"k": "site"}, {"k": "site", "n": "m"}, {"x": "w"}], ids=str)
@pytest.mark.parametrize("outer", [False, True])
def test_lookups(by: dict[str, str], outer: bool) -> None:
    dice = np.random.default_rng(5)
    of = shape()
    for size in (0, 1, 25):
        table = pa.table(
            {
                "site": pa.array([["a", "b", "c", "", None][each] for each in dice.integers(0, 5, size)], pa.string()),
                "m": pa.array(dice.integers(-2, 3, size), pa.int64(), mask=dice.random(size) < 0.2),
                "w": pa.array(dice.integers(-8, 9, size) / 8, pa.float64()),
                "v": pa.array(np.arange(size), pa.int64()),
            }
        )
        batch = rows(of, dice, 40)
        found = OperatorConformance(partial(Lookup, of, table, by, outer=outer)).check([batch], dice, rounds=2)
        expected = []
        for row in dicts(in_order(of, batch)):
            partners = [
                tuple(other.values())
                for other in table.to_pylist()
                if all(row[one] is not None and row[one] == other[two] for one, two in by.items())
            ]
            partners = partners or ([(None,) * 4] if outer else [])
            expected += [(*row.values(), *each) for each in partners]
        assert found == expected


def test_what_cannot_be() -> None:
    of = shape()
    with pytest.raises(SchemaError, match="no column 'q' to join by"):
        Lookup(of, pa.table({"q": ["a"]}), {"q": "q"})
    with pytest.raises(SchemaError, match="string and int64"):
        Lookup(of, pa.table({"q": [1]}), {"k": "q"})
    with pytest.raises(SchemaError, match="both sides of a join have a column 'k'"):
        Lookup(of, pa.table({"k": ["a"]}), {"k": "k"})

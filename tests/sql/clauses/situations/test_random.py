"""Random queries about situations as texts, over random rows, against the definitions."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.situations import columns
from support.situations.queries import random_query, random_rows
from support.situations.written import parts_of
from tidelog.operators.situations.syntax import Mode

KEYS = 60


def check(seed: int) -> int:
    """Compare one random query in random rows, which come in any order of keys; how many matches there were."""
    dice = np.random.default_rng(seed)
    rows = random_rows(dice, KEYS, int(dice.integers(6, 16)), ends=dice.random() < 0.6)
    mode = Mode.EARLY if dice.random() < 0.5 else Mode.COMPLETED
    query, kinds, constraints = random_query(dice, rows, mode)
    expected = columns.expected(rows, query, kinds, constraints)
    text = f"SELECT * FROM t SITUATIONS ({parts_of(query, dice)})"
    table = tidelog.sql(text, tables={"t": pa.Table.from_batches([rows])}).arrow()
    found = columns.found(table.to_batches(), query)
    assert np.array_equal(found, expected), f"seed {seed}: {text}"
    return len(found)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_queries(first: int) -> None:
    """Statements with all relations, bounds and both modes give what the definitions say."""
    assert sum(check(seed) for seed in range(first, first + 20)) > 100


@pytest.mark.soak
def test_many_random_queries() -> None:
    """The same, for long."""
    count = int(os.environ.get("TIDELOG_SITUATIONS", "2000"))
    assert sum(check(seed) for seed in range(1000, 1000 + count)) > 5 * count

"""Random queries about situations as texts, over random rows, against the definitions."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from support.situations import columns
from support.situations.oracle import situations
from support.situations.queries import of_key, random_query, random_rows
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


@pytest.mark.parametrize("seed", range(6))
def test_random_queries_of_what_arrives(tmp_path: Path, seed: int) -> None:
    """Appended in pieces of random sizes, in the order of time; and by what is read of the stream afterwards."""
    dice = np.random.default_rng(500 + seed)
    rows = random_rows(dice, 20, 12)
    query, kinds, constraints = random_query(dice, rows, Mode.EARLY if seed % 2 else Mode.COMPLETED)
    expected = columns.expected(rows, query, kinds, constraints)
    text = f"SELECT * FROM t SITUATIONS ({parts_of(query, dice)})"
    with tidelog.open(tmp_path, maintenance="manual") as store:
        stream = store.create_stream("t", rows.schema, "t")
        with store.subscribe(text) as subscription:
            first = 0
            while first < rows.num_rows:
                size = int(dice.integers(1, 60))
                stream.append(rows.slice(first, size))
                first += size
            store.flush()
            subscription.finish()
            arrived = list(subscription)
        stored = store.sql(text).arrow().to_batches()
    assert np.array_equal(columns.found(arrived, query), expected), text
    assert np.array_equal(columns.found(stored, query), expected), text


@pytest.mark.parametrize("seed", range(12))
def test_random_situations_alone(seed: int) -> None:
    """Those of each definition and key, with the number of their rows, one row at a time."""
    dice = np.random.default_rng(700 + seed)
    rows = random_rows(dice, 15, 20, ends=seed % 2 == 0)
    query, kinds, _ = random_query(dice, rows, Mode.COMPLETED)
    parts = parts_of(query, dice).partition("\nPATTERN")[0]
    text = f"SELECT * FROM t DERIVE ({parts} RETURN count(*) AS n, min(t) AS first)"
    found = tidelog.sql(text, tables={"t": pa.Table.from_batches([rows])}).arrow().to_pylist()
    expected = []
    for key in range(15):
        times, holds = of_key(rows, key)
        for definition, own, kind in zip(query.definitions, holds, kinds, strict=False):
            expected += [
                {
                    "k": key,
                    "situation": definition.name,
                    "start_time": each.start,
                    "end_time": each.end,
                    "first": each.start,
                }
                for each in situations(times, own, kind)
            ]
    assert [row["end_time"] for row in found] == sorted(row["end_time"] for row in found)
    counts = [row.pop("n") for row in found]
    assert min(counts, default=1) > 0
    assert sorted(map(repr, found)) == sorted(map(repr, expected)), text


@pytest.mark.soak
def test_many_random_queries() -> None:
    """The same, for long."""
    count = int(os.environ.get("TIDELOG_SITUATIONS", "2000"))
    assert sum(check(seed) for seed in range(1000, 1000 + count)) > 5 * count

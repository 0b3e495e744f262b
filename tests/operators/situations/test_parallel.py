"""Situations by several threads: the same rows, in the same order, as by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from operators.situations.test_operator import check_patterns, everything
from support.situations import columns
from support.situations.queries import SHAPE, random_query, random_rows
from tidelog.operators.base import Operator
from tidelog.operators.situations import matching
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.syntax import Mode, Situations


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is worth it."""
    monkeypatch.setattr(matching, "_LEAST_ROWS", 1)


def threaded(query: Situations, threads: int) -> Operator:
    operator = SituationsOperator(SHAPE, query)
    operator.use_threads(threads)
    return operator


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_keys_are_divided(threads: int) -> None:
    assert check_patterns(threads, 20, lambda query: threaded(query, threads)) > 0


def alone(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as those of a single key."""
    zeros = pa.array(np.zeros(rows.num_rows, np.int64))
    return pa.record_batch([zeros, *rows.columns[1:]], schema=rows.schema)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(4))
def test_time_is_divided(seed: int) -> None:
    """Without keys; situations cross the borders of parts, end with the first row of one, or last for several."""
    dice = np.random.default_rng(seed)
    matches = 0
    for _ in range(12):
        rows = random_rows(dice, 1, int(dice.integers(20, 90)), ends=dice.random() < 0.5, ties=dice.random() < 0.5)
        mode = Mode.EARLY if dice.random() < 0.6 else Mode.COMPLETED
        query, kinds, constraints = random_query(dice, rows, mode, partition=())
        expected = columns.expected(alone(rows), query, kinds, constraints)
        size = int(dice.choice([11, 40, 1000]))
        ordered = everything(threaded(query, 1), rows, size)
        for threads in (2, 5, 30):
            batches = everything(threaded(query, threads), rows, size)
            assert np.array_equal(columns.found(batches, query), expected), query
            assert [row for each in batches for row in each.to_pylist()] == [
                row for each in ordered for row in each.to_pylist()
            ]
        matches += len(expected)
    assert matches


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("mode", Mode)
def test_states_of_threads_are_those_of_one(mode: Mode) -> None:
    """A snapshot does not tell by how many threads it was made."""
    dice = np.random.default_rng(9)
    rows = random_rows(dice, 1, 200)
    query = random_query(dice, rows, mode, partition=())[0]
    one, many = threaded(query, 1), threaded(query, 4)
    for operator in (one, many):
        operator.push(0, rows)
        operator.advance(int(np.asarray(rows.column("t"))[150]))
    ours, theirs = one.snapshot(), many.snapshot()
    assert {name: bytes(each) for name, each in ours.chunks.items()} == {
        name: bytes(each) for name, each in theirs.chunks.items()
    }


@pytest.mark.parametrize("partition", [(), ("k",)])
def test_large_batches_are_divided(partition: tuple[str, ...]) -> None:
    """Of their own accord: what lies in 2^14 rows is worth a thread."""
    dice = np.random.default_rng(4)
    rows = random_rows(dice, 1 if not partition else 35, 70_000 if not partition else 2_000, ties=False)
    query = random_query(dice, random_rows(dice, 1, 60), Mode.EARLY, partition=partition)[0]
    one, four = (everything(threaded(replace(query, within=60), threads), rows, 70_000) for threads in (1, 4))
    assert pa.Table.from_batches(one).num_rows
    assert pa.Table.from_batches(one).equals(pa.Table.from_batches(four))

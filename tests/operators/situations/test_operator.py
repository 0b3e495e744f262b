"""Patterns of situations against an oracle: which matches there are, when each is known, and what it tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.situations import columns
from support.situations.oracle import Kind, completed, early, situations
from support.situations.queries import SHAPE, of_key, random_query, random_rows
from tidelog.model.times.clock import INT64_MAX
from tidelog.operators.base import Batches, Operator
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.syntax import Mode, Situations

KEYS = 120


def everything(operator: Operator, rows: pa.RecordBatch, size: int) -> Batches:
    """What comes out of rows that are pushed so many at a time."""
    found: Batches = []
    for first in range(0, rows.num_rows, size):
        part = rows.slice(first, size)
        found += operator.push(0, part)
        found += operator.advance(int(np.asarray(part.column("t"))[-1]))
    return found + operator.finish()


def check_patterns(seed: int, patterns: int, make: Callable[[Situations], Operator] | None = None) -> int:
    """Random patterns over random rows of many keys; how many matches there were."""
    dice = np.random.default_rng(seed)
    matches = 0
    for _ in range(patterns):
        rows = random_rows(dice, KEYS, int(dice.integers(6, 16)), ends=dice.random() < 0.6)
        mode = Mode.EARLY if dice.random() < 0.6 else Mode.COMPLETED
        query, kinds, constraints = random_query(dice, rows, mode)
        expected = columns.expected(rows, query, kinds, constraints)
        operator = SituationsOperator(SHAPE, query) if make is None else make(query)
        batches = everything(operator, rows, int(dice.choice([7, 50, 200, 10_000, 10_000])))
        found = columns.found(batches, query)
        assert np.array_equal(found, expected), query
        times = np.concatenate([[0], *(np.asarray(batch.column("match_time")) for batch in batches)])
        assert (np.diff(times) >= 0).all()
        matches += len(found)
    return matches


@pytest.mark.parametrize("seed", range(10))
def test_random_patterns(seed: int) -> None:
    """120 keys a pattern: 30,000 cases."""
    assert check_patterns(seed, 25) > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_many_random_patterns(seed: int) -> None:
    assert check_patterns(seed, 500) > 0


def plain(
    rows: pa.RecordBatch, query: Situations, kinds: list[Kind], constraints: dict[tuple[int, int], set[str]]
) -> list[tuple[int, ...]]:
    """Keys, times, starts and ends of matches, one row and one pair at a time."""
    found = []
    for key in range(KEYS):
        times, holds = of_key(rows, key)
        streams = [situations(times, own, kind) for own, kind in zip(holds, kinds, strict=False)]
        search = early if query.mode is Mode.EARLY else completed
        for members, instant in search(streams, constraints, query.within):
            bounds = [(own.start, own.end if own.end <= instant else -1) for own in members]
            found.append((key, instant, *(each for own in bounds for each in own)))
    return sorted(found)


@pytest.mark.parametrize("seed", range(10))
def test_the_oracle_of_columns_is_the_one_of_definitions(seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows = random_rows(dice, KEYS, int(dice.integers(6, 16)))
    query, kinds, constraints = random_query(dice, rows, Mode.EARLY if seed % 2 else Mode.COMPLETED)
    table: Any = columns.expected(rows, query, kinds, constraints)
    own = [0, 1, *(2 + 4 * number + part for number in range(len(kinds)) for part in (0, 1))]
    assert plain(rows, query, kinds, constraints) == sorted(map(tuple, table[:, own].tolist()))


@pytest.mark.parametrize("seed", range(3))
def test_the_last_instant_is_one_like_others(seed: int) -> None:
    """What goes on at the last time that can be counted has not ended there."""
    dice = np.random.default_rng(50 + seed)
    matches = 0
    for _ in range(20):
        rows = random_rows(dice, KEYS, int(dice.integers(4, 9)), ends=False)
        # All keys have their last row at the same time.
        last = int(np.asarray(rows.column("t")).max())
        query, kinds, constraints = random_query(dice, rows, Mode.EARLY if dice.random() < 0.7 else Mode.COMPLETED)
        keys, times = (np.asarray(rows.column(name)).copy() for name in ("k", "t"))
        for key in range(KEYS):
            own = keys == key
            times[own] += last - times[own].max()
        rows = rows.set_column(1, "t", pa.array(times)).take(pa.array(np.argsort(times, kind="stable")))
        expected = columns.expected(rows, query, kinds, constraints)
        moved = rows.set_column(1, "t", pa.array(np.asarray(rows.column("t")) + (INT64_MAX - last)))
        table = columns.found(everything(SituationsOperator(SHAPE, query), moved, 10_000), query)
        for column in (1, *(2 + 4 * number + part for number in range(len(kinds)) for part in (0, 1))):
            table[:, column] -= np.where(table[:, column] == -1, 0, INT64_MAX - last)
        assert np.array_equal(columns.in_order(table), expected), query
        matches += len(expected)
    assert matches

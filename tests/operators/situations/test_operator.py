"""Patterns of situations against an oracle, and in all runtimes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.situations.oracle import Kind, completed, early, situations
from support.situations.queries import NAMES, SHAPE, of_key, random_query, random_rows
from tidelog.operators.base import Operator
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.syntax import (
    Mode,
)

KEYS = 40


def everything(operator: Operator, rows: pa.RecordBatch, size: int) -> list[dict[str, Any]]:
    """What comes out of rows that are pushed so many at a time."""
    found: list[dict[str, Any]] = []
    for first in range(0, rows.num_rows, size):
        part = rows.slice(first, size)
        for batch in (*operator.push(0, part), *operator.advance(int(np.asarray(part.column("t"))[-1]))):
            found += batch.to_pylist()
    for batch in operator.finish():
        found += batch.to_pylist()
    return found


def expected_rows(
    rows: pa.RecordBatch, kinds: list[Kind], constraints: dict[tuple[int, int], set[str]], within: int, mode: Mode
) -> list[dict[str, Any]]:
    found = []
    for key in range(KEYS):
        times, holds = of_key(rows, key)
        streams = [situations(times, own, kind) for own, kind in zip(holds, kinds, strict=False)]
        search = early if mode is Mode.EARLY else completed
        for members, instant in search(streams, constraints, within):
            row: dict[str, Any] = {"k": key, "match_time": instant}
            for name, own, on in zip(NAMES, members, holds, strict=False):
                is_open = own.end > instant
                row[f"{name}_start_time"] = own.start
                row[f"{name}_end_time"] = None if is_open else own.end
                row[f"rows_{name}"] = counted(times, on, own.start, instant)
                if mode is Mode.EARLY:
                    row[f"{name}_is_open"] = is_open
            found.append(row)
    return found


def counted(times: list[int], holds: list[bool], start: int, instant: int) -> int:
    """The rows, up to an instant, of the situation that starts at a time."""
    run: list[int] | None = None
    for time, is_on in zip(times, holds, strict=True):
        if is_on:
            run = [*(run or []), time]
        elif run is not None:
            if run[0] == start and time > start:
                return sum(each <= instant for each in run)
            run = None
    raise AssertionError("it ends, for the last row ends everything")


def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def check_patterns(seed: int, patterns: int) -> int:
    dice = np.random.default_rng(seed)
    matches = 0
    for _ in range(patterns):
        rows = random_rows(dice, KEYS, int(dice.integers(6, 16)))
        mode = Mode.EARLY if dice.random() < 0.6 else Mode.COMPLETED
        query, kinds, constraints = random_query(dice, rows, mode)
        expected = expected_rows(rows, kinds, constraints, query.within, mode)
        size = int(dice.choice([7, 50, 10_000]))
        found = everything(SituationsOperator(SHAPE, query), rows, size)
        assert sorted_rows(found) == sorted_rows(expected), query
        times = [row["match_time"] for row in found]
        assert times == sorted(times)
        matches += len(found)
    return matches


@pytest.mark.parametrize("seed", range(25))
def test_random_patterns(seed: int) -> None:
    assert check_patterns(seed, 20) > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_many_random_patterns(seed: int) -> None:
    assert check_patterns(seed, 200) > 0

"""Random row patterns over random rows, against the definition of what they match."""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from support.row_patterns.maker import Maker, Statement, in_order, plain, rows, table_of, tied
from support.row_patterns.oracle import Oracle, SkipError, TooMuch
from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.syntax import Rows

PARTITIONS = 160


def asked(statement: Statement, table: pa.Table) -> dict[int, list[tuple[Any, ...]]]:
    """What comes out, by partitions."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for g, *values in tidelog.sql(statement.text, tables={"t": table}).fetchall():
        found.setdefault(g, []).append(tuple(map(plain, values)))
    return found


def check(seed: int, *, timeouts: bool = False) -> int:
    """Compare one random statement on random partitions; how many there were."""
    draw = random.Random(seed)
    statement = Maker(draw, timeouts=timeouts).statement()
    has_numbers = statement.query.rows is not Rows.ONE
    partitions = {}
    expected = {}
    wrong = {}
    for g in range(PARTITIONS):
        own = draw.choice([rows, tied])(draw, draw.choice([0, 1, 2, 3, 4, 5, 6, 7]))
        seen = in_order(own, statement.order)
        try:
            found = Oracle(statement.query, seen).output()
        except TooMuch:
            continue
        except SkipError:
            wrong = {g: own}
            continue
        partitions[g] = own
        told = [(*([seen[row]["i"]] if has_numbers else []), *map(plain, values)) for row, *values in found]
        if told:
            expected[g] = told
    found = asked(statement, table_of(partitions, draw))
    if statement.query.rows is Rows.WITH_UNMATCHED:
        found = {g: sorted(each, key=repr) for g, each in found.items()}
        expected = {g: sorted(each, key=repr) for g, each in expected.items()}
    for g, own in partitions.items():
        assert found.get(g, []) == expected.get(g, []), f"seed {seed}: {statement.text}\n{own}"
    if wrong:
        with pytest.raises(PatternError):
            asked(statement, table_of(wrong, draw))
    return len(partitions)


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_patterns(first: int) -> None:
    """Statements of random constructs match what the definition says, in each of many partitions."""
    assert sum(check(seed) for seed in range(first, first + 20)) > 1600


@pytest.mark.parametrize("first", range(2000, 2060, 20))
def test_random_patterns_with_timeouts(first: int) -> None:
    """The same, where partial matches that timed out are wanted."""
    assert sum(check(seed, timeouts=True) for seed in range(first, first + 20)) > 1600


@pytest.mark.soak
def test_many_random_patterns() -> None:
    """The same, for long."""
    count = int(os.environ.get("TIDELOG_PATTERNS", "2000"))
    assert sum(check(seed, timeouts=seed % 4 == 0) for seed in range(10_000, 10_000 + count)) > 15 * count

"""Random row patterns of windows over random rows, against the definition of what they match."""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from support.row_patterns.maker import Maker, plain, rows, table_of
from support.row_patterns.oracle import SkipError, TooMuch
from support.row_patterns.windows import WindowStatement, random_window
from tidelog.operators.rowpattern.errors import PatternError

PARTITIONS = 40


def asked(statement: WindowStatement, table: pa.Table) -> dict[int, list[tuple[Any, ...]]]:
    """What comes out, by partitions."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for g, *values in tidelog.sql(statement.text, tables={"t": table}).fetchall():
        found.setdefault(g, []).append(tuple(map(plain, values)))
    return found


def check(seed: int) -> int:
    """Compare one random statement on random partitions; how many there were."""
    draw = random.Random(seed)
    statement = random_window(Maker(draw))
    partitions = {}
    expected = {}
    wrong = {}
    for g in range(PARTITIONS):
        own = rows(draw, draw.choice([1, 2, 3, 4, 5, 6, 7]))
        try:
            expected[g] = [tuple(map(plain, each)) for each in statement.output(own)]
        except TooMuch:
            continue
        except SkipError:
            wrong = {g: own}
            continue
        partitions[g] = own
    found = asked(statement, table_of(partitions, draw))
    for g, own in partitions.items():
        assert found.get(g, []) == expected[g], f"seed {seed}: {statement.text}\n{own}"
    if wrong:
        with pytest.raises(PatternError):
            asked(statement, table_of(wrong, draw))
    return len(partitions)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_windows(first: int) -> None:
    """Statements of random constructs give what the definition says, in each of many partitions."""
    assert sum(check(seed) for seed in range(first, first + 20)) > 400


@pytest.mark.soak
def test_many_random_windows() -> None:
    """The same, for long."""
    count = int(os.environ.get("TIDELOG_PATTERNS", "500"))
    assert sum(check(seed) for seed in range(1000, 1000 + count)) > 15 * count

"""One sequence in ranges of time: the same rows as of one search."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators.rowpattern.test_evaluate import SCHEMA, random_case, some
from support.row_patterns.oracle import Oracle, SkipError, TooMuch
from tidelog import threads
from tidelog.operators.rowpattern.compiling import RowPatternQuery, compile_query
from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.ranges import parallel, ranges
from tidelog.operators.rowpattern.ranges.parallel import evaluate_in_ranges
from tidelog.operators.rowpattern.ranges.ranges import Range, linked, needs_links, one_search_because
from tidelog.operators.rowpattern.syntax import (
    Concatenation,
    MatchNumber,
    OrderKey,
    Quantified,
    RowPattern,
    Rows,
    Skip,
    Variable,
)

Found = list[dict[str, Any]]
ASKED = 900_011
"""A pattern with a condition that no kernel holds."""


def rows_of(dice: np.random.Generator, count: int) -> pa.RecordBatch:
    values = pa.array([None if dice.integers(9) == 0 else int(dice.integers(1, 5)) for _ in range(count)], pa.int64())
    letters = pa.array([some(dice, ["a", "b", "c", None]) for _ in range(count)])
    times = pa.array(np.cumsum(dice.integers(0, 3, count)))
    return pa.record_batch([["k"] * count, times, values, values.cast(pa.float64()), letters], schema=SCHEMA)


def in_ranges(query: RowPatternQuery, rows: pa.RecordBatch, borders: list[int], *, twice: bool) -> Found:
    """What ranges give; with ``twice`` those who render have not searched, and None of an error is told as such."""
    times = np.asarray(rows.column("t"))
    within = query.pattern.within
    assert within is not None

    def tasks() -> list[Range]:
        found = []
        for begin, end in pairwise([None, *borders, None]):
            low = 0 if begin is None else max(int(np.searchsorted(times, begin)) - query.conditions.behind, 0)
            high = len(times)
            if end is not None:
                high = min(int(np.searchsorted(times, end + within, side="right")) + query.conditions.ahead, len(times))
            found.append(Range.between(query, rows.slice(low, high - low), begin, end))
        return found

    own = tasks()
    entries = linked([task.links() for task in own])
    if entries is not None:
        batches = [task.rendered(*each) for task, each in zip(tasks() if twice else own, entries, strict=True)]
    else:
        entry, number, batches = 0, 1, []
        for task in own:
            batch, entry, number = task.searched(entry, number)
            batches.append(batch)
    assert all(batch.schema == query.pattern.output for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def in_threads(query: RowPatternQuery, rows: pa.RecordBatch, size: int) -> Found:
    parts = [rows.slice(first, size) for first in range(0, rows.num_rows, size)]
    return [row for batch in evaluate_in_ranges(query, parts) for row in batch.to_pylist()]


def one_by_one(query: RowPatternQuery, rows: pa.RecordBatch) -> Found:
    return [row for batch in evaluate(query, [rows]) for row in batch.to_pylist()]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Ranges of few rows."""
    monkeypatch.setattr(parallel, "_ROWS", 4)
    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    monkeypatch.setattr(threads, "THREADS", 2)
    return monkeypatch


@pytest.mark.parametrize("part", range(2))
def test_random_patterns(part: int, small: pytest.MonkeyPatch) -> None:
    done, reasons = 0, set()
    for seed in [*range(100 * part, 100 * (part + 1)), ASKED]:
        dice = np.random.default_rng(seed)
        pattern = replace(random_case(dice)[0], partition=(), within=int(dice.integers(1, 6)))
        query = compile_query(pattern)
        reasons.add(one_search_because(query))
        if one_search_because(query) is not None:
            continue
        rows = rows_of(dice, 30)
        first, last = (int(rows.column("t")[place].as_py()) for place in (0, -1))
        borders = sorted({int(each) for each in dice.integers(first + 1, last + 3, int(dice.integers(1, 5)))})
        try:
            expected = one_by_one(query, rows)
        except PatternError:
            with pytest.raises(PatternError):
                in_threads(query, rows, 3)
            continue
        assert in_ranges(query, rows, borders, twice=False) == expected, (seed, borders)
        assert in_ranges(query, rows, borders, twice=True) == expected, (seed, borders)
        assert in_threads(query, rows, int(dice.integers(1, 9))) == expected, seed
        done += 1
    assert done > 40
    assert len(reasons) > 3


def test_the_definition(small: pytest.MonkeyPatch) -> None:
    """What is compared with one search above is here compared with all candidates in the order of preference."""
    small.setattr(parallel, "_ROWS", 2)
    done = 0
    for seed in range(200, 320):
        dice = np.random.default_rng(seed)
        own, theirs, _ = random_case(dice)
        within = int(dice.integers(1, 4))
        query = compile_query(replace(own, partition=(), within=within))
        if one_search_because(query) is not None or own.rows is Rows.WITH_UNMATCHED:
            continue
        rows = rows_of(dice, 11)
        try:
            wanted = Oracle(replace(theirs, within=("t", within)), rows.to_pylist()).output()
        except (TooMuch, SkipError):
            continue
        names = [*(each.name for each in own.measures), *(["timed_out"] if own.with_timeouts else [])]
        found = [tuple(map(plain, (row[name] for name in names))) for row in in_threads(query, rows, 3)]
        assert found == [tuple(map(plain, row[1:])) for row in wanted], seed
        done += 1
    assert done > 25


def plain(value: Any) -> Any:
    return int(value) if hasattr(value, "as_tuple") else value


def pairs(count: int, first: int = 0) -> pa.RecordBatch:
    """Rows that all fit, one every tick."""
    return pa.record_batch(
        [["k"] * count, pa.array(np.arange(count) + first), [1] * count, [1.0] * count, ["a"] * count], schema=SCHEMA
    )


def measured(pattern: RowPattern) -> RowPatternQuery:
    """With the first time as a measure."""
    return compile_query(replace(pattern, measures=random_case(np.random.default_rng(1))[0].measures[2:3]))


def test_where_a_range_begins_depends_on_all_before_it(small: pytest.MonkeyPatch) -> None:
    """Pairs of rows that all fit: whether a range begins with the second of a pair is decided at the very beginning."""
    query = measured(
        RowPattern(SCHEMA, Concatenation((Variable("A"), Variable("A"))), order=(OrderKey("t"),), within=5)
    )
    for first in (0, 1):
        rows = pairs(101 - first, first)
        wanted = list(range(first, 100, 2))
        for twice in (False, True):
            found = in_ranges(query, rows, list(range(7, 100, 7)), twice=twice)
            assert [row["first"] for row in found] == wanted
        assert [row["first"] for row in in_threads(query, rows, 5)] == wanted


def test_searches_that_never_come_together(small: pytest.MonkeyPatch) -> None:
    """Matches that are as long as they may be, from each row another sequence of them: one search after the other."""
    query = measured(RowPattern(SCHEMA, Quantified(Variable("A"), 1, None), order=(OrderKey("t"),), within=9))
    small.setattr(ranges, "_SPARE", 0)
    small.setattr(ranges, "_ROOM", 1)
    rows = pairs(200)
    tasks = [Range.between(query, rows, *each) for each in [(None, 50), (50, 100), (100, None)]]
    assert linked([task.links() for task in tasks]) is None
    assert [row["first"] for row in in_threads(query, rows, 7)] == list(range(0, 200, 10))


def test_ranges_of_equal_times_and_wide_windows(small: pytest.MonkeyPatch) -> None:
    """Rows of one time stay together; a window of many rows makes ranges longer, or leaves one search."""
    pattern = RowPattern(SCHEMA, Concatenation((Variable("A"), Variable("A"))), order=(OrderKey("t"),), within=1)
    for step, most in ((40, 1 << 18), (3, 1 << 18), (40, 10)):
        small.setattr(parallel, "_MOST", most)
        rows = pairs(300)
        times = pa.array(np.arange(300) // step)
        rows = pa.RecordBatch.from_arrays([rows.column(0), times, *rows.columns[2:]], schema=SCHEMA)
        query = measured(pattern)
        assert in_threads(query, rows, 50) == one_by_one(query, rows)


def test_what_is_found_at_once_is_left_to_one_search(small: pytest.MonkeyPatch) -> None:
    """After a first range that took no time all rows are searched as one sequence."""
    small.setattr(parallel, "_WORTH", 1e9)
    query = measured(RowPattern(SCHEMA, Quantified(Variable("A"), 1, 3), order=(OrderKey("t"),), within=9))
    rows = pairs(100)
    assert in_threads(query, rows, 7) == one_by_one(query, rows)


@pytest.mark.parametrize(
    ("change", "reason"), [({"within": None}, "WITHIN"), ({"order": (OrderKey("t", True),)}, "rising")]
)
def test_what_one_search_has_to_do(change: dict[str, Any], reason: str) -> None:
    pattern = RowPattern(SCHEMA, Variable("A"), order=(OrderKey("t"),), within=5)
    assert one_search_because(compile_query(pattern)) is None
    told = one_search_because(compile_query(replace(pattern, **change)))
    assert told is not None
    assert reason in told


def test_what_needs_no_links() -> None:
    """If every row may begin a match and nobody counts, ranges have nothing to do with each other."""
    dice = np.random.default_rng(3)
    numbers = [
        measure
        for _ in range(50)
        for measure in random_case(dice)[0].measures
        if isinstance(measure.value.terms[0], MatchNumber)
    ]
    pattern = RowPattern(SCHEMA, Variable("A"), order=(OrderKey("t"),), within=5, skip=Skip.TO_NEXT_ROW)
    assert not needs_links(compile_query(pattern))
    assert needs_links(compile_query(replace(pattern, measures=(numbers[0],))))
    assert needs_links(compile_query(replace(pattern, skip=Skip.PAST_LAST_ROW)))
    assert not needs_links(compile_query(replace(pattern, is_all_matches=True)))

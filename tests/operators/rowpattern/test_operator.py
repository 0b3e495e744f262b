"""Row patterns over streams: in all runtimes, and the same rows as of history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators.rowpattern.test_evaluate import SCHEMA, Term, expression, navigation, random_case, some
from tidelog.operators.base import FOREVER, Shape
from tidelog.operators.conformance import OperatorConformance
from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.evaluate import evaluate
from tidelog.operators.rowpattern.operator import RowPatternOperator
from tidelog.operators.rowpattern.syntax import (
    Aggregate,
    Anchor,
    Concatenation,
    Expression,
    MatchNumber,
    Measure,
    OrderKey,
    Quantified,
    RowPattern,
    Rows,
    Skip,
    Strategy,
    Variable,
)

SHAPE = Shape(SCHEMA, "t")


def rows_of(dice: np.random.Generator, count: int) -> pa.RecordBatch:
    times = np.cumsum(dice.integers(0, 3, count))
    values = [None if dice.integers(9) == 0 else int(dice.integers(1, 5)) for _ in range(count)]
    keys = [f"k{key}" for key in dice.integers(0, 3, count)]
    letters = [some(dice, ["a", "b", "c", None]) for _ in range(count)]
    columns = [keys, times, pa.array(values, pa.int64()), pa.array(values, pa.float64()), letters]
    return pa.record_batch([pa.array(each) for each in columns], schema=SCHEMA)


def has_end(pattern: Any) -> bool:
    return "is_start=False" in repr(pattern)


@pytest.mark.parametrize("seed", range(8))
def test_runtimes(seed: int) -> None:
    dice = np.random.default_rng(seed)
    while True:
        pattern, _, _ = random_case(dice)
        is_safe = pattern.skip in (Skip.PAST_LAST_ROW, Skip.TO_NEXT_ROW) or pattern.is_all_matches
        if is_safe and not has_end(pattern.pattern) and pattern.strategy is not Strategy.SKIP_TILL_ANY:
            break
    rows = rows_of(dice, 40)
    check = OperatorConformance(lambda: RowPatternOperator(SHAPE, pattern))
    found = check.check([rows], dice, lateness=int(dice.integers(0, 4)), rounds=2)
    order = rows.sort_by([("k", "ascending"), ("t", "ascending")])
    history = [row for batch in evaluate(pattern, order.to_batches() if hasattr(order, "to_batches") else [order])
               for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]  # fmt: skip
    assert len(found) == len(history)
    assert sorted(map(repr, (row[:-1] for row in found))) == sorted(map(repr, history))


PLUS = Quantified(Variable("B"), 1, None)
V = RowPattern(
    SCHEMA,
    Concatenation((Variable("A"), PLUS)),
    {"A": expression('"#0" = 1', navigation("v")), "B": expression('"#0" > 1', navigation("v"))},
    (
        Measure("first", expression('"#0"', navigation("t", is_last=False)), pa.int64()),
        Measure("last", expression('"#0"', navigation("t")), pa.int64()),
    ),
    (),
    (OrderKey("t"),),
)


def batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    times, values = zip(*rows, strict=True)
    count = len(rows)
    return pa.record_batch(
        [["k"] * count, pa.array(times, pa.int64()), pa.array(values, pa.int64()), [0.0] * count, ["a"] * count],
        schema=SCHEMA,
    )


def values(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for each in batches for row in each.to_pylist()]


def test_a_match_comes_out_with_the_row_that_ends_it() -> None:
    operator = RowPatternOperator(SHAPE, V)
    operator.push(0, batch((1, 1), (2, 2), (3, 2)))
    assert values(operator.advance(4)) == []
    operator.push(0, batch((7, 1)))
    assert values(operator.advance(7)) == []
    assert values(operator.advance(8)) == [(1, 3, 7)]


def test_within_decides_without_rows() -> None:
    operator = RowPatternOperator(SHAPE, replace(V, within=5))
    operator.push(0, batch((1, 1), (2, 2), (3, 2)))
    assert values(operator.advance(4)) == []
    assert operator.next_deadline() == 7
    assert values(operator.advance(6)) == []
    assert values(operator.advance(7)) == [(1, 3, 6)]
    assert operator.next_deadline() is None
    assert values(operator.finish()) == []


TIMED = replace(V, within=5, with_timeouts=True)
"""Rows of value 1 and then others, of five ticks at most, and what has no others."""


def test_what_times_out_comes_out_when_its_time_is_over() -> None:
    """With the rows that it has, and a match behind it as if nothing had been."""
    operator = RowPatternOperator(SHAPE, TIMED)
    operator.push(0, batch((1, 1), (7, 1), (9, 2)))
    assert values(operator.advance(2)) == []
    assert operator.next_deadline() == 7
    assert values(operator.advance(7)) == [(1, 1, True, 6)]
    assert values(operator.advance(9)) == []
    assert values(operator.advance(13)) == [(7, 9, False, 12)]
    operator.push(0, batch((20, 1)))
    operator.push(0, batch((21, 0)))
    assert values(operator.advance(30)) == []  # the row behind it, in time, was none that it waits for
    operator.push(0, batch((30, 1)))
    assert values(operator.advance(31)) == []
    assert values(operator.finish()) == [(30, 30, True, 35)]


def test_when_a_match_is_certain_does_not_depend_on_rows_outside_of_its_window() -> None:
    """Which a way through the pattern may look at before it sees that they are too late."""
    either = Concatenation((Variable("A"), Quantified(Variable("B"), 0, 1)))
    pattern = replace(V, pattern=either, within=5)
    together, apart = RowPatternOperator(SHAPE, pattern), RowPatternOperator(SHAPE, pattern)
    together.push(0, batch((1, 1), (100, 2)))
    apart.push(0, batch((1, 1)))
    found = values(apart.advance(50))
    apart.push(0, batch((100, 2)))
    assert found + values(apart.finish()) == values(together.finish()) == [(1, 1, 6)]


def test_what_the_end_decides_has_the_last_time_of_all_whatever_other_keys_have() -> None:
    operator = RowPatternOperator(SHAPE, V)
    operator.push(0, batch((1, 1), (2, 2), (3, 2)))
    assert values(operator.advance(FOREVER)) == [(1, 3, 2**63 - 1)]


def test_rows_that_no_match_needs_are_forgotten() -> None:
    operator = RowPatternOperator(SHAPE, replace(V, rows=Rows.WITH_UNMATCHED, within=3))
    for start in range(0, 4000, 40):
        operator.push(0, batch(*((start + at, 1 + at % 2) for at in range(40))))
        operator.advance(start + 40)
        assert len(operator._kept.arrivals) < 8


def keyed(time: int, key: int, value: int = 1) -> pa.RecordBatch:
    return pa.record_batch([[f"k{key}"], [time], [value], [0.0], ["a"]], schema=SCHEMA)


def many_keys(first: int, count: int) -> pa.RecordBatch:
    """A row of each of many keys that come once."""
    keys = [f"once{first + at}" for at in range(count)]
    return pa.record_batch([keys, [first] * count, [0] * count, [0.0] * count, ["a"] * count], schema=SCHEMA)


def counted(pattern: RowPattern, *, is_nested: bool) -> RowPattern:
    """With the number of the match as a measure, alone or inside of an aggregate."""
    number = expression('"#0"', Term(MatchNumber(), pa.int64(), lambda view: view.number))
    inside = Expression('"#0"', (Aggregate('max("#match_number")'),), (pa.int64(),))
    measure = Measure("number", inside if is_nested else number, pa.int64())
    return replace(pattern, partition=("k",), measures=(measure,))


ONE = replace(V, pattern=Variable("A"), within=1)


@pytest.mark.parametrize("is_nested", [False, True])
def test_numbers_of_matches_outlive_the_rows_of_their_keys(is_nested: bool) -> None:
    """Keys without rows are forgotten when there are many, but not if their matches are counted."""
    operator = RowPatternOperator(SHAPE, counted(ONE, is_nested=is_nested))
    found = []
    for turn in range(4):
        operator.push(0, keyed(100 * turn, 0))
        operator.push(0, many_keys(100 * turn + 1, 3000))
        found += [row[1] for row in values(operator.advance(100 * turn + 50)) if row[0] == "k0"]
        again = RowPatternOperator(SHAPE, counted(ONE, is_nested=is_nested))
        again.restore(operator.snapshot())
        operator = again
    assert found == [1, 2, 3, 4]


def test_where_keys_begin_outlives_their_rows() -> None:
    """The beginning of a partition comes once, however many keys come in between."""
    begin = Concatenation((Anchor(is_start=True), Variable("A")))
    operator = RowPatternOperator(SHAPE, replace(ONE, partition=("k",), pattern=begin))
    found = []
    for turn in range(4):
        operator.push(0, keyed(100 * turn, 0))
        operator.push(0, many_keys(100 * turn + 1, 3000))
        found += [row[1] for row in values(operator.advance(100 * turn + 50)) if row[0] == "k0"]
    assert found == [0]


def test_keys_that_nothing_is_known_of_are_forgotten() -> None:
    operator = RowPatternOperator(SHAPE, replace(ONE, partition=("k",)))
    for turn in range(4):
        operator.push(0, many_keys(100 * turn, 3000))
        operator.advance(100 * turn + 50)
    assert len(operator._keys) < 4000


def test_streams_have_no_end() -> None:
    with pytest.raises(PatternError, match=r"the anchor \$"):
        RowPatternOperator(SHAPE, replace(V, pattern=Concatenation((Variable("A"), Anchor(is_start=False)))))


def test_the_order_begins_with_time() -> None:
    with pytest.raises(PatternError, match="expected t, its time, first"):
        RowPatternOperator(SHAPE, replace(V, order=(OrderKey("v"),)))


@pytest.mark.parametrize("physical", [-1, -2, 1, 2])
def test_patterns_that_name_no_row_of_the_match_itself(physical: int) -> None:
    """But its neighbours alone, on one side: no row before them, or behind what there is, is taken for one of it."""
    beside = Measure("beside", expression('"#0"', navigation("t", physical=physical)), pa.int64())
    start = Measure("start", expression('"#0"', navigation("t", is_last=False, physical=physical)), pa.int64())
    pairs = Concatenation((Variable("A"), Variable("A")))
    pattern = replace(V, pattern=pairs, defines={}, measures=(start, beside), skip=Skip.TO_NEXT_ROW)
    operator = RowPatternOperator(SHAPE, pattern)
    found = []
    for time in range(1, 7):
        operator.push(0, batch((time, 1)))
        found += values(operator.advance(time + 1))
    found += values(operator.finish())
    there = {time: time for time in range(1, 7)}.get
    expected = [(there(first + physical), there(first + 1 + physical)) for first in range(1, 6)]
    assert [row[:2] for row in found] == expected
    parts = [batch((time, 1)) for time in range(1, 7)]
    assert values(list(evaluate(pattern, parts))) == expected

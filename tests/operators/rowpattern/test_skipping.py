"""Row patterns whose early matches nobody wants any more: which rows they do without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import Parts, rereadable
from operators.rowpattern.test_evaluate import expression, navigation, random_case
from operators.rowpattern.test_operator import SHAPE, V, has_end, rows_of
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import LookBack
from tidelog.operators.composed import chain
from tidelog.operators.conformance import rows_of as values_of
from tidelog.operators.feedback import Flow, Scan
from tidelog.operators.rowpattern.operator import RowPatternOperator
from tidelog.operators.rowpattern.syntax import Measure, RowPattern, Skip, Strategy
from tidelog.operators.rowwise import Filter


def random_pattern(dice: np.random.Generator) -> RowPattern:
    """Often one in which every row may begin a match by itself."""
    if dice.random() < 0.6:
        is_all = bool(dice.random() < 0.4)
        skip = Skip.PAST_LAST_ROW if is_all else Skip.TO_NEXT_ROW
        strategy = Strategy.CONTIGUOUS if dice.random() < 0.6 else Strategy.SKIP_TILL_NEXT
        within, times_out = int(dice.integers(1, 8)), bool(dice.random() < 0.3)
        own = replace(V, partition=("k",), skip=skip, is_all_matches=is_all, strategy=strategy, within=within)
        if dice.random() < 0.5:
            own = looking_back(own, int(dice.integers(1, 4)), int(dice.integers(1, 4)))
        return replace(own, with_timeouts=times_out)
    while True:
        pattern, _, _ = random_case(dice)
        is_safe = pattern.skip in (Skip.PAST_LAST_ROW, Skip.TO_NEXT_ROW) or pattern.is_all_matches
        if is_safe and not has_end(pattern.pattern) and pattern.strategy is not Strategy.SKIP_TILL_ANY:
            return pattern


def looking_back(pattern: RowPattern, condition: int, measure: int) -> RowPattern:
    """Matches begin where the value so many rows before is not the same, and tell another one before them."""
    first = expression('"#0" < 3 AND "#1" <> "#0"', navigation("v"), navigation("v", physical=-condition))
    before = expression('"#0"', navigation("t", is_last=False, physical=-measure))
    return replace(
        pattern,
        defines={**pattern.defines, "A": first},
        measures=(*pattern.measures, Measure("before", before, pa.int64())),
    )


@pytest.mark.parametrize("seed", range(8))
def test_matches_behind_the_horizon_are_what_they_were(seed: int) -> None:
    dice = np.random.default_rng(seed)
    skipped = dropped = unread = 0
    for _ in range(24):
        pattern = random_pattern(dice)
        rows = rows_of(dice, 60)
        make = RowPatternOperator(SHAPE, pattern)
        whole = values_of(make.output, list(Flow(RowPatternOperator(SHAPE, pattern), [[rows]])))
        operator = chain(make, Filter(make.output, '"#time" % 3 <> 1')) if dice.random() < 0.3 else make
        if operator is not make:
            whole = [row for row in whole if row[-1] % 3 != 1]
        source = rereadable(rows, "t", dice) if dice.random() < 0.5 else Parts(rows, dice)
        flow = Flow(operator, [source])
        horizon, found = int(dice.integers(0, 40)), []
        flow.skip(horizon)
        for batch in flow:
            found += values_of(make.output, [batch])
            if dice.random() < 0.3:
                horizon = max(horizon, int(dice.integers(0, 60)))
                flow.skip(horizon)
        assert [row for row in found if row[-1] >= horizon] == [row for row in whole if row[-1] >= horizon]
        if make.skip(horizon) == (INT64_MIN,):
            assert flow.skipped == 0
            assert isinstance(source, Parts) or source.rows == rows.num_rows
        elif isinstance(source, Scan):
            unread += rows.num_rows - source.rows
        skipped, dropped = skipped + flow.skipped, dropped + make.skipped
    assert skipped > 0
    assert dropped > 0
    assert unread > 0


def test_as_many_rows_before_the_limit_are_looked_at_as_conditions_look_back() -> None:
    rows = rows_of(np.random.default_rng(1), 80)
    pattern = looking_back(replace(V, partition=("k",), skip=Skip.TO_NEXT_ROW, within=4), 2, 1)
    operator = RowPatternOperator(SHAPE, pattern)
    assert operator.skip(45) == (40,)
    assert operator.looks_back == (LookBack(2, ("k",)),)
    operator.push(0, rows)
    found = values_of(operator.output, operator.finish())
    old = [key for key, time in zip(*(rows.column(name).to_pylist() for name in ("k", "t")), strict=True) if time < 40]
    assert operator.skipped == sum(max(old.count(key) - 2, 0) for key in set(old)) > 0
    assert found
    assert all(row[-1] >= 45 for row in found)


def test_where_ties_have_an_order_of_their_own_sources_cannot_tell_the_last_rows() -> None:
    order = (*V.order, replace(V.order[0], column="v"))
    pattern = looking_back(replace(V, partition=("k",), skip=Skip.TO_NEXT_ROW, within=4, order=order), 2, 1)
    assert RowPatternOperator(SHAPE, pattern).skip(45) == (INT64_MIN,)


@pytest.mark.parametrize(
    "changes",
    [
        {"skip": Skip.PAST_LAST_ROW},
        {"within": None},
        {"measures": (Measure("next", expression('"#0"', navigation("v", physical=1)), pa.int64()),)},
    ],
)
def test_where_rows_depend_on_those_before_only_what_comes_out_is_left_out(changes: dict[str, Any]) -> None:
    rows = rows_of(np.random.default_rng(1), 80)
    pattern = looking_back(replace(V, partition=("k",), skip=Skip.TO_NEXT_ROW, within=4), 2, 1)
    own = replace(pattern, **changes)
    operator, other = RowPatternOperator(SHAPE, own), RowPatternOperator(SHAPE, own)
    assert operator.skip(45) == (INT64_MIN,)
    for each in (operator, other):
        each.push(0, rows)
    whole = values_of(other.output, other.finish())
    assert values_of(operator.output, operator.finish()) == [row for row in whole if row[-1] >= 45] != whole
    assert operator.skipped == 0

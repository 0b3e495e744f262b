"""Row patterns whose early matches nobody wants any more: which rows they do without."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from operators.cases import Parts
from operators.rowpattern.test_evaluate import random_case
from operators.rowpattern.test_operator import SHAPE, V, has_end, rows_of
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.conformance import rows_of as values_of
from tidelog.operators.feedback import Flow
from tidelog.operators.rowpattern.operator import RowPatternOperator
from tidelog.operators.rowpattern.syntax import RowPattern, Skip, Strategy


def random_pattern(dice: np.random.Generator) -> RowPattern:
    """Often one in which every row may begin a match by itself."""
    if dice.random() < 0.6:
        is_all = bool(dice.random() < 0.4)
        skip = Skip.PAST_LAST_ROW if is_all else Skip.TO_NEXT_ROW
        strategy = Strategy.CONTIGUOUS if dice.random() < 0.6 else Strategy.SKIP_TILL_NEXT
        within, times_out = int(dice.integers(1, 8)), bool(dice.random() < 0.3)
        own = replace(V, partition=("k",), skip=skip, is_all_matches=is_all, strategy=strategy, within=within)
        return replace(own, with_timeouts=times_out)
    while True:
        pattern, _, _ = random_case(dice)
        is_safe = pattern.skip in (Skip.PAST_LAST_ROW, Skip.TO_NEXT_ROW) or pattern.is_all_matches
        if is_safe and not has_end(pattern.pattern) and pattern.strategy is not Strategy.SKIP_TILL_ANY:
            return pattern


@pytest.mark.parametrize("seed", range(8))
def test_matches_behind_the_horizon_are_what_they_were(seed: int) -> None:
    dice = np.random.default_rng(seed)
    skipped = 0
    for _ in range(12):
        pattern = random_pattern(dice)
        rows = rows_of(dice, 60)
        make = RowPatternOperator(SHAPE, pattern)
        whole = values_of(make.output, list(Flow(RowPatternOperator(SHAPE, pattern), [[rows]])))
        flow = Flow(make, [Parts(rows, dice)])
        horizon, found = int(dice.integers(0, 40)), []
        flow.skip(horizon)
        for batch in flow:
            found += values_of(make.output, [batch])
        assert [row for row in found if row[-1] >= horizon] == [row for row in whole if row[-1] >= horizon]
        if make.skip(horizon) == (INT64_MIN,):
            assert flow.skipped == 0
        skipped += flow.skipped
    assert skipped > 0

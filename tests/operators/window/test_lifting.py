"""Aggregates that several threads lift have the states that one thread gives them."""

from __future__ import annotations

from unittest.mock import MagicMock

import numpy as np
import pytest

from operators.cases import rows, shape
from operators.window.models import AGGREGATES
from tidelog.expr import parse_aggregate
from tidelog.operators.window import lifting
from tidelog.operators.window.lifting import Lifting, divided


@pytest.mark.parametrize("call", [*AGGREGATES.values(), "approx_count_distinct(k)"])
def test_however_rows_are_divided(call: str) -> None:
    dice = np.random.default_rng(63)
    of = shape()
    batch = rows(of, dice, 500)
    fold = parse_aggregate(call, of.schema, of.time)
    own = batch.select(list(fold.columns) or [of.time])
    for runs in (1, 2, 7, 100, 500):
        places = dice.choice(np.arange(1, 500), runs - 1, replace=False)
        cuts = np.concatenate([[0], np.sort(places), [500]]).astype(np.int64)
        expected = fold.lower(fold.lift(own, cuts))
        for threads in (2, 3, 5):
            assert fold.lower(divided(fold, own, cuts, threads)) == expected


def test_what_takes_long_is_divided_while_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    costs = {"alone": 0.004, "divided": 0.003}
    ways: list[str] = []

    def took(way: str) -> None:
        ways.append(way)
        clock[0] += costs[way]

    of = shape()
    batch = rows(of, np.random.default_rng(64), 100)
    fold = parse_aggregate("sum(n)", of.schema, of.time)
    lift = fold.lift
    slow = MagicMock(spec=fold)
    slow.lift.side_effect = lambda *given: (took("alone"), lift(*given))[1]
    monkeypatch.setattr(lifting.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(lifting, "divided", lambda *given: (took("divided"), lift(given[1], given[2]))[1])
    both = Lifting([slow])
    both.threads = 2
    cuts = np.array([0, 100])
    for _ in range(100):
        both.lift(batch.select(["n"]), cuts)
    assert ways[:3] == ["alone", "divided", "divided"]
    assert ways.count("alone") == 2  # the first time, and once more
    costs["divided"] = 0.1
    ways.clear()
    for _ in range(50):
        both.lift(batch.select(["n"]), cuts)
    assert ways.count("divided") < 5
    both.threads = 1
    ways.clear()
    for _ in range(200):
        both.lift(batch.select(["n"]), cuts)
    assert set(ways) == {"alone"}

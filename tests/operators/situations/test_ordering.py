"""Orders of evaluation: what they cost, that they follow what is measured, and that matches do not depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import log2

import numpy as np
import pyarrow as pa
import pytest

from operators.situations.test_golden import query_of
from operators.situations.test_operator import check_patterns, everything
from support.situations import columns
from support.situations.queries import NAMES, SHAPE, random_query, random_rows
from tidelog.operators.base import Operator, Shape
from tidelog.operators.conformance import Disk
from tidelog.operators.situations.checks import relations_of
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.orders.adapting import Ordering
from tidelog.operators.situations.orders.planning import Statistics, costs_of, plan
from tidelog.operators.situations.relations import AFTER, ANY, BEFORE, SELECTIVITIES, each_of, inverse
from tidelog.operators.situations.syntax import Mode, Situations

Q1 = {("A", "B"): ["overlaps"], ("A", "C"): ["overlaps"], ("B", "C"): ["starts"]}
Q2 = {("A", "B"): ["overlaps"], ("A", "C"): ["before"], ("B", "C"): ["overlaps"]}
Q3 = {("A", "B"): ["before"], ("A", "C"): ["before"], ("B", "C"): ["before"]}


def valid_orders(relations: Sequence[Sequence[int]], first: int) -> list[tuple[int, ...]]:
    """All orders without a step that nothing binds to those before it."""
    others = [each for each in range(len(relations)) if each != first]
    found = []
    for rest in permutations(others):
        order = (first, *rest)
        if all(any(relations[one][order[at]] != ANY for one in order[:at]) for at in range(1, len(order))):
            found.append(order)
    return found


def test_expected_shares_are_all() -> None:
    assert sum(SELECTIVITIES[each] for each in each_of(ANY)) == pytest.approx(1.0)
    assert all(SELECTIVITIES[each] == SELECTIVITIES[inverse(each)] for each in each_of(ANY))


def test_what_an_order_costs() -> None:
    """By hand: A, then 8 B of which a quarter fit, then 32 C of which a half fit each of A and B."""
    relations = ((ANY, BEFORE, BEFORE), (AFTER, ANY, BEFORE), (AFTER, AFTER, ANY))
    shares = np.array([[1, 0.25, 0.5], [0.25, 1, 0.5], [0.5, 0.5, 1]])
    costs = costs_of((0, 1, 2), relations, Statistics(np.array([4.0, 8.0, 32.0]), shares))
    assert costs == [2 * log2(8) + 8 * 0.25, 2 * (2 + 2) * log2(32) + 2 * 32 * 0.25]


def test_small_buffers_cost_a_search() -> None:
    relations = ((ANY, BEFORE), (AFTER, ANY))
    costs = costs_of((0, 1), relations, Statistics(np.array([0.0, 0.5]), np.full((2, 2), 0.5)))
    assert costs == [2 * log2(2) + 0.5 * 0.5]


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_is_the_best_of_all_orders(seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows = random_rows(dice, 10, 12)
    relations = relations_of(random_query(dice, rows, Mode.COMPLETED)[0])
    count = len(relations)
    shares = dice.random((count, count))
    statistics = Statistics(dice.integers(1, 500, count).astype(float), (shares + shares.T) / 2)
    found = plan(relations, statistics)
    for first in range(count):
        costs = {order: sum(costs_of(order, relations, statistics)) for order in valid_orders(relations, first)}
        assert found.costs[first] == pytest.approx(min(costs.values()))
        assert costs[tuple(found.orders[first].tolist())] == pytest.approx(found.costs[first])


def test_orders_of_the_published_queries() -> None:
    """The first joins B and C, the second never A and C alone, and of the third all cost the same."""
    for pattern, good in ((Q1, {"BCA", "CBA"}), (Q2, {"ABC", "BAC", "BCA", "CBA"})):
        query = query_of(pattern, "ABC", {}, Mode.COMPLETED)
        relations = relations_of(query)
        expected = Statistics.expected(relations)
        costs = {
            "".join(NAMES[each] for each in order): sum(costs_of(order, relations, expected))
            for first in range(3)
            for order in valid_orders(relations, first)
        }
        assert {name for name, cost in costs.items() if cost <= min(costs.values()) * (1 + 1e-9)} <= good
    relations = relations_of(query_of(Q3, "ABC", {}, Mode.COMPLETED))
    expected = Statistics.expected(relations)
    assert len({sum(costs_of(order, relations, expected)) for order in permutations(range(3))}) == 1


@pytest.mark.parametrize("mode", Mode)
def test_matches_do_not_depend_on_the_order(mode: Mode) -> None:
    dice = np.random.default_rng(31)
    for _ in range(6):
        rows = random_rows(dice, 30, 12)
        query, kinds, constraints = random_query(dice, rows, mode)
        relations = relations_of(query)
        expected = columns.expected(rows, query, kinds, constraints)
        choices = [valid_orders(relations, first) for first in range(len(relations))]
        for at in range(min(max(map(len, choices)), 6)):
            operator = SituationsOperator(SHAPE, query)
            operator.matcher.ordering.fix([own[at % len(own)] for own in choices])
            assert np.array_equal(columns.found(everything(operator, rows, 100), query), expected)


class Restless(Ordering):
    """Takes another order at every chance."""

    def __init__(self, relations: Sequence[Sequence[int]]) -> None:
        super().__init__(relations)
        self._choices = [valid_orders(relations, first) for first in range(len(relations))]
        self._turn = 0

    def learn(self, seen: object, held: object) -> None:
        self._turn += 1
        self.fix([own[self._turn % len(own)] for own in self._choices])


def test_plans_may_change_at_any_time() -> None:
    def restless(query: Situations) -> Operator:
        operator = SituationsOperator(SHAPE, query)
        operator.matcher.ordering = Restless(operator.matcher.relations)
        return operator

    assert check_patterns(77, 25, restless) > 0


def phases(ticks: int, rare: Sequence[str]) -> pa.RecordBatch:
    """Situations of A, B and C that come often, or one in fifty times as often, phase by phase."""
    dice = np.random.default_rng(3)
    columns_ = []
    for name in "ABC":
        holds = np.zeros(ticks * len(rare), np.bool_)
        at = 0
        while at < len(holds):
            factor = 50 if name in rare[at // ticks] else 1
            at += int(dice.integers(2, 6)) * factor
            length = int(dice.integers(2, 6))
            holds[at : at + length] = True
            at += length
        columns_.append(pa.array(holds))
    return pa.record_batch([pa.array(np.arange(ticks * len(rare))), *columns_], names=["t", "a", "b", "c"])


def test_orders_follow_what_is_rare() -> None:
    """From C on, whichever of A and B is rare comes first."""
    rows = phases(12_000, ["", "A", "B"])
    query = query_of(Q3, "ABC", {}, Mode.COMPLETED, 400)
    operator = SituationsOperator(Shape(rows.schema, "t"), query)
    ordering = operator.matcher.ordering
    firsts, disk = [], Disk()
    for phase in range(3):
        for first in range(phase * 12_000, (phase + 1) * 12_000, 500):
            operator.push(0, rows.slice(first, 500))
            operator.advance(first + 500)
        firsts.append(NAMES[int(ordering.plan.orders[2][1])])
    assert firsts[1:] == ["A", "B"]
    assert ordering.plans > 2
    again = disk.restarted(operator.snapshot(), SituationsOperator(Shape(rows.schema, "t"), query))
    assert isinstance(again, SituationsOperator)
    assert again.matcher.ordering.snapshot() == ordering.snapshot()
    assert again.explain == operator.explain


def test_means_are_running_ones() -> None:
    """Sizes of 10, then of 20 as often as the plan has to be trusted: 1 - 0.99 ** 100 of the way."""
    ordering = Ordering(((ANY, BEFORE), (AFTER, ANY)))
    seen = np.zeros((2, 2, 2))
    for size in (10.0, 20.0):
        ordering.learn(seen, np.array([[100 * size, 100.0], [0.0, 0.0]]))
    mean = ordering.snapshot()["means"][0][0]
    assert mean == pytest.approx(10 + 10 * (1 - 0.99**100))
    assert ordering.plans == 3  # 10 is not the 16 that was expected, and 16.3 is not 10
    ordering.learn(seen, np.array([[mean, 1.0], [0.0, 0.0]]))
    assert ordering.plans == 3


@pytest.mark.parametrize(
    ("pattern", "bounds", "mode", "known"),
    [
        (Q1, {}, Mode.COMPLETED, "C ends"),
        (Q1, {}, Mode.EARLY, "B ends"),
        (Q2, {}, Mode.EARLY, "B ends"),
        (Q3, {}, Mode.COMPLETED, "C ends"),
        (Q3, {}, Mode.EARLY, "C starts"),
        (Q3, {"C": (7, None)}, Mode.EARLY, "C has lasted 7"),
        (Q3, {"C": (0, 7)}, Mode.EARLY, "C ends"),
        ({("A", "B"): ["overlaps", "contains"]}, {}, Mode.COMPLETED, "A ends, or B ends"),
    ],
)
def test_what_is_told(
    pattern: dict[tuple[str, str], list[str]], bounds: dict[str, tuple[int, int | None]], mode: Mode, known: str
) -> None:
    names = sorted({name for pair in pattern for name in pair})
    told = SituationsOperator(SHAPE, query_of(pattern, names, bounds, mode)).explain
    assert told[0] == f"matches become known when {known}"
    assert told[1] == "orders by what is expected, for nothing has been measured yet that speaks against them"
    if pattern is Q1 and mode is Mode.EARLY:
        assert told[2:] == [
            "from B, at a cost of 9.333:",
            "  C, 16 of them: B starts it (0.0049 of them); cost 8.078",
            "  A, 16 of them: B overlapped by it (0.01 of them), C overlapped by it (0.01 of them); cost 1.255",
        ]

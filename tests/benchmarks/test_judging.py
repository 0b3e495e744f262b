from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Bound, Comparison, Verdict, judge
from harness.judging import quartiles

AGAINST = Comparison("peer", ("peer",), Bound(floor=1.0, target=2.0, judged_at=100))


def verdict(ours: list[float], peer: list[float], events: int = 100, *, higher_is_better: bool = True) -> Verdict:
    return judge(AGAINST, ours, {"peer": peer}, events, higher_is_better=higher_is_better).verdict


def test_ratios_are_formed_within_a_repetition() -> None:
    # Everybody was ten times slower in the second repetition; the ratios do not show it.
    found = judge(AGAINST, [30, 3, 30], {"peer": [10, 1, 10]}, 100, higher_is_better=True)
    assert found.ratios == (3, 3, 3)
    assert found.median == 3
    assert found.verdict is Verdict.TARGET


def test_the_best_peer_by_median_is_the_rival() -> None:
    comparison = Comparison("fastest", ("a", "b", "absent"))
    figures = {"a": [1, 9, 1], "b": [2, 2, 2], "bystander": [99, 99, 99]}
    assert judge(comparison, [4, 4, 4], figures, 0, higher_is_better=True).peer == "b"
    assert judge(comparison, [4, 4, 4], figures, 0, higher_is_better=False).peer == "a"


def test_below_floor_only_if_the_upper_quartile_is() -> None:
    ones = [1.0] * 5
    assert verdict([0.8, 0.8, 0.8, 0.99, 1.5], ones) is Verdict.BELOW
    assert verdict([0.8, 0.8, 0.8, 1.0, 1.5], ones) is Verdict.FLOOR


def test_where_less_is_better_the_lower_quartile_counts() -> None:
    bound = Comparison("smallest", ("peer",), Bound(floor=1.2, target=1.0))

    def judged(ours: list[float]) -> Verdict:
        return judge(bound, ours, {"peer": [1.0] * 5}, 0, higher_is_better=False).verdict

    assert judged([1.3] * 5) is Verdict.BELOW
    assert judged([1.1, 1.2, 1.3, 1.3, 1.3]) is Verdict.FLOOR
    assert judged([1.1] * 5) is Verdict.FLOOR
    assert judged([0.9] * 5) is Verdict.TARGET


def test_the_target_is_met_by_the_median() -> None:
    ones = [1.0] * 5
    assert verdict([1.9, 1.9, 2.0, 2.1, 2.1], ones) is Verdict.TARGET
    assert verdict([1.9, 1.9, 1.99, 2.1, 9.9], ones) is Verdict.FLOOR


def test_below_its_size_a_floor_is_not_judged() -> None:
    assert verdict([0.1] * 5, [1.0] * 5, events=99) is Verdict.NOT_JUDGED
    assert verdict([0.1] * 5, [1.0] * 5, events=100) is Verdict.BELOW


def test_without_figures_there_is_nothing_to_judge() -> None:
    assert judge(AGAINST, None, {"peer": [1.0]}, 100, higher_is_better=True).verdict is Verdict.MISSING
    assert judge(AGAINST, [1.0], {}, 100, higher_is_better=True).verdict is Verdict.MISSING


def test_without_a_floor_it_is_information() -> None:
    found = judge(Comparison("peer", ("peer",)), [1.0], {"peer": [2.0]}, 100, higher_is_better=True)
    assert (found.verdict, found.ratios) == (Verdict.INFORMATION, (0.5,))


def test_without_peers_ours_itself_is_judged() -> None:
    limit = Comparison("limit", (), Bound(0.4, 0.4))
    assert judge(limit, [0.3] * 5, {}, 0, higher_is_better=False).verdict is Verdict.TARGET
    assert judge(limit, [0.5] * 5, {}, 0, higher_is_better=False).verdict is Verdict.BELOW


def test_repetitions_must_pair_up() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        verdict([1.0, 1.0], [1.0])


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_quartiles_are_those_of_numpy(values: list[float]) -> None:
    assert quartiles(values) == pytest.approx(tuple(np.percentile(values, [25, 75])))

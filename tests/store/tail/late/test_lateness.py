"""How late rows come: counters, and how long they are worth waiting for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.store.tail.late.lateness import DelayStatistic, LateCounters


@given(st.lists(st.integers(1, 1 << 40), min_size=200, max_size=400))
def test_most_late_rows_come_within_the_time_that_is_waited(delays: list[int]) -> None:
    statistic = DelayStatistic(0)
    statistic.observe(np.array(delays, np.int64), 1000)
    patience = statistic.patience(1000, 1 << 62)
    quantile = sorted(delays)[int(0.99 * len(delays)) - 1]
    assert quantile <= patience <= 1.1 * max(delays) + 2


def test_nothing_waits_when_few_rows_are_late_or_all_of_that_is_long_ago() -> None:
    statistic = DelayStatistic(0)
    statistic.observe(np.full(500, 10), 1_000_000)
    assert statistic.patience(1_000_000, 1 << 62) == 0
    statistic.observe(np.full(50_000, 10), 1_100_000)
    assert 10 <= statistic.patience(1_100_000, 1 << 62) <= 13
    assert statistic.patience(20_000_000, 1 << 62) == 0
    statistic.observe(np.full(500_000, (1 << 63) - 1), 21_000_000)
    assert statistic.patience(21_000_000, 1 << 62) == 1 << 62


def test_counters_tell_the_largest_and_the_mean_delay() -> None:
    counters = LateCounters()
    assert counters.to_dict(0)["mean"] == 0
    statistic = DelayStatistic(0)
    counters.observe(statistic.observe(np.array([1, 2, 9], np.int64), 10))
    counters.observe(statistic.observe(np.array([], np.int64), 20))
    found = counters.to_dict(7)
    assert (found["rows"], found["largest"], found["mean"], found["queued"]) == (3, 9, 4, 7)


def test_nothing_waits_for_rows_that_come_later_than_anybody_can_wait() -> None:
    statistic = DelayStatistic(0)
    statistic.observe(np.arange(1, 1001), 2000)
    assert 980 <= statistic.patience(2000, 5000) <= 1100
    assert statistic.patience(2000, 700) == 700
    assert statistic.patience(2000, 300) == 0
    assert statistic.patience(2000, 0) == 0


def test_the_share_of_rows_that_find_no_place_in_memory() -> None:
    statistic = DelayStatistic(0)
    statistic.observe(np.full(10, 5), 0, 10)
    assert statistic.queued_share == 1.0
    statistic.observe(np.full(90, 5), 1000, 90)
    assert 0.099 < statistic.queued_share < 0.1
    statistic.observe(np.full(90, 5), 2000)
    assert 0.049 < statistic.queued_share < 0.05
    statistic.observe(np.full(90, 5), 1_000_000)
    assert statistic.queued_share == 0.0

"""Matches as threads find them: all of them, whatever the sizes of batches, and slack that puts them into order."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from operators.situations.test_parallel import alone
from operators.situations.test_runtimes import many_keys
from support.situations import columns
from support.situations.queries import SHAPE, random_query, random_rows
from tidelog.operators.base import Shape
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.syntax import Mode
from tidelog.operators.situations.threaded.pipelined import Pipelined
from tidelog.operators.situations.threaded.slack import Late, Slack


def cut(rows: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    return [rows.slice(first, size) for first in range(0, rows.num_rows, size)]


@pytest.mark.parametrize("seed", range(5))
def test_all_matches_come_out(seed: int) -> None:
    """With keys and without; far more batches than threads, so that buffers are filled while others are searched."""
    dice = np.random.default_rng(seed)
    matches = 0
    for _ in range(6):
        is_keyed = dice.random() < 0.5
        rows = random_rows(dice, 40 if is_keyed else 1, int(dice.integers(20, 60)), ends=dice.random() < 0.5)
        mode = Mode.EARLY if dice.random() < 0.6 else Mode.COMPLETED
        query, kinds, constraints = random_query(dice, rows, mode, partition=("k",) if is_keyed else ())
        expected = columns.expected(rows if is_keyed else alone(rows), query, kinds, constraints)
        for threads in (1, 3):
            run = Pipelined(SituationsOperator(SHAPE, query), threads, slack=int(dice.integers(0, 50)))
            found = list(run.run(cut(rows, int(dice.choice([5, 23, 200])))))
            assert np.array_equal(columns.found(found, query), expected), query
            times = np.concatenate([[0], *(np.asarray(each.column("match_time")) for each in found)])
            assert run.slack.late_rows or (np.diff(times) >= 0).all()
        matches += len(expected)
    assert matches


def test_keys_are_forgotten_between_searches() -> None:
    dice = np.random.default_rng(11)
    rows = many_keys(dice, 6, 700)
    query, kinds, constraints = random_query(dice, random_rows(dice, 20, 12), Mode.EARLY)
    operator = SituationsOperator(SHAPE, query)
    found = list(Pipelined(operator, 2).run(cut(rows, 900)))
    assert np.array_equal(columns.found(found, query), columns.expected(rows, query, kinds, constraints))
    assert len(operator._keys) < 6 * 690


def test_enough_slack_is_order() -> None:
    """As much as there are matches; without a number, so much as threads find in a batch each, twice."""
    dice = np.random.default_rng(3)
    rows = random_rows(dice, 30, 60)
    query = random_query(dice, rows, Mode.COMPLETED)[0]
    sequential = SituationsOperator(SHAPE, query)
    sequential.push(0, rows)
    expected = [row for batch in sequential.finish() for row in batch.to_pylist()]
    run = Pipelined(SituationsOperator(SHAPE, query), 3, slack=len(expected))
    found = [row for batch in run.run(cut(rows, 40)) for row in batch.to_pylist()]
    assert run.slack.late_rows == 0
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    assert [row["match_time"] for row in found] == [row["match_time"] for row in expected]


RESULTS = Shape(pa.schema([("t", pa.int64()), ("n", pa.int64())]), "t")


def batch(times: list[int], first: int) -> pa.RecordBatch:
    numbers = range(first, first + len(times))
    return pa.record_batch([pa.array(times, pa.int64()), pa.array(numbers, pa.int64())], schema=RESULTS.schema)


def by_heap(times: list[int], size: int, *, discard: bool) -> tuple[list[tuple[int, int]], int]:
    """Row by row: what comes out, and how many are late."""
    heap: list[tuple[int, int]] = []
    found: list[tuple[int, int]] = []
    late, newest = 0, -1

    def let_go() -> None:
        nonlocal late, newest
        each = heapq.heappop(heap)
        is_late = each[0] < newest
        late += is_late
        newest = max(newest, each[0])
        if not (is_late and discard):
            found.append(each)

    for number, time in enumerate(times):
        heapq.heappush(heap, (time, number))
        if len(heap) > size:
            let_go()
    while heap:
        let_go()
    return found, late


@pytest.mark.parametrize("policy", Late)
@pytest.mark.parametrize("size", [0, 1, 4, 30])
def test_slack_is_that_of_a_heap(policy: Late, size: int, caplog: pytest.LogCaptureFixture) -> None:
    """A row at a time it is the very same; in batches no more are late."""
    dice = np.random.default_rng(size)
    times = (np.arange(60) + dice.integers(0, 12, 60)).tolist()
    expected, late = by_heap(times, size, discard=policy is Late.DISCARD)

    def run(cuts: Callable[[int], int]) -> tuple[list[tuple[int, int]], Slack]:
        slack = Slack(RESULTS, size, policy)
        found, first = [], 0
        while first < len(times):
            count = cuts(first)
            found += slack.push(batch(times[first : first + count], first))
            first += count
        found += slack.finish()
        return [(row["t"], row["n"]) for each in found for row in each.to_pylist()], slack

    with caplog.at_level(logging.WARNING, "tidelog"):
        one, slack = run(lambda _: 1)
    assert one == expected
    assert slack.late_rows == late
    assert slack.disordered_rows == sum(time < max(times[:at], default=0) for at, time in enumerate(times))
    assert ("left out" in caplog.text) == (policy is Late.DISCARD and late > 0)
    many, slack = run(lambda first: 1 + first % 7)
    assert slack.late_rows <= late
    assert len(many) == len(times) - (slack.late_rows if policy is Late.DISCARD else 0)

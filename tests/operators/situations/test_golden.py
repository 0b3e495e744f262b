"""Cases with known answers, and each relation and each group of relations alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from operators.situations.test_operator import everything
from support.situations.golden import GOLDEN, TICKS, Golden
from support.situations.oracle import GROUPS, RELATIONS, Situation, certain, relation
from tidelog.operators.base import Shape
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.relations import mask_of
from tidelog.operators.situations.syntax import Constraint, Definition, Mode, Situations, default_returned


def query_of(
    pattern: dict[tuple[str, str], list[str]],
    names: Sequence[str],
    bounds: dict[str, tuple[int, int | None]],
    mode: Mode,
    within: int = 100,
) -> Situations:
    definitions = tuple(Definition(name, name.lower(), *bounds.get(name, (0, None))) for name in names)
    constraints = tuple(Constraint(one, mask_of(words), other) for (one, other), words in pattern.items())
    return Situations(definitions, constraints, within, default_returned(definitions), (), mode)


def matches(query: Situations, rows: pa.RecordBatch, size: int) -> list[int]:
    found = everything(SituationsOperator(Shape(rows.schema, "t"), query), rows, size)
    return [time for batch in found for time in batch.column("match_time").to_pylist()]


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("case", GOLDEN, ids=lambda each: each.name)
def test_early(case: Golden, size: int) -> None:
    query = query_of(case.allen(), list(case.situations), case.bounds, Mode.EARLY)
    assert matches(query, case.rows(), size) == ([] if case.instant is None else [case.instant])


@pytest.mark.parametrize("case", GOLDEN, ids=lambda each: each.name)
def test_completed(case: Golden) -> None:
    query = query_of(case.allen(), list(case.situations), case.bounds, Mode.COMPLETED)
    last = max(end for _, end in case.situations.values())
    assert matches(query, case.rows(), 100) == ([] if case.instant is None else [last])


def test_every_two_intervals_under_every_relation_and_group() -> None:
    """All pairs of intervals of six instants, packed into one stream each side of a gap, under all relations alone."""
    intervals = list(combinations(range(6), 2))
    pairs = [(one, other) for one in intervals for other in intervals]
    keys = np.repeat(np.arange(len(pairs)), 8)
    times = np.tile(np.arange(8), len(pairs))
    holds = [
        np.concatenate([(np.arange(8) >= pair[side][0]) & (np.arange(8) < pair[side][1]) for pair in pairs])
        for side in (0, 1)
    ]
    rows = pa.record_batch([keys, times, *holds], names=["k", "t", "a", "b"]).sort_by("t")
    rows = pa.record_batch(rows.columns, names=rows.schema.names)
    parts = [{name} for name in RELATIONS] + [set(group) for group in GROUPS]
    parts += [group - {name} for group in GROUPS for name in group]
    for allowed in parts:
        for mode in Mode:
            query = query_of({("A", "B"): sorted(allowed)}, "AB", {}, mode)
            query = Situations(query.definitions, query.constraints, query.within, query.returned, ("k",), mode)
            expected = []
            for key, (one, other) in enumerate(pairs):
                a, b = Situation(*one, one[0]), Situation(*other, other[0])
                if relation(a, b) in allowed:
                    expected.append((key, certain(a, b, allowed) if mode is Mode.EARLY else max(one[1], other[1])))
            found = everything(SituationsOperator(Shape(rows.schema, "t"), query), rows, 10_000)
            known = [(row["k"], row["match_time"]) for batch in found for row in batch.to_pylist()]
            assert sorted(known) == sorted(expected), (allowed, mode)


def test_the_window_is_inclusive() -> None:
    case = GOLDEN[0]
    for within, expected in ((14, [15]), (13, [])):
        query = query_of(case.allen(), list(case.situations), {}, Mode.COMPLETED, within)
        assert matches(query, case.rows(), 100) == expected
    for within, expected in ((7, [8]), (6, [])):
        query = query_of(case.allen(), list(case.situations), {}, Mode.EARLY, within)
        assert matches(query, case.rows(), 100) == expected


@pytest.mark.parametrize("mode", Mode)
def test_a_window_shorter_than_any_situation(mode: Mode) -> None:
    rows = pa.record_batch(
        [np.arange(TICKS), np.arange(TICKS) % 10 < 5, np.arange(TICKS) % 10 < 6], names=["t", "a", "b"]
    )
    query = query_of({("A", "B"): ["starts"]}, "AB", {}, mode, 4)
    assert matches(query, rows, 3) == []


@pytest.mark.parametrize(("mode", "expected"), [(Mode.COMPLETED, []), (Mode.EARLY, [6, 16])])
def test_a_condition_that_always_holds(mode: Mode, expected: list[int]) -> None:
    """It never ends, so that nothing with it is ever complete; early matches need the end of what is during it."""
    always = np.ones(TICKS, np.bool_)
    rows = pa.record_batch([np.arange(TICKS), (np.arange(TICKS) + 4) % 10 >= 6, always], names=["t", "a", "b"])
    query = query_of({("A", "B"): ["during"]}, "AB", {}, mode)
    assert matches(query, rows, 3) == expected


def test_a_condition_that_holds_for_one_row() -> None:
    times = np.array([0, 10, 20, 30])
    rows = pa.record_batch([times, times == 10, times < 20], names=["t", "a", "b"])
    query = query_of({("A", "B"): ["finishes"]}, "AB", {"A": (10, 10)}, Mode.COMPLETED)
    assert matches(query, rows, 1) == [20]


def test_times_at_the_ends_of_what_can_be_counted() -> None:
    least, most = -(2**63), 2**63 - 1
    times = np.array([least, least + 5, 0, 7, most - 2, most - 1])
    rows = pa.record_batch(
        [times, np.array([1, 0, 1, 0, 1, 0], np.bool_), np.array([0, 1, 0, 1, 0, 1], np.bool_)], names=["t", "a", "b"]
    )
    query = query_of({("A", "B"): ["meets"]}, "AB", {}, Mode.EARLY, most)
    assert matches(query, rows, 2) == [least + 5, 7, most - 1]

"""Situations whose early matches nobody wants any more: which rows they do without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import Parts, rereadable
from support.situations.queries import SHAPE, random_query, random_rows
from tidelog.model.times.clock import INT64_MIN
from tidelog.operators.base import LookBack, Operator, Shape
from tidelog.operators.composed import chain
from tidelog.operators.conformance import rows_of
from tidelog.operators.feedback import Flow
from tidelog.operators.rowwise import Filter, Projection
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.syntax import Aggregate, Derivation, Mode, Returned, Situations

NEVER = 1 << 40


def random_situations(dice: np.random.Generator) -> tuple[Situations, pa.RecordBatch]:
    """With and without keys; also which rows situations have comes out."""
    keys = int(dice.choice([1, 3, 8]))
    rows = random_rows(dice, keys, 120 // keys, ends=bool(dice.random() < 0.5))
    mode = Mode.EARLY if dice.random() < 0.5 else Mode.COMPLETED
    query, _, _ = random_query(dice, rows, mode, partition=("k",) if keys > 1 else ())
    firsts = tuple(
        Returned(f"first_{each.name}", '"#0"', (Aggregate(each.name, 'min("_seq")'),)) for each in query.definitions
    )
    return replace(query, returned=(*query.returned, *firsts)), rows


def wanted(operator: Operator, batches: list[pa.RecordBatch], horizon: int) -> list[tuple[object, ...]]:
    at = operator.output.schema.get_field_index(operator.output.time)
    return [row for row in rows_of(operator.output, batches) if row[at] >= horizon]


def check(make: Callable[[], Operator], rows: pa.RecordBatch, dice: np.random.Generator) -> int:
    """Rows from the horizon on are what they were, however it rises; how many of them there are."""
    operator = make()
    flow = Flow(operator, [Parts(rows, dice)])
    horizon = INT64_MIN
    found = []
    last = int(np.asarray(rows.column("t")).max())
    if dice.random() < 0.5:
        horizon = int(dice.integers(0, last + 1))
        flow.skip(horizon)
    for batch in flow:
        found.append(batch)
        if dice.random() < 0.3:
            horizon = max(horizon, int(dice.integers(0, last + 1)))
            flow.skip(horizon)
    expected = wanted(operator, list(Flow(make(), [[rows]])), horizon)
    assert wanted(operator, found, horizon) == expected
    assert flow.skipped == 0  # the operator chooses by itself
    return len(expected)


@pytest.mark.parametrize("seed", range(6))
def test_matches_from_the_horizon_on_are_what_they_were(seed: int) -> None:
    """By itself, and behind and before filters."""
    dice = np.random.default_rng(seed)
    skipped = matches = 0
    for _ in range(25):
        query, rows = random_situations(dice)
        made: list[SituationsOperator] = []

        def alone(query: Situations = query, made: list[SituationsOperator] = made) -> SituationsOperator:
            made.append(SituationsOperator(SHAPE, query))
            return made[-1]

        def chained(alone: Callable[[], SituationsOperator] = alone) -> Operator:
            own = alone()
            return chain(Filter(SHAPE, "t % 5 <> 3"), own, Filter(own.output, "match_time % 4 <> 1"))

        for make in (alone, chained):
            matches += check(make, rows, dice)
        skipped += sum(each.skipped for each in made)
    assert matches > 100
    assert skipped > 100


def test_of_the_rows_before_the_window_the_last_one_of_each_key_is_looked_at() -> None:
    """And nothing comes out that is known before the horizon."""
    dice = np.random.default_rng(0)
    rows = random_rows(dice, 3, 40)
    query, _, _ = random_query(dice, rows, Mode.COMPLETED)
    operator = SituationsOperator(SHAPE, query)
    horizon = 30 + query.within
    assert operator.skip(horizon) == (30,)
    assert operator.looks_back == (LookBack(1, ("k",)),)
    operator.push(0, rows)
    found = operator.finish()
    times, keys = (np.asarray(rows.column(name)) for name in ("t", "k"))
    assert operator.skipped == (times < 30).sum() - len(np.unique(keys[times < 30])) > 0
    assert all(min(batch.column("match_time").to_pylist()) >= horizon for batch in found)


NUMBERED = Shape(SHAPE.schema.append(pa.field("_seq", pa.int64())), SHAPE.time)


@pytest.mark.parametrize("seed", range(4))
def test_sources_are_asked_for_the_last_row_of_each_key(seed: int) -> None:
    """By a pattern itself, and through what makes a row of each; behind a filter the pattern chooses by itself."""
    dice = np.random.default_rng(seed)
    unread = matches = 0
    for turn in range(24):
        query, rows = random_situations(dice)
        rows = rows.append_column("_seq", pa.array(np.arange(rows.num_rows)))
        own = SituationsOperator(NUMBERED, query)
        front = [None, Projection(NUMBERED, {name: name for name in NUMBERED.schema.names}), Filter(NUMBERED, "t >= 0")]
        operator = own if front[turn % 3] is None else chain(front[turn % 3], own)
        source = rereadable(rows, "t", dice)
        flow = Flow(operator, [source])
        last = int(np.asarray(rows.column("t")).max())
        horizon = int(dice.integers(0, last + 1)) if dice.random() < 0.5 else INT64_MIN
        flow.skip(horizon)
        found = []
        for batch in flow:
            found.append(batch)
            if dice.random() < 0.3:
                horizon = max(horizon, int(dice.integers(0, last + 1)))
                flow.skip(horizon)
        expected = wanted(own, list(Flow(SituationsOperator(NUMBERED, query), [[rows]])), horizon)
        assert wanted(own, found, horizon) == expected
        matches += len(expected)
        if turn % 3 == 2:
            assert source.rows == rows.num_rows
        else:
            unread += rows.num_rows - source.rows
    assert matches > 20
    assert unread > 100


def test_numbers_of_rows_are_not_changed_by_what_is_not_read() -> None:
    """Where rows have none of their own, and some come out, all rows are read."""
    dice = np.random.default_rng(0)
    query, _ = random_situations(dice)
    operator = SituationsOperator(SHAPE, query)
    assert operator.looks_back == (None,)
    assert operator.skip(50) == (INT64_MIN,)


@pytest.mark.parametrize("seed", range(4))
def test_situations_alone_need_all_rows(seed: int) -> None:
    """One that ends at the horizon may have begun at any time: only what comes out is left out."""
    dice = np.random.default_rng(seed)
    for _ in range(10):
        query, rows = random_situations(dice)
        own = Derivation(query.definitions, (("count", "count(*)"), ("first", 'min("_seq")')), query.partition)
        assert check(lambda own=own: DeriveOperator(SHAPE, own), rows, dice) >= 0  # type: ignore[misc]
        operator = DeriveOperator(SHAPE, own)
        operator.skip(NEVER)
        operator.push(0, rows)
        assert operator.finish() == []
        assert operator.skipped == 0

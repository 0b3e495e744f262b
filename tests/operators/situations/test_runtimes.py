"""Situations in all runtimes of the package: batches of any size, restarts, late rows, and keys that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.situations import columns
from support.situations.oracle import Kind, situations
from support.situations.queries import NAMES, SHAPE, of_key, random_query, random_rows
from tidelog.operators.base import Batches, Operator, Shape
from tidelog.operators.conformance import Disk, OperatorConformance, in_order, timely
from tidelog.operators.situations.errors import SituationError
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.syntax import Definition, Derivation, Mode, Situations

TERMS = [
    ("rows", "count(*)"),
    ("first", 'first("v")'),
    ("last", 'last("v")'),
    ("total", 'sum("v")'),
    ("mean", 'avg("v")'),
]
SCHEMA = SHAPE.schema.append(pa.field("v", pa.int64()))


def shuffled(dice: np.random.Generator, rows: pa.RecordBatch, lateness: int) -> pa.RecordBatch:
    """Rows that arrive a little out of order."""
    delays = np.asarray(rows.column("t")) + dice.integers(0, lateness + 2, rows.num_rows)
    return rows.take(pa.array(np.argsort(delays, kind="stable")))


@pytest.mark.parametrize("seed", range(6))
def test_matches(seed: int) -> None:
    """Also against the oracle, of the rows that are in time."""
    dice = np.random.default_rng(seed)
    rows = random_rows(dice, 12, 14, ends=seed % 3 > 0)
    query, kinds, constraints = random_query(dice, rows, Mode.EARLY if seed % 2 else Mode.COMPLETED)
    lateness = int(dice.integers(0, 4))
    arriving = shuffled(dice, rows, lateness)
    OperatorConformance(lambda: SituationsOperator(SHAPE, query)).check([arriving], dice, lateness=lateness, rounds=2)
    kept = in_order(SHAPE, timely(SHAPE, arriving, lateness))
    operator = SituationsOperator(SHAPE, query)
    operator.push(0, kept)
    expected = columns.expected(kept, query, kinds, constraints)
    assert np.array_equal(columns.found(operator.finish(), query), expected)


@pytest.mark.parametrize("seed", range(3))
def test_matches_without_keys(seed: int) -> None:
    dice = np.random.default_rng(100 + seed)
    rows = random_rows(dice, 1, 120)
    query, _, _ = random_query(dice, rows, Mode.EARLY if seed % 2 else Mode.COMPLETED, partition=())
    OperatorConformance(lambda: SituationsOperator(SHAPE, query)).check([rows], dice, rounds=2)


@pytest.mark.parametrize("mode", Mode)
def test_a_restart_at_every_border(mode: Mode) -> None:
    dice = np.random.default_rng(7)
    rows = random_rows(dice, 6, 12)
    query, kinds, constraints = random_query(dice, rows, mode)
    expected = columns.expected(rows, query, kinds, constraints)
    assert len(expected)
    times = np.asarray(rows.column("t"))
    for size in (2, 17):
        operator, disk = SituationsOperator(SHAPE, query), Disk()
        found: Batches = []
        for first in range(0, rows.num_rows, size):
            part = rows.slice(first, size)
            found += operator.push(0, part)
            operator = disk.restarted(operator.snapshot(), SituationsOperator(SHAPE, query))
            found += operator.advance(int(times[first + part.num_rows - 1]))
            operator = disk.restarted(operator.snapshot(), SituationsOperator(SHAPE, query))
        found += operator.finish()
        assert np.array_equal(columns.found(found, query), expected)


def many_keys(dice: np.random.Generator, rounds: int, keys: int) -> pa.RecordBatch:
    """Each round has keys of its own, and a few that come back every third round."""
    parts = []
    for number in range(rounds):
        rows = random_rows(dice, keys, 6, ends=False)
        own = np.asarray(rows.column("k"))
        own = np.where(own < 10, own + 10 * (number % 3), own + number * keys + 100)
        moved = [pa.array(own), pa.array(np.asarray(rows.column("t")) + 30 * number), *rows.columns[2:]]
        parts.append(pa.record_batch(moved, schema=rows.schema))
    return pa.concat_batches(parts)


@pytest.mark.parametrize("mode", Mode)
def test_keys_are_forgotten_and_come_back(mode: Mode) -> None:
    """The windows of most keys have passed when others come; situations that go on keep theirs."""
    dice = np.random.default_rng(11)
    rows = many_keys(dice, 9, 700)
    query, kinds, constraints = random_query(dice, random_rows(dice, 20, 12), mode)
    query = replace(query, within=20)
    times = np.asarray(rows.column("t"))
    for restart in (False, True):
        operator, disk = SituationsOperator(SHAPE, query), Disk()
        found: Batches = []
        most = 0
        for first in range(0, rows.num_rows, 900):
            part = rows.slice(first, 900)
            found += operator.push(0, part)
            found += operator.advance(int(times[first + part.num_rows - 1]))
            most = max(most, len(operator._keys))
            if restart:
                operator = disk.restarted(operator.snapshot(), SituationsOperator(SHAPE, query))
        found += operator.finish()
        assert np.array_equal(columns.found(found, query), columns.expected(rows, query, kinds, constraints))
        assert most < 9 * 690, "some were forgotten"


def derived(rows: pa.RecordBatch, kinds: list[Kind]) -> list[tuple[Any, ...]]:
    """Situations with aggregates, straight from the definitions."""
    found = []
    for key in set(rows.column("k").to_pylist()):
        times, holds = of_key(rows, key)
        values = rows.filter(pa.array(np.asarray(rows.column("k")) == key)).column("v").to_pylist()
        for name, own, kind in zip(NAMES, holds, kinds, strict=False):
            for each in situations(times, own, kind):
                end = next(at for at in range(len(times)) if times[at] == each.end and not own[at] and own[at - 1])
                first = end
                while first and own[first - 1]:
                    first -= 1
                run = values[first:end]
                found.append(
                    (key, name, each.start, each.end, len(run), run[0], run[-1], sum(run), sum(run) / len(run))
                )
    return sorted(found)


@pytest.mark.parametrize("seed", range(4))
def test_situations_alone(seed: int) -> None:
    dice = np.random.default_rng(seed)
    rows = random_rows(dice, 10, 15, ties=seed % 2 > 0)
    rows = rows.append_column("v", pa.array(dice.integers(0, 50, rows.num_rows)))
    kinds = [Kind(), Kind(2), Kind(0, 3), Kind(1, 4)]
    definitions = tuple(
        Definition(name, name.lower(), kind.least, kind.most) for name, kind in zip(NAMES, kinds, strict=False)
    )
    query = Derivation(definitions, tuple(TERMS), ("k",))
    shape = Shape(SCHEMA, "t")

    def make() -> Operator:
        return DeriveOperator(shape, query)

    found = OperatorConformance(make).check([rows], dice, rounds=2)
    assert sorted(found) == derived(rows, kinds)
    ends = [row[3] for row in found]
    assert ends == sorted(ends)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (Derivation(()), "found no definition of a situation"),
        (Derivation((Definition("A", "a"), Definition("a", "b"))), "found two definitions of a"),
        (Derivation((Definition("A", "a", 5, 3),)), "at least 5 and at the most 3"),
        (Derivation((Definition("A", "nothing"),)), "nothing"),
        (Derivation((Definition("A", "a"),), (("start_time", "count(*)"),)), "found two columns start_time"),
        (Derivation((Definition("A", "a"),), (), ("no",)), "there is no column 'no' for a key"),
    ],
)
def test_derivations_that_break_a_rule(query: Derivation, told: str) -> None:
    with pytest.raises(SituationError, match=told):
        DeriveOperator(SHAPE, query)


def test_memory_is_flat_under_a_window() -> None:
    """What is kept goes by the window, not by how much has come."""
    dice = np.random.default_rng(5)
    query = random_query(dice, random_rows(dice, 4, 20), Mode.EARLY)[0]
    operator = SituationsOperator(SHAPE, replace(query, within=30))
    sizes = []
    for number in range(60):
        rows = random_rows(dice, 10, 40, ends=False)
        moved = [rows.column(0), pa.array(np.asarray(rows.column("t")) + 100 * number), *rows.columns[2:]]
        operator.push(0, pa.record_batch(moved, schema=rows.schema))
        operator.advance(100 * number + 90)
        sizes.append((operator.matcher.buffers.rows, operator.matcher.buffers.bytes))
    assert max(rows for rows, _ in sizes[30:]) <= 2 * max(rows for rows, _ in sizes[:10])
    assert max(size for _, size in sizes[30:]) <= 2 * max(size for _, size in sizes[:10])


def test_a_query_is_told_what_it_breaks() -> None:
    query = Situations((Definition("A", "a"), Definition("B", "b")), (), 5, ())
    with pytest.raises(SituationError, match="constraints that bind B to the other situations"):
        SituationsOperator(SHAPE, query)

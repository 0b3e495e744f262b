"""Every aggregate fulfils the contract, however rows are cut and states are merged; and the checks of it can fail."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from expr.oracle import BATCH
from support.profiles import scaled
from tidelog.aggregates import named, names
from tidelog.aggregates.base import Cuts, States
from tidelog.aggregates.conformance import FoldConformance
from tidelog.aggregates.contract import UNKNOWN, Fold
from tidelog.expr import ExpressionError, parse_aggregate
from tidelog.expr.aggregates.builtin import BUILT_IN
from tidelog.expr.aggregates.database import database_call
from tidelog.index.layout import Layout
from tidelog.model.schema import Schema
from tidelog.store.read.aggregates.entry_fold import FUNCTIONS, EntryFold

ROUNDS = max(scaled(100) // 50, 1)
ROWS = 30

COLUMNS = BATCH.schema.names
NUMBERS = ("a", "l", "ul", "e", "ts", "dt")
"""Of every kind of state: sums of integers of all widths, of floats, and of times there are none."""


def rows_of(dice: np.random.Generator, batch: pa.RecordBatch, count: int) -> pa.RecordBatch:
    """Rows of a batch in any order, with places of their own."""
    chosen = batch.take(pa.array(dice.integers(0, batch.num_rows, count)))
    places = [pa.array(np.sort(dice.integers(0, 10, count))), pa.array(np.arange(count))]
    return pa.RecordBatch.from_arrays([*places, *chosen.columns], ["at", "_seq", *chosen.schema.names])


SCHEMA = rows_of(np.random.default_rng(0), BATCH, 0).schema


def check(fold: Fold, **options: Any) -> None:
    dice = np.random.default_rng(7)
    for count in (0, 1, *([ROWS] * ROUNDS)):
        FoldConformance(fold, **options).check(rows_of(dice, BATCH, count), dice)


@pytest.mark.parametrize(
    "call", ["median(e)", "count(DISTINCT t) FILTER (WHERE q)", "list(a ORDER BY e DESC, _seq)", "string_agg(t, '-')"]
)
def test_of_duckdb(call: str) -> None:
    check(database_call(call, SCHEMA))


@pytest.mark.parametrize("function", BUILT_IN)
def test_built_in(function: str) -> None:
    for column in COLUMNS:
        if column == "d" and function.startswith(("var", "stddev", "sum", "avg")):
            continue  # infinities, and numbers beside which others vanish
        try:
            call = parse_aggregate(f"{function}({column})", SCHEMA)
        except ExpressionError:
            continue
        check(call, tolerance=1e-6)
    check(parse_aggregate(f"{function}(e + 1) filter (where q)", SCHEMA))


def test_counts_of_rows() -> None:
    check(parse_aggregate("count(*)", SCHEMA))
    check(parse_aggregate("count(*) filter (where q)", SCHEMA))


ARGUMENTS = {
    "approx_quantile": "({0}, 0.5)",
    "approx_top_k": "({0}, 3)",
    "bounding_box": "({0}, {0})",
    "sum_of_products": "({0}, {0})",
}
SKETCHES = ("distinct_sketch", "frequent_sketch", "quantile_sketch")


@pytest.mark.parametrize("name", [name for name in names() if named(name).__module__.startswith("tidelog.")])
def test_ready_made(name: str) -> None:
    checked = 0
    for column in NUMBERS:
        text = name + ARGUMENTS.get(name, "({0})").format(column)
        try:
            call = parse_aggregate(text, SCHEMA, "at")
        except ExpressionError:
            continue
        checked += 1
        if name in SKETCHES:  # of which the bytes depend on the order
            check(call, is_same=lambda one, other: type(one) is type(other))
        elif name == "approx_top_k":
            check(call, is_same=lambda one, other: sorted(map(_count, one or ())) == sorted(map(_count, other or ())))
        else:
            check(call, tolerance=1e-6)
    assert checked


def _count(each: Any) -> int:
    return max(value for value in each.values() if isinstance(value, int))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_entries(function: str) -> None:
    stored = [field for field in SCHEMA if field.name not in ("at", "_seq")]
    layout = Layout(Schema(pa.schema([SCHEMA.field("at"), *stored]), "at"))
    known = 0
    for column in COLUMNS:
        if column == "d" and function in ("sum", "avg"):
            continue
        try:
            call = parse_aggregate(f"{function}({column})", layout.stored)
        except ExpressionError:
            continue
        fold = EntryFold(layout, function, layout.index(column), call.type)
        check(fold, tolerance=1e-6)
        rows = rows_of(np.random.default_rng(3), BATCH, ROWS)
        cuts = np.array([0, ROWS])
        (found,), (expected,) = (each.lower(each.lift(rows, cuts)) for each in (fold, call))
        if found is not UNKNOWN:
            known += 1
            wanted = pytest.approx(expected, rel=1e-9, nan_ok=True) if isinstance(expected, float) else expected
            assert found == wanted
    assert known > 10
    check(EntryFold(layout, "count", None, pa.int64()))


class TestTheChecks:
    """A fold that is wrong in one way is found out."""

    class Sum(Fold):
        columns = ("e",)
        type = pa.float64()

        def start(self) -> States:
            return np.zeros(1)

        def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
            values = np.asarray(rows.column("e").fill_null(0.0))
            return np.array([values[first:last].sum() for first, last in itertools.pairwise(cuts)])

        def merge(self, states: States, cuts: Cuts) -> States:
            return np.array([states[first:last].sum() for first, last in itertools.pairwise(cuts)])

        def lower(self, states: States) -> list[Any]:
            return [float(each) or None for each in states]

    def test_a_sum_passes(self) -> None:
        check(self.Sum())

    def test_merging_that_forgets(self) -> None:
        class Forgets(self.Sum):  # type: ignore[name-defined, misc]
            def merge(self, states: States, cuts: Cuts) -> States:
                return np.array([states[first:last].max(initial=0) for first, last in itertools.pairwise(cuts)])

        with pytest.raises(AssertionError, match="found"):
            check(Forgets())

    def test_a_value_of_nothing(self) -> None:
        class Something(self.Sum):  # type: ignore[name-defined, misc]
            def lower(self, states: States) -> list[Any]:
                return [float(each) + 1 for each in states]

        with pytest.raises(AssertionError, match=r"the value of no rows is 1\.0"):
            check(Something())

    def test_states_that_change(self) -> None:
        class Changes(self.Sum):  # type: ignore[name-defined, misc]
            def merge(self, states: States, cuts: Cuts) -> States:
                merged = super().merge(states, cuts)
                states[:] += 1
                return merged

        with pytest.raises(AssertionError, match="found"):
            check(Changes())

    def test_runs_that_see_their_neighbours(self) -> None:
        class Leaks(self.Sum):  # type: ignore[name-defined, misc]
            def lift(self, rows: pa.RecordBatch, cuts: Cuts) -> States:
                return np.cumsum(super().lift(rows, cuts))

        with pytest.raises(AssertionError, match="runs of rows"):
            check(Leaks())

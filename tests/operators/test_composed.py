"""Operators behind one another are an operator."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import dicts, rows, shape
from tidelog.model.errors import SchemaError
from tidelog.operators.base import Needs, Operator
from tidelog.operators.composed import Composed, chain
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.marking import marked
from tidelog.operators.ordering import Reorder, Union
from tidelog.operators.replaying import replay
from tidelog.operators.rowwise import Filter, Projection
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.timed import TimeWindows


def plan() -> Composed:
    """A union of a filtered input and one in order, filtered again and projected."""
    of = shape()
    union = Union([of, of, of])
    left = Composed(union, [Filter(of, "n > 0"), None, chain(Filter(of, "x < 2"), Reorder(of))])
    whole = chain(left, Filter(union.output, "x is not null"), Projection(union.output, {"ts": "ts", "y": "x + n"}))
    assert isinstance(whole, Composed)
    return whole


def test_a_plan_gives_what_its_parts_give() -> None:
    dice = np.random.default_rng(8)
    for count in (0, 1, 40):
        batches = [rows(shape(), dice, count, jitter=7) for _ in range(3)]
        found = OperatorConformance(plan).check(batches, dice, lateness=7)
        tagged = []
        for number, batch in enumerate(batches):
            for row in dicts(batch):
                kept = (row["n"] or 0) > 0 if number == 0 else True
                kept = kept and (number != 2 or (row["x"] is not None and row["x"] < 2))
                if kept and row["x"] is not None:
                    y = None if row["n"] is None else row["x"] + row["n"]
                    tagged.append((row["ts"], number, row["_seq"], y))
        assert found == [(ts, y) for ts, _, _, y in sorted(tagged, key=lambda each: each[:3])]


def test_what_a_plan_needs() -> None:
    of = shape()
    assert plan().needs.order
    assert len(plan().inputs) == 3
    assert chain(Filter(of, "true"), Filter(of, "true")).needs == Needs(order=False)
    assert not chain(Filter(of, "true"), Reorder(of)).needs.order
    in_order = Composed(Union([of]), [chain(Filter(of, "true"), Reorder(of))])
    assert not in_order.needs.order
    assert chain(Filter(of, "true"), Union([of])).needs.order
    with pytest.raises(SchemaError, match="2 sources"):
        Composed(Filter(of, "true"), [None, None])
    with pytest.raises(SchemaError, match="a source gives"):
        chain(Filter(of, "true"), Filter(shape(seq=False), "true"))


def test_keys_are_columns_of_what_comes_in() -> None:
    of = shape()
    renamed = Projection(of, {"ts": "ts", "g": "k", "x": "x", "upper": "upper(k)"})

    def windows(by: list[str]) -> Operator:
        return TimeWindows(renamed.output, FixedFrames(10, 10), {"n": "count(*)"}, by)

    behind = Filter(windows(["g"]).output, "n > 1")
    plan = chain(Filter(of, "x > 0"), renamed, windows(["g"]), behind)
    assert plan.needs.keys == (("k",),)
    assert Composed(Union([plan.output] * 2), [plan, plan]).needs.keys == (("k",), ("k",))
    assert chain(renamed, windows(["upper"])).needs.keys is None  # of no column
    assert chain(renamed, windows([])).needs.keys is None
    assert Composed(Union([of] * 2), [None, None]).needs.keys == ()
    counted = CountWindows(plan.output, 2, 2, {"m": "count(*)"}, ["g"])
    assert chain(plan, counted).needs.keys is None  # windows do not pass their rows on
    by_upper = Filter(windows(["upper"]).output, "n > 1")
    for parts in (chain(renamed, windows(["upper"])).keyed(), chain(renamed, windows(["upper"]), by_upper).keyed()):
        assert parts is not None
        first, rest = parts
        assert first.needs == Needs(order=False)
        assert rest.needs.keys == (("upper",),)
        assert first.keeps_rows
    filtered = chain(Filter(of, "x > 0"), renamed, windows(["upper"])).keyed()
    assert filtered is not None
    assert not filtered[0].keeps_rows
    assert windows(["upper"]).keyed() is None
    assert chain(renamed, windows([])).keyed() is None
    assert Composed(Union([plan.output] * 2), [plan, plan]).keyed() is None


def test_keys_that_are_computed_first_give_the_same() -> None:
    of, dice = shape(), np.random.default_rng(81)
    batch = in_order(of, rows(of, dice, 200))

    def plan() -> Operator:
        named = Projection(of, {"ts": "ts", "x": "x", "odd": "n % 2", "upper": "upper(k)"})
        own = TimeWindows(named.output, FixedFrames(10, 5), {"m": "max(x)"}, ["odd", "upper"])
        return chain(Filter(of, "n <> 3"), named, own, Filter(own.output, "m > 0"))

    parts = plan().keyed()
    assert parts is not None
    between = list(replay(parts[0], [iter([batch])]))
    found = list(replay(parts[1], [iter(between)]))
    expected = list(replay(plan(), [iter([batch])]))
    assert dicts(pa.Table.from_batches(found)) == dicts(pa.Table.from_batches(expected))
    assert sum(each.num_rows for each in expected) > 10


@pytest.mark.parametrize("where", ["n <> 3", "x > 0 AND k IS NOT NULL", "n IN (1, 5)", "false", "true"])
def test_rows_that_are_left_out_are_marks_of_time(where: str) -> None:
    of, dice = shape(), np.random.default_rng(82)
    batch = in_order(of, rows(of, dice, 200))

    def plan() -> Operator:
        odd = Projection(of, {"at": "ts", "x": "x", "odd": "n % 2", "upper": "upper(k)"}, "at")
        named = Projection(odd.output, {"at": "at", "x": "x + 1", "both": "upper || odd::VARCHAR"})
        own = TimeWindows(named.output, FixedFrames(10, 5), {"m": "max(x)"}, ["both"])
        return chain(Filter(of, where), odd, Filter(odd.output, "odd = 1"), named, own)

    parts = plan().keyed()
    assert parts is not None
    first, rest = marked(*parts) or parts
    assert first.keeps_rows
    assert rest.needs.keys == (("both",),)
    between = [out for at in range(0, 200, 50) for out in first.push(0, batch.slice(at, 50))]
    assert [each.num_rows for each in between] == [50] * 4
    told = pa.Table.from_batches(between)
    assert told["at"].to_pylist() == batch["ts"].to_pylist()
    assert told["_seq"].to_pylist() == batch["_seq"].to_pylist()
    expected = dicts(pa.Table.from_batches(list(replay(plan(), [iter([batch])])), plan().output.schema))
    found = pa.Table.from_batches(list(replay(rest, [iter(between)])), rest.output.schema)
    assert dicts(found) == expected
    assert (len(expected) > 5) == (where != "false")


def test_what_is_more_than_filters_and_projections_is_not_marked() -> None:
    of = shape()
    windows = TimeWindows(of, FixedFrames(10, 5), {"m": "max(x)"}, ["k"])
    assert marked(Union([of] * 2), Filter(of, "true")) is None
    assert marked(chain(Filter(of, "true"), windows), Filter(windows.output, "true")) is None

"""Work on situations divided: conditions by others before, rows that say nothing left out, ranges of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from operators.cases import rows, shape
from support.profiles import scaled
from support.situations.queries import SHAPE, random_query, random_rows
from tidelog.operators.base import Batches, Operator, Shape
from tidelog.operators.composed import Composed, chain
from tidelog.operators.conformance import Replayed, rows_of
from tidelog.operators.rowwise import Filter, Projection
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.syntax import Definition, Derivation, Mode, Situations, default_returned

DICE = np.random.default_rng(0)


def random_operator(dice: np.random.Generator, given: pa.RecordBatch) -> Operator:
    mode = Mode.EARLY if dice.random() < 0.5 else Mode.COMPLETED
    query, _, _ = random_query(dice, given, mode, partition=())
    if dice.random() < 0.5:
        query = Situations(
            query.definitions, query.constraints, query.within, default_returned(query.definitions), (), mode
        )
    if dice.random() < 0.3:
        calls = (("rows", "count(*)"), ("when", "last(t)")) if dice.random() < 0.5 else ()
        return DeriveOperator(SHAPE, Derivation(query.definitions, calls))
    return SituationsOperator(SHAPE, query)


def given_by(operator: Operator, given: pa.RecordBatch) -> list[tuple[object, ...]]:
    return rows_of(operator.output, Replayed().run(lambda: operator, [given], [0], DICE))


def fresh(operator: Operator) -> Operator:
    """One that has seen nothing."""
    return type(operator)(operator.inputs[0], operator._query)  # type: ignore[attr-defined,call-arg]


def in_pieces(operator: Operator, given: pa.RecordBatch, cuts: list[int]) -> list[tuple[object, ...]]:
    """What ranges of time give, each from rows of its own, those within reach before, and the last one before these."""
    of: Shape = operator.inputs[0]
    times = of.times(given)
    assert operator.needs.behind is not None
    found: Batches = []
    for number in range(len(cuts) + 1):
        begin, end = (cuts[number - 1] if number else None), (cuts[number] if number < len(cuts) else None)
        own = fresh(operator)
        first = 0
        if begin is not None:
            first = int(np.searchsorted(times, begin - operator.needs.behind))
            first = max(first - 1, 0)
        last = len(times) if end is None else int(np.searchsorted(times, end))
        for batch in [*own.push(0, given.slice(first, last - first)), *own.finish()]:
            at = own.output.times(batch)
            found.append(batch.filter(pa.array(at >= (-(10**9) if begin is None else begin))))
    return rows_of(operator.output, found)


@pytest.mark.parametrize("seed", range(4))
def test_parts_give_what_the_whole_does(seed: int) -> None:
    dice = np.random.default_rng(seed)
    split, thin, ranged = 0, 0, 0
    for _ in range(scaled(30)):
        given = random_rows(dice, 1, int(dice.integers(40, 90)), ends=dice.random() < 0.5)
        operator = random_operator(dice, given)
        expected = given_by(fresh(operator), given)
        parts = operator.split()
        assert parts is not None
        assert given_by(chain(*parts), given) == expected
        split += bool(expected)
        cuts = np.sort(dice.integers(0, given.num_rows + 1, 3)).tolist()
        first, rest = parts
        (rows,) = first.push(0, given)
        pieces = [rest.thinned(rows.slice(a, b - a)) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        assert given_by(fresh(rest), pa.concat_batches(pieces)) == expected
        thin += bool(expected) and sum(map(len, pieces)) < 0.9 * len(rows)
        if operator.needs.last_before:
            times = operator.inputs[0].times(given)
            own = np.unique(dice.integers(times[0], times[-1] + 2, 3)).tolist()
            assert in_pieces(operator, given, own) == expected
            ranged += bool(expected)
    assert min(split, ranged) > scaled(6)
    assert thin


def test_what_stands_around_it_is_divided_too() -> None:
    dice = np.random.default_rng(8)
    of = shape()
    given = rows(of, dice, 200, span=150)
    query = Derivation((Definition("A", "n > 0"), Definition("B", "x < 1")), (("top", "max(n)"),))

    def make() -> Operator:
        renamed = Projection(of, {"ts": "ts", "n": "n + 1", "x": "x"})
        derived = DeriveOperator(renamed.output, query)
        return chain(renamed, derived, Filter(derived.output, "top > 3"))

    parts = make().split()
    assert parts is not None
    first, rest = parts
    assert not first.needs.order
    assert first.needs.keys == ()
    assert given_by(Composed(rest, [first]), given) == given_by(make(), given) != []
    assert chain(Filter(of, "n <> 2"), DeriveOperator(of, query)).split() is None  # by which rows seem less late
    assert chain(Filter(of, "n <> 2"), Filter(of, "n <> 3")).split() is None
    assert not make().needs.last_before

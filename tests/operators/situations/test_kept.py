"""Aggregates that only DuckDB computes, of rows that are kept, against those that have states of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from support.situations.queries import SHAPE, random_query, random_rows
from tidelog.operators.base import Operator, Shape
from tidelog.operators.conformance import OperatorConformance
from tidelog.operators.situations import matching
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.syntax import Aggregate, Derivation, Mode, Returned

SCHEMA = SHAPE.schema.append(pa.field("v", pa.int64()))
CALLS = {
    "kept": 'list("v")',
    "different": 'list(DISTINCT "v" ORDER BY "v" DESC)',
    "high": 'count(DISTINCT "t") FILTER (WHERE "v" > 3)',
    "rows": "count(*)",
    "first": 'first("v")',
    "last": 'last("v")',
    "total": 'sum("v")',
}


def check(row: dict[str, object], prefix: str = "") -> int:
    """Compare the aggregates of one situation; how many rows it has."""
    own = {name: row[f"{prefix}{name}"] for name in CALLS}
    kept = own["kept"]
    assert isinstance(kept, list)
    assert (len(kept), kept[0], kept[-1]) == (own["rows"], own["first"], own["last"])
    assert sum(each for each in kept if each is not None) == (own["total"] or 0)
    assert own["different"] == sorted({each for each in kept if each is not None}, reverse=True) + [None] * (
        None in kept
    )
    return len(kept)


def rows_with_values(dice: np.random.Generator, keys: int, rows: int) -> pa.RecordBatch:
    found = random_rows(dice, keys, rows)
    values = pa.array(dice.integers(0, 6, found.num_rows), mask=dice.random(found.num_rows) < 0.2)
    return pa.RecordBatch.from_arrays([*found.columns, values], schema=SCHEMA)


@pytest.mark.parametrize(("seed", "mode"), [(7, Mode.COMPLETED), (7, Mode.EARLY)])
def test_of_matches(monkeypatch: pytest.MonkeyPatch, seed: int, mode: Mode) -> None:
    """Whatever rows come at once, with restarts, and by threads."""
    dice = np.random.default_rng(seed)
    rows = rows_with_values(dice, 3, 14)
    query, _, _ = random_query(dice, rows, mode)
    returned = tuple(
        Returned(f"{each.name}_{name}", '"#0"', (Aggregate(each.name, call),))
        for each in query.definitions[:1]
        for name, call in CALLS.items()
    )
    query = replace(query, returned=returned, within=60)
    shape = Shape(SCHEMA, "t")
    found = OperatorConformance(lambda: SituationsOperator(shape, query)).check([rows], dice, rounds=1)
    names = SituationsOperator(shape, query).output.schema.names
    lengths = [
        check(dict(zip(names, row, strict=True)), f"{each.name}_") for row in found for each in query.definitions[:1]
    ]
    assert len(lengths) > 2
    assert max(lengths) > 2
    monkeypatch.setattr(matching, "_LEAST_ROWS", 1)

    def threaded() -> Operator:
        operator = SituationsOperator(shape, query)
        operator.use_threads(3)
        return operator

    operator = threaded()
    operator.push(0, rows)
    assert [tuple(row.values()) for each in operator.finish() for row in each.to_pylist()] == found


def test_of_situations_alone() -> None:
    dice = np.random.default_rng(5)
    rows = rows_with_values(dice, 2, 14)
    query = Derivation(random_query(dice, rows, Mode.COMPLETED)[0].definitions, tuple(CALLS.items()), ("k",))
    shape = Shape(SCHEMA, "t")
    found = OperatorConformance(lambda: DeriveOperator(shape, query)).check([rows], dice, rounds=1)
    names = DeriveOperator(shape, query).output.schema.names
    assert max(check(dict(zip(names, row, strict=True))) for row in found) > 2
    assert DeriveOperator(shape, query).explain[0].startswith('list("v") of A is computed by DuckDB of all its rows')

"""AS-OF joins, against a join row by row and DuckDB's."""

from __future__ import annotations

from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from operators.cases import TIMES, dicts, rows, shape
from tidelog.model.errors import SchemaError, TimeError
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance, in_order
from tidelog.operators.join import asof
from tidelog.operators.join.asof import AsOfJoin, Direction

Row = dict[str, Any]


def joined(
    left: list[Row],
    right: list[Row],
    by: dict[str, str],
    direction: Direction,
    strict: bool,
    tolerance: int | None,
    outer: bool,
) -> list[tuple[Any, ...]]:
    """Each left row beside its partner, looked for among all right rows."""
    found = []
    for row in left:
        candidates = []
        for place, other in enumerate(right):
            away = other["ts"] - row["ts"]
            if any(row[one] is None or row[one] != other[two] for one, two in by.items()):
                continue
            if (strict and away == 0) or (tolerance is not None and abs(away) > tolerance):
                continue
            if away <= 0 and direction is not Direction.FORWARD:
                candidates.append((-away, 0, -place, other))
            if away >= 0 and direction is not Direction.BACKWARD:
                candidates.append((away, 1, place, other))
        if candidates:
            partner = min(candidates, key=lambda each: each[:3])[3]
            found.append((*row.values(), *[partner[name] for name in ("ts", "k", "n", "x")]))
        elif outer:
            found.append((*row.values(), None, None, None, None))
    return found


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("tolerance", [None, 0, 4])
def test_against_every_pair(
    direction: Direction, strict: bool, tolerance: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asof, "_FEW", 3)
    dice = np.random.default_rng(30)
    of = shape()
    for by in ({}, {"k": "k"}, {"n": "n", "k": "k"}):
        for outer in (False, True):
            for counts in ((30, 40), (0, 5), (5, 0), (1, 1)) if outer else ((40, 20),):
                batches = [rows(of, dice, count, jitter=5) for count in counts]
                options = {"strict": strict, "tolerance": tolerance, "outer": outer}
                make = partial(AsOfJoin, of, of, by, direction, **options)
                found = OperatorConformance(make).check(batches, dice, lateness=5, rounds=1)
                left, right = (dicts(in_order(of, batch)) for batch in batches)
                assert found == joined(left, right, by, direction, strict, tolerance, outer)


@pytest.mark.parametrize("time", TIMES, ids=str)
@pytest.mark.parametrize(
    ("direction", "strict", "comparison"),
    [
        (Direction.BACKWARD, False, ">="),
        (Direction.BACKWARD, True, ">"),
        (Direction.FORWARD, False, "<="),
        (Direction.FORWARD, True, "<"),
    ],
)
def test_against_duckdb(time: pa.DataType, direction: Direction, strict: bool, comparison: str) -> None:
    dice = np.random.default_rng(31)
    of = shape(time)
    left = rows(of, dice, 60)
    right = rows(of, dice, 60, span=200)
    _, firsts = np.unique(of.times(right), return_index=True)
    right = right.take(pa.array(firsts))  # which one of several of one time DuckDB takes is not told
    make = partial(AsOfJoin, of, of, {"k": "k"}, direction, strict=strict, outer=True)
    found = OperatorConformance(make).check([left, right], dice, rounds=1)
    with duckdb.connect() as connection:
        connection.register("l", pa.Table.from_batches([left]))
        connection.register("r", pa.Table.from_batches([right]))
        expected = connection.sql(
            f"SELECT l._seq, r.n, r.x FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.ts {comparison} r.ts ORDER BY l._seq"
        ).fetchall()
    names = make().output.schema.names
    assert names == ["ts", "k", "n", "x", "_seq", "ts_right", "k_right", "n_right", "x_right"]
    assert [(row[4], *row[7:]) for row in found] == expected


def test_old_partners_are_forgotten() -> None:
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False), ("k", pa.int64())]), "ts")
    operator = AsOfJoin(of, of, {"k": "k"})
    for start in range(0, 100_000, 5_000):
        times = np.arange(start, start + 5_000)
        operator.push(1, pa.RecordBatch.from_arrays([pa.array(times), pa.array(times % 10)], schema=of.schema))
        assert operator.advance(start + 5_000) == []
        assert len(operator._rows[1]) < 5_000
    operator.push(0, pa.RecordBatch.from_arrays([pa.array([100_000, 100_000]), pa.array([3, 11])], schema=of.schema))
    (found,) = operator.finish()
    assert found.to_pydict() == {"ts": [100_000], "k": [3], "ts_right": [99_993], "k_right": [3]}


def test_the_ends_of_time() -> None:
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False)]), "ts")
    low, high = -(2**63), 2**63 - 1
    batch = pa.RecordBatch.from_arrays([pa.array([low, low + 1, high])], schema=of.schema)
    for direction in Direction:
        for strict in (False, True):
            make = partial(AsOfJoin, of, of, None, direction, strict=strict, outer=True)
            found = OperatorConformance(make).check([batch, batch], np.random.default_rng(32), rounds=5)
            if not strict:
                assert found == [(low, low), (low + 1, low + 1), (high, high)]
            elif direction is Direction.BACKWARD:
                assert found == [(low, None), (low + 1, low), (high, low + 1)]
            elif direction is Direction.FORWARD:
                assert found == [(low, low + 1), (low + 1, high), (high, None)]
            else:
                assert found == [(low, low + 1), (low + 1, low), (high, low + 1)]


def test_what_cannot_be() -> None:
    of = shape()
    with pytest.raises(TimeError, match="tolerance"):
        AsOfJoin(of, of, tolerance=-1)
    with pytest.raises(SchemaError, match="expected the same one"):
        AsOfJoin(of, of, {"n": "x"})
    with pytest.raises(SchemaError, match="no column 'm'"):
        AsOfJoin(of, of, {"n": "m"})
    with pytest.raises(SchemaError, match="choose a suffix"):
        AsOfJoin(of, of, suffix="")
    with pytest.raises(SchemaError, match="different units"):
        AsOfJoin(shape(pa.timestamp("s")), shape(pa.timestamp("ms")))

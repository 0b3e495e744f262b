"""Filters and projections: the rows of SQL, in every runtime."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from operators.cases import TIMES, rows, shape
from tidelog.expr import ExpressionError
from tidelog.model.errors import SchemaError
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance
from tidelog.operators.rowwise import Filter, Projection


@pytest.mark.parametrize("time", TIMES, ids=str)
@pytest.mark.parametrize("where", ["n > 0 and x < 2", "k is null or k = 'a'", "true", "n > 100", "x"])
def test_filters_give_what_duckdb_gives(time: pa.DataType, where: str) -> None:
    dice = np.random.default_rng(1)
    of = shape(time)
    for count in (0, 1, 40):
        batch = rows(of, dice, count, jitter=30)
        found = OperatorConformance(lambda: Filter(of, where)).check([batch], dice, lateness=100)
        table = pa.Table.from_batches([batch])
        with duckdb.connect() as connection:
            numbers = connection.from_arrow(table).filter(where).order("_seq").select("_seq").fetchall()
        assert sorted(row[-1] for row in found) == [number for (number,) in numbers]


def test_a_filter_passes_batches_on_as_they_are() -> None:
    batch = rows(shape(), np.random.default_rng(2), 5)
    assert Filter(shape(), "ts > -1000").push(0, batch)[0] is batch
    assert Filter(shape(), "ts > 1000").push(0, batch) == []


@pytest.mark.parametrize("time", TIMES, ids=str)
def test_projections_give_what_duckdb_gives(time: pa.DataType) -> None:
    dice = np.random.default_rng(3)
    of = shape(time)
    columns = {"at": "ts", "K": "upper(k)", "y": "n * 2 + x", "n": "n"}
    batch = rows(of, dice, 40)
    found = OperatorConformance(lambda: Projection(of, columns, "at")).check([batch], dice)
    with duckdb.connect() as connection:
        table = connection.from_arrow(pa.Table.from_batches([batch]))
        expected = table.project("upper(k), n * 2 + x, n, _seq").fetchall()
    assert [row[1:] for row in found] == expected
    assert Projection(of, columns, "at").output.schema.names == ["at", "K", "y", "n", "_seq"]
    assert Projection(of, columns, "at").output.time_type == time


def test_a_projection_keeps_time_and_types() -> None:
    of = Shape(pa.schema([pa.field("ts", pa.int64(), nullable=False), ("small", pa.int8())]), "ts")
    kept = Projection(of, {"ts": "ts", "Other Name": '"small"'})
    assert kept.output.schema.types == [pa.int64(), pa.int8()]
    with pytest.raises(SchemaError, match="not the time of the rows"):
        Projection(of, {"ts": "ts + 1"})
    with pytest.raises(SchemaError, match="not the time of the rows"):
        Projection(of, {"small": "small"})
    with pytest.raises(ExpressionError, match="missing"):
        Projection(of, {"ts": "ts", "y": "missing + 1"})


def test_shapes_have_a_time() -> None:
    with pytest.raises(SchemaError, match="did you mean 'ts'"):
        Shape(shape().schema, "tss")
    with pytest.raises(SchemaError, match="expected int64 or a timestamp"):
        Shape(shape().schema, "k")

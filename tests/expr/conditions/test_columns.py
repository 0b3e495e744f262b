"""Comparisons of two columns, straight on their memory, against DuckDB's."""

from __future__ import annotations

import itertools

import duckdb
import pyarrow as pa
import pytest

from tidelog.expr import predicate

TEXTS = pa.array(["a", "b", None, "c", ""])
VALUES = {
    "floats": ([None, float("nan"), -1.0, 0.0, -0.0, float("inf"), 2.0], pa.float64()),
    "integers": ([None, -3, 0, 7], pa.int32()),
    "booleans": ([None, False, True], pa.bool_()),
    "times": ([None, 0, 1], pa.timestamp("us")),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
def test_pairs_of_values(kind: str, operator: str) -> None:
    values, type_ = VALUES[kind]
    left, right = zip(*itertools.product(values, values), strict=True)
    table = pa.table({"a": pa.array(left, type_), "b": pa.array(right, type_)})
    for text in (f"a {operator} b", f"NOT a {operator} b"):
        found = predicate(text, table.schema).mask(table.to_batches()[0]).tolist()
        with duckdb.connect() as connection:
            connection.register("pairs", table)
            rows = connection.sql(f"SELECT {text} FROM pairs").fetchall()
        assert found == [each is True for (each,) in rows]


@pytest.mark.parametrize("condition", ["= 'b'", "> 'a'", "<> ''", "BETWEEN 'b' AND 'c'", "IN ('a', 'c')", "IS NULL"])
@pytest.mark.parametrize("column", ["s::VARCHAR", "CAST(b AS BLOB)::VARCHAR"])
def test_casts_that_change_nothing(column: str, condition: str) -> None:
    """A column cast to the type that it has is compared as it is."""
    table = pa.table({"s": TEXTS, "b": TEXTS.cast(pa.binary())})
    for text in (f"{column} {condition}", f"NOT {column} {condition}"):
        found = predicate(text, table.schema).mask(table.to_batches()[0]).tolist()
        with duckdb.connect() as connection:
            connection.register("texts", table)
            assert found == [each is True for (each,) in connection.sql(f"SELECT {text} FROM texts").fetchall()]

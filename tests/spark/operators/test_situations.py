"""Situations without keys over DataFrames: by ranges of time, by tasks that thin rows out, and over streams."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog.spark as tl
from support.spark.micro_batches import put
from support.spark.micro_batches import run as run_stream
from tidelog.operators.base import Operator, Shape
from tidelog.operators.conformance import in_order, in_time
from tidelog.operators.replaying import replay
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.relations import AFTER, BEFORE, CONTAINS, DURING, FINISHES, OVERLAPPED_BY, OVERLAPS
from tidelog.operators.situations.syntax import (
    Aggregate,
    Constraint,
    Definition,
    Derivation,
    Mode,
    Returned,
    Situations,
    default_returned,
)
from tidelog.spark.operators.columns import shape_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECOND = 1_000_000
COLUMNS = "ts timestamp, n bigint, x double, _seq bigint"
ROWS = 600


def rows(dice: np.random.Generator) -> pa.Table:
    """Rows of about one a second, some of the same time, in which values stay for a while; in no order."""
    seconds = np.cumsum(dice.integers(0, 3, ROWS))
    values = np.repeat(dice.integers(-5, 6, ROWS // 5), 5)
    others = np.repeat(dice.integers(-9, 10, ROWS // 3), 3) / 2
    return pa.table(
        {
            "ts": pa.array(seconds * SECOND, pa.timestamp("us", "UTC")),
            "n": pa.array(values, mask=dice.random(ROWS) < 0.05),
            "x": pa.array(others),
            "_seq": pa.array(np.arange(ROWS)),
        }
    ).take(pa.array(dice.permutation(ROWS)))


HIGH, LOW = Definition("H", "n > 1", least=2 * SECOND), Definition("L", "x < 2")
RELATIONS = OVERLAPS | DURING | FINISHES | OVERLAPPED_BY | CONTAINS
TOP = Returned("top", '"#0"', (Aggregate("L", "max(n)"),))


def pattern(within: int, mode: Mode, relations: int = RELATIONS, *more: Returned) -> Situations:
    both = (HIGH, LOW)
    constraint = (Constraint("H", relations, "L"),)
    return Situations(both, constraint, within * SECOND, (*default_returned(both), *more), (), mode)


QUERIES: dict[str, tuple[Situations | Derivation, bool]] = {
    "completed": (pattern(40, Mode.COMPLETED, RELATIONS, TOP), True),
    "early": (pattern(25, Mode.EARLY, BEFORE | AFTER | RELATIONS, TOP), True),
    "long window": (pattern(100_000, Mode.COMPLETED, RELATIONS), False),
    "alone": (Derivation((HIGH, LOW), (("rows", "count(*)"), ("last", "last(n)"))), False),
}
"""And whether ranges of time can be searched by themselves."""


def made(query: Situations | Derivation, shape: Shape) -> Operator:
    return SituationsOperator(shape, query) if isinstance(query, Situations) else DeriveOperator(shape, query)


def expected(query: Situations | Derivation, frame: DataFrame, table: pa.Table) -> pa.Table:
    shape = shape_of(frame.schema, "ts")
    batch = pa.RecordBatch.from_arrays(table.combine_chunks().to_batches()[0].columns, schema=shape.schema)
    return pa.Table.from_batches(replay(made(query, shape), [[in_order(shape, batch)]]))


def values(table: pa.Table) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return rows(np.random.default_rng(31))


@pytest.mark.parametrize("name", QUERIES)
def test_tasks_for_ranges_give_what_one_operator_does(session: SparkSession, table: pa.Table, name: str) -> None:
    query, is_by_range = QUERIES[name]
    frame = session.createDataFrame(table, COLUMNS).repartition(3)
    found = tl.run_operator(frame, partial(made, query), time="ts", tasks=4)
    assert values(found.toArrow()) == values(expected(query, frame, table)) != []
    plan = str(found._jdf.queryExecution().toString())  # type: ignore[operator]
    assert ("rows_that_matter" not in plan) == is_by_range


def test_streams_without_keys(session: SparkSession, table: pa.Table, tmp_path: Path) -> None:
    """Conditions are evaluated by the tasks that read, and one task matches; the state outlives a query."""
    ordered = table.sort_by("_seq")
    query = QUERIES["early"][0]
    put(tmp_path / "in", [ordered.slice(0, 200), ordered.slice(200, 200)])
    frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    out = tl.situations(
        frame.drop("_seq"),
        define={"H": "n > 1 AT LEAST 2 seconds", "L": "x < 2"},
        pattern="H before | after | overlaps | during | finishes | overlapped by | contains L",
        within="25 s",
        returns={
            "H_start_time": "H.start_time",
            "H_end_time": "H.end_time",
            "L_start_time": "L.start_time",
            "L_end_time": "L.end_time",
            "top": "max(L.n)",
        },
        mode="early",
        lateness="3s",
    )
    run_stream(out, tmp_path)
    put(tmp_path / "in", [ordered.slice(400)])
    last: Any = run_stream(out, tmp_path)
    assert last.recentProgress[-1].observedMetrics["tidelog"]["late_rows"] == 0
    every = expected(query, frame, table)
    shape = shape_of(frame.schema, "ts")
    rows = pa.RecordBatch.from_arrays(ordered.combine_chunks().to_batches()[0].columns, schema=shape.schema)
    assert all(in_time(shape, rows, 3 * SECOND))
    over = max(ordered["ts"].cast(pa.int64()).to_pylist()) - 3 * SECOND
    done = every.filter(pa.compute.less(every["match_time"].cast(pa.int64()), over))
    assert values(session.read.parquet(str(tmp_path / "out")).toArrow()) == values(done) != []

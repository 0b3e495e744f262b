"""Row patterns and situations over stored streams on Spark: few rows are read, and all matches found."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
import tidelog.spark as tl
from tidelog.spark.sql.planning import Asked, plan_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 300_000
CLUSTERS = (20_000, 161_111, 290_000)
CLAUSE = """SELECT * FROM s MATCH_RECOGNIZE ({partition} ORDER BY ts
    MEASURES {number} first(A.ts) AS a, last(B.ts) AS b, count(*) AS n, B.v AS w {rows}
    PATTERN (A X*? B) WITHIN INTERVAL '30 seconds' {more}
    DEFINE A AS kind = 100, B AS B.kind = 101 AND {condition})"""


def text(condition: str, partition: str = "", rows: str = "", more: str = "") -> str:
    number = "" if partition else "match_number() AS number,"
    return CLAUSE.format(partition=partition, number=number, rows=rows, more=more, condition=condition)


PRUNED = [
    text("B.v > 20"),
    text("B.v > PREV(B.v, 2)", rows="AFTER MATCH SKIP TO NEXT ROW"),
    text("NEXT(B.v, 2) < 90 AND PREV(A.v, 3) > 5", rows="AFTER MATCH SKIP TO LAST B"),
    text("true", "PARTITION BY site"),
    "SELECT * FROM s SITUATIONS (DEFINE A AS kind = 100, B AS kind >= 101 PATTERN A before | meets B WITHIN 30s "
    "RETURN A.start_time AS a, sum(B.v) AS v)",
    "SELECT * FROM s DERIVE (DEFINE A AS kind >= 100 AND v > 2 RETURN sum(v) AS v)",
]
WHOLE = [text("true", rows="ALL ROWS PER MATCH WITH UNMATCHED ROWS"), text("B.v > 20", more="EMIT TIMEOUTS")]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dice = np.random.default_rng(7)
    kind = dice.integers(0, 50, ROWS)
    for start in CLUSTERS:
        kind[start : start + 40 : 2] = dice.integers(100, 103, 20)
    rows = pa.table(
        {
            "ts": pa.array(np.arange(ROWS) // 3 * 1_000_000).cast(pa.timestamp("us")),
            "kind": kind,
            "site": pa.array(dice.choice(["north", "south"], ROWS)),
            "v": dice.integers(0, 1000, ROWS) / 8,
        }
    )
    folder = tmp_path_factory.mktemp("pruned") / "store"
    with tidelog.open(folder) as store:
        store.create_stream("s", schema=rows.schema, time="ts").append(rows)
    return folder


def planned_rows(path: Path, statement: str) -> int:
    """How many rows tasks are to read."""
    now = datetime.datetime.now(datetime.UTC)
    planned = plan_statement(str(path), Asked(statement, None, {}, None, "UTC", now, 4096))
    (operation,) = planned.operations.values()
    ((selecting, _),) = operation.inputs
    (reading,) = selecting.readings.values()
    return sum(part.piece.rows for part in reading.parts)


def values(rows: list[Any]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


def test_few_rows_are_read_and_all_matches_found(session: SparkSession, path: Path) -> None:
    with tidelog.open(path, read_only=True) as store:
        rows = store.sql("SELECT * FROM s").arrow()
    for statement in PRUNED:
        expected = tidelog.sql(statement, tables={"s": rows}).fetchall()
        found = tl.sql(session, statement, store=path).collect()
        assert values(found) == values(expected)
        assert len(expected) > 3
        assert 0 < planned_rows(path, statement) < ROWS / 5
    nothing = PRUNED[0].replace("B.kind = 101", "B.kind = 777")
    assert tl.sql(session, nothing, store=path).collect() == []
    assert planned_rows(path, nothing) == 0


def test_what_comes_out_besides_matches_takes_all_rows(path: Path) -> None:
    for statement in WHOLE:
        assert planned_rows(path, statement) == ROWS

"""Row patterns without partitions over DataFrames: tasks for ranges of time give the rows of one search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
import tidelog.spark as tl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LETTERS = "A AS letter = 'a', B AS letter = 'b'"
CLAUSES = {
    "the trap": "MEASURES MATCH_NUMBER() AS number, FIRST(n) AS low, LAST(n) AS high ONE ROW PER MATCH "
    "PATTERN (A A) WITHIN '3 seconds' DEFINE A AS TRUE",
    "skips and neighbours": "MEASURES MATCH_NUMBER() AS number, PREV(FIRST(n)) AS before, NEXT(LAST(n), 2) AS behind, "
    "count(*) AS rows ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ B) WITHIN '9 seconds' "
    f"DEFINE {LETTERS}",
    "all rows, unmatched ones too": "MEASURES CLASSIFIER() AS name, MATCH_NUMBER() AS number ALL ROWS PER MATCH "
    f"WITH UNMATCHED ROWS PATTERN (A B* A) WITHIN '20 seconds' DEFINE {LETTERS}",
    "a variable to skip to": "MEASURES MATCH_NUMBER() AS number, sum(B.n) AS total ONE ROW PER MATCH "
    f"AFTER MATCH SKIP TO LAST B PATTERN (A B+ A) WITHIN '30 seconds' DEFINE {LETTERS}",
    "timeouts": "MEASURES MATCH_NUMBER() AS number, FIRST(n) AS low, count(*) AS rows ONE ROW PER MATCH "
    f"PATTERN (A A+ B) SKIP TILL NEXT WITHIN '5 seconds' EMIT TIMEOUTS DEFINE {LETTERS}",
    "all matches": "MEASURES FIRST(n) AS low, LAST(n) AS high, MATCH_NUMBER() AS number ONE ROW PER MATCH "
    f"ALL MATCHES PATTERN (A B+) WITHIN '6 seconds' DEFINE {LETTERS}",
}


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    dice = np.random.default_rng(11)
    seconds = np.cumsum(dice.integers(0, 3, 400))
    letters = pa.array([("a", "b", "c", None)[each] for each in dice.integers(0, 4, 400)])
    columns = {
        "ts": pa.array(seconds * 1_000_000, pa.timestamp("us", "UTC")),
        "n": pa.array(range(400), pa.int64()),
        "letter": letters,
    }
    return pa.table(columns).take(pa.array(dice.permutation(400)))


@pytest.fixture(scope="module")
def frame(session: SparkSession, rows: pa.Table) -> DataFrame:
    return session.createDataFrame(rows).repartition(3)


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())  # type: ignore[operator]


@pytest.mark.parametrize("name", CLAUSES)
def test_the_rows_are_those_of_one_search(frame: DataFrame, rows: pa.Table, name: str) -> None:
    clause = f"ORDER BY ts, n {CLAUSES[name]}"
    found = tl.row_pattern(frame, clause, tasks=3)
    expected = tidelog.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", tables={"t": rows}).arrow()
    assert "in one task" not in plan(found)
    assert values(found.toArrow()) == values(expected) != []


def test_plans_say_why_one_task_searches(frame: DataFrame, rows: pa.Table) -> None:
    clause = f"ORDER BY ts, n MEASURES FIRST(n) AS low ONE ROW PER MATCH PATTERN (A B) DEFINE {LETTERS}"
    found = tl.row_pattern(frame, clause, tasks=3)
    assert "in one task" in plan(found)
    assert "because it has no WITHIN" in plan(found)
    few = tl.row_pattern(frame, clause.replace("DEFINE", "WITHIN '5 seconds' DEFINE"))
    assert "there are few rows" in plan(few)
    expected = tidelog.sql(f"SELECT * FROM t MATCH_RECOGNIZE ({clause})", tables={"t": rows}).arrow()
    assert values(found.toArrow()) == values(expected) != []

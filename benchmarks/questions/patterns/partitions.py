"""How long does a pattern take that is looked for in a thousand partitions of rows in the order of time?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa

import tidelog
from formats import ours
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.patterns import clauses
from tidelog.operators.rowpattern.evaluate import evaluate

TITLE: Final = "a thousand partitions"
SORTED: Final = "Polars' sort, one sequence"
_TEXT: Final = """
SELECT * FROM rows MATCH_RECOGNIZE (
    PARTITION BY k ORDER BY t
    MEASURES first(t) AS "first", last(t) AS "last", last(price) AS price
    PATTERN (S D+ U+) DEFINE D AS price < PREV(price), U AS price > PREV(price)
)"""


def ask(bench: Bench, table: pa.Table, bound: Bound) -> None:
    """Race a statement against a stable sort and the search in one sequence."""
    single = clauses.valley()
    partitioned = replace(single, partition=("k",))
    batches = table.to_batches(max_chunksize=clauses.BATCH)

    def statement(_: Path) -> int:
        return sum(batch.num_rows for batch in tidelog.sql(_TEXT, tables={"rows": table}).reader())

    def by_polars(_: Path) -> int:
        pl.from_arrow(table).sort("k", "t", maintain_order=True)  # type: ignore[union-attr]
        return sum(batch.num_rows for batch in evaluate(single, batches))

    ordered = pl.from_arrow(table).sort("k", "t", maintain_order=True).to_arrow()  # type: ignore[union-attr]
    expected = sum(each.num_rows for each in evaluate(partitioned, ordered.to_batches(max_chunksize=clauses.BATCH)))

    def check(found: int) -> None:
        if found != expected:
            raise AssertionError(f"{found} matches, expected {expected}")

    outcomes = bench.race(TITLE, [Case(ours.NAME, statement, check=check), Case(SORTED, by_polars)])
    rate = len(table) / 1e6
    figures = {name: Figures.of(outcome, lambda sample: rate / sample.wall) for name, outcome in outcomes.items()}
    mine = figures.pop(ours.NAME)
    bench.answer(Question(TITLE, "M rows/s", len(table), mine, figures, [Comparison(SORTED, (SORTED,), bound)]))

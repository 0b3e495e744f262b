"""How fast are the few rows found whose value of one column lies in a narrow band?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from formats.base import Band, Format, QueryStore
from formats.duckdb_file import DuckDB
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.contest import Contest, expect_equal, split

SHARE = 0.001
"""Of all rows, how many satisfy the condition."""


@dataclass(frozen=True)
class Filter:
    """One condition to ask about, and what is asked of ourselves against DuckDB."""

    name: str
    column: str
    quantile: float
    """Where among the sorted values of the column the band begins."""
    rows: Bound
    count: Bound

    def questions(self) -> list[str]:
        """The names of the questions, for :meth:`Bench.wants`."""
        return [f"filter {self.name}, {what}" for what in ("rows", "count")]


def ask(bench: Bench, contest: Contest, formats: Sequence[Format], filters: Sequence[Filter]) -> None:
    """Race filters that return all columns of the rows found, and their counts."""
    stores = contest.open(bench, formats)
    for each in filters:
        band = choose_band(contest.table, each.column, each.quantile)
        values = contest.table[each.column]
        expected = contest.table.filter(
            pc.and_(pc.greater_equal(values, band.low), pc.less_equal(values, band.high))
        ).combine_chunks()
        for name, bound in zip(each.questions(), (each.rows, each.count), strict=True):
            if bench.wants(name):
                _answer(bench, contest, stores, name, band, expected, bound, count=name.endswith("count"))
    for store in stores.values():
        store.close()


def choose_band(table: pa.Table, column: str, quantile: float) -> Band:
    """The band of values that begins at a quantile and holds :data:`SHARE` of the rows.

    Where one value alone has more rows than that, the band is that value.
    """
    values = table[column].to_numpy()
    first = min(int(quantile * len(values)), len(values) - 1)
    last = min(first + max(int(SHARE * len(values)) - 1, 0), len(values) - 1)
    found = np.partition(values, [first, last])
    return Band(column, float(found[first]), float(found[last]))


def _answer(
    bench: Bench,
    contest: Contest,
    stores: dict[str, Any],
    name: str,
    band: Band,
    expected: pa.Table,
    bound: Bound,
    *,
    count: bool,
) -> None:
    make = _count if count else _filter
    cases = []
    for contestant, store in stores.items():
        work, check = make(contestant, store, band, expected)
        cases.append(Case(contestant, work, check=check))
    outcomes = bench.race(name, cases)
    ours, peers = split({who: Figures.of(outcome, lambda sample: 1 / sample.wall) for who, outcome in outcomes.items()})
    bench.answer(
        Question(
            name,
            "queries/s, count only" if count else "queries/s, all columns to Arrow",
            contest.events,
            ours,
            peers,
            [Comparison(DuckDB.name, (DuckDB.name,), bound), Comparison("fastest", tuple(peers))],
            note=f"{band.sql()}: {expected.num_rows / contest.events:.3%} of the rows",
        )
    )


def _filter(
    name: str, store: QueryStore, band: Band, expected: pa.Table
) -> tuple[Callable[[Path], Any], Callable[[Any], None]]:
    return lambda _: store.filter(band), lambda found: expect_equal(name, found, expected)


def _count(
    name: str, store: QueryStore, band: Band, expected: pa.Table
) -> tuple[Callable[[Path], Any], Callable[[Any], None]]:
    def check(found: Any) -> None:
        if found != expected.num_rows:
            raise AssertionError(f"{name} counted {found} rows, expected {expected.num_rows}")

    return lambda _: store.count(band), check

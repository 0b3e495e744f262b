"""How fast do all columns, and a single one, come back as Arrow batches?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from formats.base import Format, Store
from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Outcome, Question
from questions.contest import Contest, expect_equal, split

_ALL, _ONE = "all columns", "one column"


@dataclass(frozen=True)
class ScanBounds:
    """Floors and targets of one stream; None: for information only."""

    all_columns: Bound
    one_column: Bound | None = None
    one_against_all: Bound | None = None


def ask(bench: Bench, contest: Contest, formats: Sequence[Format], column: str, bounds: ScanBounds | None) -> None:
    """Race full scans and scans of ``column`` over the stores that were written before."""
    stores = contest.open(bench, formats)
    cases = []
    for name, store in stores.items():
        for what, columns in ((_ALL, None), (_ONE, [column])):
            expected = contest.table if columns is None else contest.table.select(columns)
            work, check = _scan(name, store, columns, expected)
            cases.append(Case(f"{name}, {what}", work, check=check))
    outcomes = bench.race(f"{contest.stream}: scan", cases)
    for store in stores.values():
        store.close()

    names = [name for name in stores if name != OURS]
    ours, peers = split(_figures(outcomes, stores, _ALL, contest.events))
    bench.answer(
        Question(
            f"scan {contest.stream}, {_ALL}",
            "M rows/s to Arrow",
            contest.events,
            ours,
            peers,
            [Comparison("fastest", tuple(names), bounds and bounds.all_columns)],
        )
    )
    one, peers = split(_figures(outcomes, stores, _ONE, contest.events))
    own = f"{OURS}, {_ALL}"
    if ours is not None:
        peers[own] = ours
    width = len(contest.table.schema)
    bench.answer(
        Question(
            f"scan {contest.stream}, {_ONE}",
            f"M rows/s to Arrow, {column} of {width} columns",
            contest.events,
            one,
            peers,
            [
                Comparison("fastest", tuple(names), bounds and bounds.one_column),
                Comparison(own, (own,), bounds and bounds.one_against_all),
            ],
        )
    )


def _figures(outcomes: dict[str, Outcome], stores: dict[str, Store], what: str, events: int) -> dict[str, Figures]:
    return {name: Figures.of(outcomes[f"{name}, {what}"], lambda sample: events / sample.wall / 1e6) for name in stores}


def _scan(
    name: str, store: Store, columns: list[str] | None, expected: pa.Table
) -> tuple[Callable[[Path], int], Callable[[Any], None]]:
    def work(_: Path) -> int:
        # Batches are dropped as they come, as a query does that works on one after the other.
        return sum(batch.num_rows for batch in store.scan(columns))

    def check(rows: Any) -> None:
        if rows != expected.num_rows:
            raise AssertionError(f"{name} scanned {rows} rows, expected {expected.num_rows}")
        expect_equal(name, pa.Table.from_batches(store.scan(columns)), expected)

    return work, check

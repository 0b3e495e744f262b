"""How long does it take to read a few thousand rows from somewhere in the middle?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from formats.base import Format, Store
from harness import Bench, Case, Comparison, Figures, Question
from questions.contest import Contest, expect_equal, split

BLOCK_ROWS = 4096
"""Rows of a container's block by default."""

_READS = 16
"""Reads of one run; a run is repeated until it can be timed."""


def ask(bench: Bench, contest: Contest, formats: Sequence[Format], rewritten: Sequence[Format]) -> None:
    """Race reads of random blocks, all columns, nothing cached but the files' pages.

    ``rewritten`` formats are written once more for this question, with settings that suit it.
    """
    directories = {}
    for format in rewritten:
        directories[format.name] = bench.workspace.fresh()
        format.write(directories[format.name], format.prepare(contest.table))
    stores = contest.open(bench, formats) | {format.name: format.open(directories[format.name]) for format in rewritten}
    cases = []
    for name, store in stores.items():
        work, check = _random_reads(name, store, contest)
        cases.append(Case(name, work, check=check))
    outcomes = bench.race(f"{contest.stream}: blocks", cases)
    for store in stores.values():
        store.close()
    for directory in directories.values():
        bench.workspace.remove(directory)
    ours, peers = split(
        {name: Figures.of(outcome, lambda sample: sample.wall / _READS * 1e6) for name, outcome in outcomes.items()}
    )
    bench.answer(
        Question(
            f"random block {contest.stream}",
            f"us for {BLOCK_ROWS} rows, all columns",
            contest.events,
            ours,
            peers,
            [Comparison("fastest", tuple(peers))],
            higher_is_better=False,
            note=f"wall and CPU of {_READS} reads",
        )
    )


def _random_reads(name: str, store: Store, contest: Contest) -> tuple[Callable[[Path], int], Callable[[Any], None]]:
    blocks = contest.events // BLOCK_ROWS
    if not blocks:
        raise ValueError(f"{contest.events} events are less than one block of {BLOCK_ROWS}: use more events")
    # Other blocks in every run, so that the processor's caches help nobody; the same ones for everybody.
    rng = np.random.default_rng(4096)

    def work(_: Path) -> int:
        return sum(
            store.rows(int(block) * BLOCK_ROWS, BLOCK_ROWS).num_rows for block in rng.integers(0, blocks, _READS)
        )

    def check(rows: Any) -> None:
        if rows != _READS * BLOCK_ROWS:
            raise AssertionError(f"{name} read {rows} rows, expected {_READS * BLOCK_ROWS}")
        first = blocks // 2 * BLOCK_ROWS
        expect_equal(name, store.rows(first, BLOCK_ROWS), contest.table.slice(first, BLOCK_ROWS))

    return work, check

"""How fast are patterns that skip rows, while many partial matches are open?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from formats import ours
from harness import Bench, Case, Figures, Question
from questions.patterns import clauses
from tidelog.operators.rowpattern.evaluate import evaluate

SIZES: Final = (10, 12, 14)


def title(strategy: str, power: int) -> str:
    """The name of a question."""
    return f"skip till {strategy}, 2^{power} open"


def ask(bench: Bench, events: int, strategy: str, power: int) -> None:
    """All matches of A B+ C, C being rare, for a window in which so many partial matches are open at once."""
    dice = np.random.default_rng(power)
    if strategy == "any":
        # In each window one A and so many B that their subsets are the partial matches.
        window = 64
        place = np.arange(events) % window
        symbol = np.where(place == 0, 1, np.where((place % 3 == 0) & (place <= 3 * power), 2, 9))
        symbol[dice.integers(0, events, events // 2000)] = 3
    else:
        # Half of the rows are A, and each waits a whole window for its B.
        window = 2 << power
        symbol = np.where(dice.random(events) < 0.5, 1, 9)
        symbol[dice.integers(0, events, events // (4 * window) + 1)] = 2
        symbol[dice.integers(0, events, events // (4 * window) + 1)] = 3
    table = pa.table([np.arange(events), np.zeros(events, np.int64), symbol, np.zeros(events)], schema=clauses.SCHEMA)
    tests = {
        name: clauses.expression(f'"#0" = {place}', clauses.value("symbol")) for place, name in enumerate("ABC", 1)
    }
    query = replace(
        clauses.clause("A B+ C", within=window - 1, **tests),
        strategy=clauses.STRATEGIES[strategy],
        is_all_matches=True,
    )
    batches = table.to_batches(max_chunksize=clauses.BATCH)

    def search(_: Path) -> int:
        return sum(batch.num_rows for batch in evaluate(query, batches))

    name = title(strategy, power)
    outcome = bench.race(name, [Case(ours.NAME, search)])[ours.NAME]
    mine = Figures.of(outcome, lambda sample: events / 1e3 / sample.cpu)
    bench.answer(Question(name, "k rows/s of CPU", events, mine, {}, []))

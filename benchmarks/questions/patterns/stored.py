"""What does the index of a stored stream save a pattern with WITHIN whose rarest variable is in a few places?"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import tidelog
from formats import ours
from harness import Bench, Bound, Case, Comparison, Figures, Question

TITLE: Final = "a selective pattern on a stored stream"
REPLAY: Final = "full replay"
_CLUSTERS: Final = 20
_TEXT: Final = """
SELECT * FROM {source} MATCH_RECOGNIZE (
    ORDER BY t MEASURES A.t AS a, B.t AS b, price AS price
    PATTERN (A X*? B) WITHIN {within}
    DEFINE A AS symbol = 100, B AS symbol = 101
)"""


def ask(bench: Bench, events: int, bound: Bound) -> None:
    """Race the statement against the same over all rows of the stream."""
    dice = np.random.default_rng(3)
    symbol = dice.integers(0, 26, events)
    each = max(events // 10_000 // _CLUSTERS, 2)
    for start in np.linspace(0, events - 4 * each - 1, _CLUSTERS).astype(np.int64):
        symbol[start : start + 4 * each : 4] = 100 + np.arange(len(symbol[start : start + 4 * each : 4])) % 2
    schema = pa.schema([pa.field("t", pa.int64(), nullable=False), ("symbol", pa.int64()), ("price", pa.float64())])
    table = pa.table([np.arange(events), symbol, dice.normal(1000, 10, events)], schema=schema)
    within = events // 1000
    directory = bench.workspace.fresh()
    with tidelog.open(directory) as store:
        store.create_stream("rows", schema, "t").append(table)
        store.flush()
        pruned = _TEXT.format(source="rows", within=within)
        replayed = _TEXT.format(source="(SELECT * FROM rows)", within=within)

        def work(text: str) -> int:
            return sum(batch.num_rows for batch in store.sql(text).reader())

        def check(found: int) -> None:
            if found != work(replayed):
                raise AssertionError(f"{found} matches, expected {work(replayed)}")

        def by_index(_: Path) -> int:
            return work(pruned)

        def by_replay(_: Path) -> int:
            return work(replayed)

        outcomes = bench.race(TITLE, [Case(ours.NAME, by_index, check=check), Case(REPLAY, by_replay)])
    bench.workspace.remove(directory)
    rate = events / 1e6
    figures = {name: Figures.of(outcome, lambda sample: rate / sample.wall) for name, outcome in outcomes.items()}
    mine = figures.pop(ours.NAME)
    bench.answer(Question(TITLE, "M rows/s", events, mine, figures, [Comparison(REPLAY, (REPLAY,), bound)]))

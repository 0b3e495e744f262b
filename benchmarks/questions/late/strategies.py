"""Is it faster to merge dense regions first than to merge everything, or nothing?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from formats import ours
from formats.event_store import fill
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.late.writers import BATCH

TITLE: Final = "merging dense regions first"
_BULKS: Final = 8
"""How often the queue of late events fills up."""


def ask(bench: Bench, late: pa.Table, bound: Bound) -> None:
    """Race the strategies of ``late_merge``."""
    limit = max(1, len(late) // 10 // _BULKS)
    contestants = {ours.NAME: "dense", "plain": "plain", "never": "never"}
    cases = [Case(name, partial(_write, table=late, limit=limit, how=how)) for name, how in contestants.items()]
    outcomes = bench.race(TITLE, cases, writes=True)
    gigabytes = late.nbytes / 1e9
    figures = {name: Figures.of(outcome, lambda sample: gigabytes / sample.wall) for name, outcome in outcomes.items()}
    mine = figures.pop(ours.NAME)
    bench.answer(
        Question(
            TITLE,
            "GB/s of Arrow bytes, durable",
            len(late),
            mine,
            figures,
            [Comparison("plain", ("plain",), bound), Comparison("never", ("never",))],
            note="one event in ten late, most of them in dense stretches",
        )
    )


def _write(directory: Path, table: pa.Table, limit: int, how: str) -> None:
    fill(directory, table.schema, table.to_batches(max_chunksize=BATCH), late_merge=how, late_rows=limit)

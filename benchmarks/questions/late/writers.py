"""How fast do events become durable when some come late, against the same events in order?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from formats import ours
from formats.event_store import fill, reopen
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.late.arrivals import title

INGEST: Final = "ingest"
IN_ORDER: Final = "in order"
BATCH: Final = 100_000
"""Events of an append."""


def ask(
    bench: Bench, in_order: pa.Table, late: pa.Table, shape: str, share: float, bound: Bound | None
) -> dict[str, Path]:
    """Race both orders; returns where the stores of the last repetition are."""
    name = title(INGEST, shape, share)
    cases = [
        Case(contestant, partial(_write, table=table), check=partial(_check, events=len(table)))
        for contestant, table in ((ours.NAME, late), (IN_ORDER, in_order))
    ]
    outcomes = bench.race(name, cases, writes=True, keep_last=True)
    gigabytes = in_order.nbytes / 1e9
    figures = {each: Figures.of(outcome, lambda sample: gigabytes / sample.wall) for each, outcome in outcomes.items()}
    mine = figures.pop(ours.NAME)
    bench.answer(
        Question(
            name,
            "GB/s of Arrow bytes, durable",
            len(late),
            mine,
            figures,
            [Comparison(IN_ORDER, (IN_ORDER,), bound)],
        )
    )
    return {each: outcome.directory for each, outcome in outcomes.items() if outcome.directory is not None}


def _write(directory: Path, table: pa.Table) -> Path:
    fill(directory, table.schema, table.to_batches(max_chunksize=BATCH))
    return directory


def _check(directory: Path, events: int) -> None:
    store, stream = reopen(directory)
    with store:
        if len(stream) != events:
            raise RuntimeError(f"found {len(stream)} events, {events} were appended")

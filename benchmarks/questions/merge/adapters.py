"""How long does it take to make elements of what other models tell?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import pyarrow as pa

from formats.ours import NAME as OURS
from harness import Bench, Case, Figures, Question
from tidelog.merging import from_add_modify_finalize, from_changes, from_open_close, from_snapshots

MODELS = ("a/m/f", "open/close", "change data", "snapshots")
PAYLOADS = 5_000
ROWS_OF_A_BATCH = 10_000


def title(model: str) -> str:
    """The question about a model."""
    return f"elements of {model}"


def ask(bench: Bench, rows: int, model: str) -> None:
    """Adapt rows in batches, of which every other one tells of an event that was there before."""
    make = _made(rows, model)
    outcomes = bench.race(title(model), [Case(OURS, lambda _: _count(make()))])
    figures = Figures.of(outcomes[OURS], lambda sample: rows / sample.cpu / 1e6)
    note = f"{PAYLOADS:,} payloads, {ROWS_OF_A_BATCH:,} rows a batch"
    bench.answer(Question(title(model), "million rows/s of CPU", rows, figures, {}, [], note=note))


def _count(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def _made(rows: int, model: str) -> Callable[[], Iterable[pa.RecordBatch]]:
    names = pa.array([f"sensor {number:05}" for number in range(PAYLOADS)])
    row = np.arange(rows)
    is_second = (row // PAYLOADS) % 2 == 1
    if model == "snapshots":
        dice, size = np.random.default_rng(1), min(rows, PAYLOADS * 4 // 5)
        tables = []
        for instant in range(max(rows // size, 1)):
            chosen = np.sort(dice.choice(PAYLOADS, size, replace=False))
            tables.append((instant, pa.table({"name": names.take(pa.array(chosen)), "n": dice.integers(0, 3, size)})))
        return partial(from_snapshots, tables)
    own = names.take(pa.array(row % PAYLOADS))
    if model == "a/m/f":
        starts = row - PAYLOADS * is_second
        kinds = np.where(row % 200 == 199, "f", np.where(is_second, "m", "a"))
        starts = np.where(kinds == "f", row - 2 * PAYLOADS, starts)
        kinds = np.where((kinds == "m") & ((row - PAYLOADS) % 200 == 199), "a", kinds)
        ends = starts + np.where(is_second, 10, 20) + PAYLOADS
        table = pa.table({"kind": pa.array(kinds), "name": own, "start": starts, "end": ends})
        return lambda: from_add_modify_finalize(table.to_batches(max_chunksize=ROWS_OF_A_BATCH))
    if model == "open/close":
        table = pa.table({"kind": pa.array(np.where(is_second, "close", "open")), "name": own, "time": row})
        return lambda: from_open_close(table.to_batches(max_chunksize=ROWS_OF_A_BATCH))
    table = pa.table({"kind": pa.array(np.where(is_second, "delete", "insert")), "name": own, "time": row // 10})
    return lambda: from_changes(table.to_batches(max_chunksize=ROWS_OF_A_BATCH))

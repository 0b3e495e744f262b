"""Two plans of one query, each slow where the other one is fast: does feedback pick the faster one each time?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

import tidelog
from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Question
from tidelog.merging import Flow, Scan, Source
from tidelog.operators.base import Batches, Shape
from tidelog.operators.rowwise import Rowwise

TITLE = "plan switching"
ROWS = 200_000
WITHOUT = "without feedback"
SLOW, FAST = 40, 2
"""Rounds of the same computation for rows that are hard for a plan, and for others."""
BATCH = 500
_SHAPE = Shape(pa.schema([("ts", pa.int64()), ("x", pa.float64())]), "ts")
_RESULT = Shape(pa.schema([("ts", pa.int64()), ("y", pa.float64())]), "ts")


class Plan(Rowwise):
    """A function of each row, by real work; small values of x are hard for one plan, large ones for the other."""

    def __init__(self, *, hard_if_large: bool) -> None:
        super().__init__(_SHAPE, _RESULT)
        self._hard_if_large = hard_if_large

    def push(self, port: int, batch: pa.RecordBatch) -> Batches:
        """The rows with the value of the function."""
        if not batch.num_rows:
            return []
        values = np.asarray(batch.column("x"))
        is_hard = (values > 0.5) == self._hard_if_large
        for part, rounds in ((values[is_hard], SLOW), (values[~is_hard], FAST)):
            for _ in range(rounds if len(part) else 0):
                np.sqrt(np.exp(np.sin(np.resize(part, 64 * BATCH)))).sum()
        columns = [batch.column("ts"), pa.array(np.floor(values * 1000))]
        return [pa.RecordBatch.from_arrays(columns, schema=_RESULT.schema)]


def ask(bench: Bench, rows: int, bound: Bound) -> None:
    """Race a merge of both plans with feedback against one without, and against each plan alone."""
    batch = _rows(rows)
    cases = [
        Case(OURS, lambda _: _merged(batch, feedback=True)),
        Case(WITHOUT, lambda _: _merged(batch, feedback=False)),
        Case("one plan", lambda _: _count(_plan(batch, hard_if_large=True))),
        Case("the other plan", lambda _: _count(_plan(batch, hard_if_large=False))),
    ]
    outcomes = bench.race(TITLE, cases)
    figures = {name: Figures.of(outcome, lambda sample: rows / sample.wall) for name, outcome in outcomes.items()}
    bench.answer(
        Question(
            TITLE,
            "rows/s",
            rows,
            figures.pop(OURS),
            figures,
            [Comparison(WITHOUT, (WITHOUT,), bound), Comparison("either plan", ("one plan", "the other plan"))],
            note=f"what is hard changes every 10,000 to 30,000 rows, and takes {SLOW // FAST} times as long",
        )
    )


def _rows(count: int) -> pa.RecordBatch:
    """Stretches of small and of large values in turns."""
    dice = np.random.default_rng(3)
    values = np.empty(count)
    first, is_large = 0, False
    while first < count:
        last = min(first + int(dice.integers(count // 20, 3 * count // 20 + 1)), count)
        values[first:last] = dice.random(last - first) / 2 + (0.5 if is_large else 0)
        first, is_large = last, not is_large
    return pa.RecordBatch.from_arrays([pa.array(np.arange(count)), pa.array(values)], schema=_SHAPE.schema)


def _plan(batch: pa.RecordBatch, *, hard_if_large: bool) -> Flow:
    def opened(start: int | None) -> Iterable[pa.RecordBatch]:
        for first in range(start or 0, batch.num_rows, BATCH):
            yield batch.slice(first, BATCH)

    return Flow(Plan(hard_if_large=hard_if_large), [Scan(opened, "ts")])


def _merged(batch: pa.RecordBatch, *, feedback: bool) -> int:
    inputs: Sequence[Source] = [Source(_plan(batch, hard_if_large=each)) for each in (True, False)]
    merged = tidelog.merge(inputs, time="ts", key=[], order="strict", concurrent=True, feedback=feedback)
    return _count(merged)


def _count(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(each.num_rows for each in batches)

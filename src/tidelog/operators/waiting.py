"""Rows that wait for the watermark, and leave in order: the one place where rows are put into order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.index import kernels
from tidelog.operators.base import Ints, Shape, count_before
from tidelog.operators.state import State, packed, unpacked


@dataclass(slots=True)
class _Run:
    """Rows in order that came together, and how many of them have left."""

    rows: pa.RecordBatch
    times: Ints
    rank: int
    gone: int = 0
    content: pa.Buffer | None = None


class Waiting:
    """Rows in any order go in; those before a watermark come out by time, then by rank, then by number or arrival.

    Only those that leave are looked at, so what waits may be much more than what comes.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._runs: dict[int, _Run] = {}
        self._firsts: list[tuple[int, int]] = []
        """The first time of each run, and the run: a heap."""
        self._next = 0

    @property
    def first(self) -> int | None:
        """The time of the first row that waits."""
        return self._firsts[0][0] if self._firsts else None

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return sum(len(run.times) - run.gone for run in self._runs.values())

    def add(self, batch: pa.RecordBatch, rank: int = 0) -> None:
        """Let rows wait. ``rank`` decides between rows of one time, before their numbers do."""
        if not batch.num_rows:
            return
        times = self._shape.times(batch)
        order = _order(times, self._shape.numbers(batch))
        if order is not None:
            batch = batch.take(pa.array(order))
            times = self._shape.times(batch)
        self._put(self._next, _Run(batch, times, rank))
        self._next += 1

    def _put(self, number: int, run: _Run) -> None:
        self._runs[number] = run
        heapq.heappush(self._firsts, (int(run.times[run.gone]), number))

    def take(self, watermark: int) -> pa.RecordBatch | None:
        """The rows before a watermark, in order; None if there are none."""
        parts: list[tuple[int, int, pa.RecordBatch]] = []
        while self._firsts and self._firsts[0][0] < watermark:
            _, number = heapq.heappop(self._firsts)
            run = self._runs.pop(number)
            stop = count_before(run.times, watermark)
            parts.append((run.rank, number, run.rows.slice(run.gone, stop - run.gone)))
            if stop < len(run.times):
                run.gone = stop
                self._put(number, run)
        if len(parts) < 2:
            return parts[0][2] if parts else None
        parts.sort(key=lambda part: part[:2])
        rows = pa.concat_batches([part for _, _, part in parts])
        numbers = self._shape.numbers(rows)
        ranks = None
        if parts[0][0] != parts[-1][0]:
            ranks = np.repeat([rank for rank, _, _ in parts], [part.num_rows for _, _, part in parts])
        order = _order(self._shape.times(rows), numbers, ranks)
        return rows if order is None else rows.take(pa.array(order))

    def snapshot(self) -> State:
        """What waits."""
        chunks = {}
        for number, run in self._runs.items():
            if run.content is None:
                run.content = packed(run.rows)
            chunks[str(number)] = run.content
        runs = [[number, run.gone, run.rank] for number, run in self._runs.items()]
        return State({"next": self._next, "runs": runs}, chunks)

    def restore(self, state: State) -> None:
        """Let wait what waited."""
        self._next = state.core["next"]
        for number, gone, rank in state.core["runs"]:
            content = state.chunks[str(number)]
            rows = unpacked(content, self._shape.schema)
            self._put(number, _Run(rows, self._shape.times(rows), rank, gone, content))


def _order(times: Ints, numbers: Ints | None, ranks: Ints | None = None) -> Ints | None:
    """The order of rows by (time, rank, number), as far as there are such; None if they are in it."""
    if numbers is None:
        return None if not kernels.falls(times) else np.argsort(times, kind="stable")
    if ranks is None:
        if kernels.first_disorder(times, numbers) < 0:
            return None
        return np.lexsort((numbers, times))
    return np.lexsort((numbers, ranks, times))

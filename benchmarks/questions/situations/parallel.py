"""How much do two threads help, with keys and without, and does memory stay where it is?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from formats import ours
from harness import Bench, Bound, Comparison, Figures, Question
from harness.measuring import private_memory
from questions.situations import queries, rows
from questions.situations.answering import race
from tidelog.operators.situations.syntax import Mode, Situations
from tidelog.operators.situations.threaded.pipelined import Pipelined

ONE: Final = "one thread"
ONE_LARGE: Final = "one thread, large batches"
OPERATOR: Final = "the operator, two threads"
PARTITIONED: Final = "two threads, a thousand cars"
MEMORY: Final = "memory under a window"
WINDOWS: Final = (500, 20_000, 100_000)
LARGE: Final = 4 * queries.BATCH
"""Rows of a batch that threads share by keys: what they hand over for each takes as long whatever its size."""


def title(within: int) -> str:
    """The question about a window without keys."""
    return f"two threads, window {within:,} s"


def ask_partitioned(bench: Bench, table: pa.Table, bound: Bound) -> None:
    """Race two threads against one, with keys."""
    _race(bench, PARTITIONED, table, queries.drivers(table, Mode.COMPLETED), bound, LARGE)


def ask_unpartitioned(bench: Bench, events: int, within: int, bound: Bound | None) -> None:
    """Race two threads against one, without keys."""
    table = rows.attributes(events, "ABCD")
    _race(bench, title(within), table, queries.of_attributes(queries.DISCONNECTED, within, Mode.EARLY), bound)


def _race(
    bench: Bench, name: str, table: pa.Table, query: Situations, bound: Bound | None, size: int = queries.BATCH
) -> None:
    """Searches that do not wait for each other, and the operator, which waits for order, with two threads and one.

    Threads get batches of so many rows; one has its choice of these and of the usual ones.
    """
    usual, batches = queries.batches(table), queries.batches(table, size)
    disorder: list[str] = []
    spent: dict[str, list[tuple[float, float]]] = {}
    """The CPU seconds of each run, and those of the thread that drives it."""

    def measured(name: str, own: Callable[[], int]) -> int:
        began = time.process_time(), time.thread_time()
        found = own()
        spent.setdefault(name, []).append((time.process_time() - began[0], time.thread_time() - began[1]))
        return found

    def run(threads: int, own: Sequence[pa.RecordBatch]) -> int:
        return queries.matches(queries.operator_of(table, query, threads), own)

    def as_found() -> int:
        pipelined = Pipelined(queries.operator_of(table, query), 2)
        found = sum(batch.num_rows for batch in pipelined.run(batches))
        slack = pipelined.slack
        disorder[:] = [f"out of order {slack.disordered_rows} before slack, {slack.late_rows} behind it"]
        return found

    contestants = {ours.NAME: as_found, ONE: partial(run, 1, usual), OPERATOR: partial(run, 2, batches)}
    single = [ONE]
    if size != queries.BATCH:
        contestants[ONE_LARGE] = partial(run, 1, batches)
        single.append(ONE_LARGE)
    work = {name: partial(measured, name, own) for name, own in contestants.items()}
    comparisons = [Comparison(ONE, tuple(single), bound), Comparison(OPERATOR, (OPERATOR,))]
    race(bench, name, len(table), work, comparisons, wall=True)
    told = ", ".join("{} {:.2f} ({:.2f})".format(name, *np.median(each, axis=0)) for name, each in spent.items())
    bench.questions[-1].note += f"; {disorder[0]}; CPU seconds, and those of the thread that drives: {told}"


def ask_memory(bench: Bench, events: int, bound: Bound) -> None:
    """What is kept at the end, over what was kept after a quarter: situations, bytes of buffers, private memory."""
    size = max(events // 64, 1_000)
    operator = queries.operator_of(
        rows.attributes(10, "ABCD"), queries.of_attributes(queries.DISCONNECTED, 20_000, Mode.EARLY)
    )
    kept = []
    for number in range(64):
        part = rows.attributes(size, "ABCD")
        times = pa.array(range(number * size, (number + 1) * size), pa.int64())
        (batch,) = part.set_column(0, "t", times).combine_chunks().to_batches()
        operator.push(0, batch)
        operator.advance((number + 1) * size)
        buffers = operator.matcher.buffers
        kept.append((buffers.rows, buffers.bytes, private_memory()))
    quarter, end = (max(each[1] for each in part) for part in (kept[:16], kept[48:]))
    note = "; ".join(
        f"{name} {kept[at][0]} situations, {kept[at][1] >> 10} KiB of buffers, {kept[at][2] >> 20} MiB private"
        for name, at in (("after a quarter", 15), ("at the end", 63))
    )
    figures = Figures((end / quarter,))
    comparison = Comparison("after a quarter", (), bound)
    bench.answer(Question(MEMORY, "x", size * 64, figures, {}, [comparison], higher_is_better=False, note=note))

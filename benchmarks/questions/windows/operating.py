"""Operators by themselves: windows that slide by one event, replay against NumPy, and rows that arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.windows.stream import MILLIS, Ticks
from tidelog.model.arrays import floats, integers
from tidelog.operators.arrivals import Arrivals
from tidelog.operators.base import Operator, Shape
from tidelog.operators.join.partners import RowWindow
from tidelog.operators.join.windowed import WindowJoin
from tidelog.operators.live import Live
from tidelog.operators.replaying import replay
from tidelog.operators.rowwise import Filter
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import FixedFrames
from tidelog.operators.window.timed import TimeWindows

NUMPY = "scan and NumPy"
OFFLINE = "offline"
SMALL = "windows of 2^12"

GROWTH = Bound(1 / 1.5, 1.0, 1 << 22)
"""Speed with the largest windows against that with small ones."""
AGAINST_NUMPY = Bound(0.5, 0.8, 17_280_000)
AGAINST_OFFLINE = Bound(0.5, 0.8, 1 << 22)

ONE = "one worker"
AGAINST_ONE = Bound(1.3, 1.6, 1 << 14)
"""Two workers against one, for operators that take a millisecond or more for a batch."""

BATCH = 1000
MERGED = 1 << 16


def ask_sliding(bench: Bench, ticks: Ticks) -> None:
    """Windows of ever more events that slide by one."""
    batches = _in_memory(ticks, bench.size(1 << 22, 1 << 17))
    rows = sum(batch.num_rows for batch in batches)
    exponents = [exponent for exponent in (12, 14, 16, 18, 20) if 1 << exponent <= rows // 2]
    for function in ("sum", "min"):
        name = f"sliding by one event: {function}"
        if not bench.wants(name) or len(exponents) < 2:
            continue
        cases = [
            Case(f"windows of 2^{each}", partial(_counted, ticks.shape, batches, 1 << each, f"{function}(v0)"))
            for each in exponents
        ]
        outcomes = bench.race(name, cases)
        figures = {each: Figures.of(found, lambda sample: rows / sample.wall) for each, found in outcomes.items()}
        largest = f"windows of 2^{exponents[-1]}"
        ours = figures.pop(largest)
        note = f"{largest}: {1e9 / ours.median:,.0f} ns an event"
        bench.answer(Question(name, "events/s", rows, ours, figures, [Comparison(SMALL, (SMALL,), GROWTH)], note=note))


def _counted(shape: Shape, batches: Sequence[pa.RecordBatch], size: int, call: str, _: Any) -> int:
    operator = CountWindows(shape, size, 1, {"a": call})
    return sum(batch.num_rows for batch in replay(operator, [iter(batches)]))


def ask_replay(bench: Bench, ticks: Ticks) -> None:
    """Replay of a windowed aggregation against scanning the same columns and reducing them with NumPy."""
    events = ticks.events
    for title, size, slide in (
        ("tumbling by an hour", 3600, 3600),
        ("an hour every 5 minutes", 3600, 300),
        ("a minute every second", 60, 1),
    ):
        name = f"replay of windows, {title}"
        if not bench.wants(name):
            continue
        frames = FixedFrames(size * MILLIS, slide * MILLIS)
        cases = [
            Case("tidelog", partial(_replayed, ticks, frames)),
            Case(NUMPY, partial(_reduced, ticks, slide * MILLIS)),
        ]
        outcomes = bench.race(name, cases)
        figures = {each: Figures.of(found, lambda sample: events / sample.wall) for each, found in outcomes.items()}
        ours = figures.pop("tidelog")
        comparisons = [Comparison(NUMPY, (NUMPY,), AGAINST_NUMPY)]
        note = "sum, min and max; NumPy has them of slices"
        bench.answer(Question(name, "events/s", events, ours, figures, comparisons, note=note))


def _aggregating(shape: Shape, frames: FixedFrames) -> Operator:
    return TimeWindows(shape, frames, {"a": "sum(v0)", "b": "min(v0)", "c": "max(v0)"})


def _replayed(ticks: Ticks, frames: FixedFrames, _: Any) -> int:
    return sum(batch.num_rows for batch in replay(_aggregating(ticks.shape, frames), [ticks.rows()]))


def _reduced(ticks: Ticks, slide: int, _: Any) -> float:
    total = 0.0
    for batch in ticks.rows():
        times, values = integers(batch.column(0)), floats(batch.column(1))
        edges = np.arange(times[0] // slide * slide + slide, times[-1] + 1, slide)
        cuts = np.concatenate([[0], times.searchsorted(edges)])
        found = [reduce.reduceat(values, cuts) for reduce in (np.add, np.minimum, np.maximum)]
        total += float(found[0][-1])
    return total


def ask_online(bench: Bench, ticks: Ticks) -> None:
    """The same operator fed through its queue, batches of a thousand, and offline with whole batches."""
    batches = _in_memory(ticks, 1 << 22)
    rows = sum(batch.num_rows for batch in batches)
    small = [batch.slice(at, BATCH) for batch in batches for at in range(0, batch.num_rows, BATCH)]
    shape = ticks.shape
    made: dict[str, Callable[[], Operator]] = {
        "windows": lambda: _aggregating(shape, FixedFrames(60 * MILLIS, 10 * MILLIS)),
        "a filter of 1 in 1,000": lambda: Filter(shape, f"ts % {1000 * 10} = 0"),
    }
    for title, make in made.items():
        name = f"online, batches of {BATCH:,}: {title}"
        if not bench.wants(name):
            continue
        cases = [
            Case("tidelog", lambda _, make=make: fed(make(), small)),
            Case(OFFLINE, lambda _, make=make: _offline(make(), batches)),
        ]
        outcomes = bench.race(name, cases)
        figures = {each: Figures.of(found, lambda sample: rows / sample.wall) for each, found in outcomes.items()}
        ours = figures.pop("tidelog")
        note = _latencies(make, small, ours.median)
        comparisons = [Comparison(OFFLINE, (OFFLINE,), AGAINST_OFFLINE)]
        bench.answer(Question(name, "events/s", rows, ours, figures, comparisons, note=note))


def ask_workers(bench: Bench, ticks: Ticks) -> None:
    """Operators whose work several threads divide, as rows arrive."""
    batches = _in_memory(ticks, 1 << 20)
    shape = ticks.shape
    short, second, own = FixedFrames(160, 160), FixedFrames(MILLIS, 160), {"a": "second_largest(v0)"}
    row = RowWindow(1 << 12)
    far = "(v0 - v0_right) * (v0 - v0_right) + (v0 + v0_right) * (v0 + v0_right) < 0.000001"
    made: dict[str, tuple[int, Bound | None, Callable[[], Operator]]] = {
        "distance join": (14, AGAINST_ONE, lambda: WindowJoin(shape, shape, (row, row), None, far)),
        "user-defined aggregate, tumbling": (20, None, lambda: TimeWindows(shape, short, own)),
        "user-defined aggregate, sliding": (20, AGAINST_ONE, lambda: TimeWindows(shape, second, own)),
        "windows": (20, None, lambda: _aggregating(shape, FixedFrames(60 * MILLIS, 10 * MILLIS))),
    }
    for title, (exponent, bound, make) in made.items():
        name = f"two workers: {title}"
        if not bench.wants(name):
            continue
        rows = min(1 << (exponent - 3 * bench.quick), ticks.events)
        arriving = _first(batches, rows)
        cases = [
            Case(each, lambda _, make=make, arriving=arriving, workers=workers: _worked(make(), arriving, workers))
            for each, workers in (("tidelog", 2), (ONE, 1))
        ]
        outcomes = bench.race(name, cases)
        figures = {
            each: Figures.of(found, lambda sample, rows=rows: rows / sample.wall) for each, found in outcomes.items()
        }
        ours = figures.pop("tidelog")
        slowest = MERGED / figures[ONE].median * 1000
        note = f"one worker takes {slowest:.2f} ms for a batch of {MERGED:,}"
        bench.answer(Question(name, "events/s", rows, ours, figures, [Comparison(ONE, (ONE,), bound)], note=note))


def _first(batches: Sequence[pa.RecordBatch], rows: int) -> list[pa.RecordBatch]:
    return list(pa.Table.from_batches(batches).slice(0, rows).combine_chunks().to_batches(max_chunksize=MERGED))


def _worked(operator: Operator, batches: Sequence[pa.RecordBatch], workers: int) -> int:
    operator.use_threads(workers)
    return sum(batch.num_rows for batch in replay(operator, [iter(batches) for _ in operator.inputs]))


def _in_memory(ticks: Ticks, most: int) -> list[pa.RecordBatch]:
    """The first rows in batches of the size that waiting ones are merged to."""
    found, rows = [], 0
    for batch in ticks.rows():
        found.append(batch.slice(0, most - rows))
        rows += found[-1].num_rows
        if rows == most:
            break
    return list(pa.Table.from_batches(found, ticks.shape.schema).combine_chunks().to_batches(max_chunksize=MERGED))


def _offline(operator: Operator, batches: Sequence[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in replay(operator, [iter(batches)]))


def fed(operator: Operator, batches: Sequence[pa.RecordBatch]) -> int:
    """Rows as they arrive, through the queue of an operator; how many come out."""
    rows = [0]

    def emit(batch: pa.RecordBatch) -> None:
        rows[0] += batch.num_rows

    live = Live(Arrivals(operator), emit)
    for batch in batches:
        live.put(0, batch)
    live.finish()
    return rows[0]


def _latencies(make: Callable[[], Operator], batches: Sequence[pa.RecordBatch], rate: float) -> str:
    """How long after it came the last row of a batch is done with, at half of a rate."""
    came: list[float] = []
    took: list[float] = []
    arrivals = Arrivals(make())
    push = arrivals.push
    live = Live(arrivals, lambda _: None)
    done = [0]

    def pushed(port: int, batch: pa.RecordBatch, now: float = 0.0) -> Any:
        found = push(port, batch, now)
        done[0] += batch.num_rows
        at = time.perf_counter()
        while len(took) < done[0] // BATCH and len(took) < len(came):
            took.append(at - came[len(took)])
        return found

    arrivals.push = pushed  # type: ignore[method-assign]  # the end of a push is when its rows are done with
    whole = [batch for batch in batches if batch.num_rows == BATCH][:2000]
    began = time.perf_counter()
    for number, batch in enumerate(whole):
        due = began + number * BATCH / (rate / 2)
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        came.append(time.perf_counter())
        live.put(0, batch)
    live.finish()
    low, middle, high = np.percentile(np.array(took) * 1000, [50, 99, 99.9])
    return f"latency at half of this load: {low:.2f} ms, 99% {middle:.2f}, 99.9% {high:.2f}"

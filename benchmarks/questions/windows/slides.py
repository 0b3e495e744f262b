"""Windows of a day, sliding by an event to a day: replay against the plans from the index, and the plan that is chosen.

Below one leaf for each slide the plans from the index are timed on ten thousand windows, and that is scaled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from formats.base import THREADS
from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.windows.stream import DAY, MILLIS, Ticks, Windows
from tidelog.plan.choosing import NAIVE, OPTIMISED, REPLAY

DUCKDB = "DuckDB"
CHOSEN = "chosen"
SAMPLED, SAMPLED_QUICK = 10_000, 1_000
TWO_DAYS, SEVEN_DAYS = 17_280_000, 60_480_000
HOUR = 3600 * MILLIS

AGAINST_BEST = Bound(1 / 1.3, 1 / 1.1, TWO_DAYS)
AGAINST_NAIVE = Bound(1 / 1.1, 1.0, TWO_DAYS)
AGAINST_REPLAY = Bound(1 / 1.1, 1.0, TWO_DAYS)
CHOSEN_AGAINST_REPLAY = {HOUR: Bound(5, 20, SEVEN_DAYS), DAY: Bound(20, 100, SEVEN_DAYS)}
AGAINST_DUCKDB = Bound(10, 20, TWO_DAYS)

SLIDES = (10, 1000, 41 * MILLIS, 82 * MILLIS, 600 * MILLIS, HOUR, 6 * HOUR, DAY)
"""Milliseconds: of one event, of a leaf and of two among them."""
FEW_SLIDES = (10, 82 * MILLIS, HOUR, DAY)


def shown(slide: int) -> str:
    """A slide as it is spoken."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MILLIS, "s")):
        if slide % unit == 0:
            return f"{slide // unit} {name}"
    return f"{slide} ms"


def name_of(kind: str, slide: int, what: str = CHOSEN) -> str:
    """The name of a question."""
    return f"{kind} sliding by {shown(slide)}: {what}"


def ask(bench: Bench, kind: str, ticks: Ticks, size: int = DAY, chosen: Sequence[int] = SLIDES) -> None:
    """Some slides of one stream."""
    duckdb = _DuckDB(bench, ticks, size // HOUR) if size >= HOUR and bench.wants(name_of(kind, HOUR)) else None
    for slide in chosen:
        if slide <= size and bench.wants(name_of(kind, slide)):
            _ask(bench, kind, ticks, Windows(ticks, size, slide), duckdb if slide == HOUR else None)


def _ask(bench: Bench, kind: str, ticks: Ticks, windows: Windows, duckdb: _DuckDB | None) -> None:
    slide = windows.frames.slide
    plans = {each.name: each.plan for each in windows.candidates() if each.plan is not None}
    leaf = ticks.leaf_rows * 10
    some = SAMPLED_QUICK if bench.quick else SAMPLED
    is_sampled = slide < leaf and windows.count > some
    title = name_of(kind, slide)
    bench.on_progress(f"{title}: comparing")
    check_same(title, windows.chosen(), windows.replayed())
    cases = [
        Case(REPLAY, lambda _: counted(windows.replayed())),
        Case(CHOSEN, lambda _: counted(windows.chosen())),
    ]
    for name, plan in plans.items():
        if is_sampled:
            cases.append(Case(name, partial(_sampled, windows, plan, some)))
        else:
            check_same(title, _planned(windows, name), windows.replayed())
            cases.append(Case(name, lambda _, name=name: counted(_planned(windows, name))))
    if duckdb is not None:
        expected = pa.Table.from_batches(windows.replayed(), windows.schema)
        cases.append(Case(DUCKDB, lambda _: duckdb.ask(), check=partial(duckdb.check, expected)))
    # Reading dozens of millions of events brings memory back by itself.
    outcomes = bench.race(name_of(kind, slide), cases, rehearsed=slide >= HOUR)
    scales = {name: windows.count / some if is_sampled and name in plans else 1.0 for name in outcomes}
    figures = {
        name: Figures.of(outcome, lambda sample, scale=scales[name]: 1 / (sample.wall * scale))
        for name, outcome in outcomes.items()
    }
    note = f"{windows.count:,} windows"
    if is_sampled:
        note += f"; the plans from the index timed on {some:,} of them, and scaled"
    _answer(bench, kind, slide, ticks, figures, note, leaf)


def _answer(
    bench: Bench, kind: str, slide: int, ticks: Ticks, figures: dict[str, Figures], note: str, leaf: int
) -> None:
    others = {name: found for name, found in figures.items() if name != CHOSEN}
    comparisons = [
        Comparison("best plan", (REPLAY, NAIVE, OPTIMISED), AGAINST_BEST),
        Comparison(REPLAY, (REPLAY,), CHOSEN_AGAINST_REPLAY.get(slide)),
        *([Comparison(DUCKDB, (DUCKDB,), AGAINST_DUCKDB)] if DUCKDB in others else []),
    ]
    unit = "queries/s"
    events = ticks.events
    bench.answer(Question(name_of(kind, slide), unit, events, figures[CHOSEN], others, comparisons, note=note))
    peers = {name: figures[name] for name in (NAIVE, REPLAY)}
    comparisons = [
        Comparison(NAIVE, (NAIVE,), AGAINST_NAIVE),
        Comparison(REPLAY, (REPLAY,), AGAINST_REPLAY if slide >= 2 * leaf else None),
    ]
    name = name_of(kind, slide, OPTIMISED)
    bench.answer(Question(name, unit, events, figures[OPTIMISED], peers, comparisons, note=note))


def _sampled(windows: Windows, plan: Any, most: int, _: Path) -> int:
    return windows.sampled(plan, most)


def _planned(windows: Windows, name: str) -> Iterator[pa.RecordBatch]:
    """With what it takes to make the plan, as for the one that is chosen."""
    plan = next(each.plan for each in windows.candidates() if each.name == name)
    return windows.planned(plan)


def counted(batches: Iterator[pa.RecordBatch]) -> int:
    """How many windows there are. None of them is kept: sliding by one event they are as many as the events."""
    return sum(batch.num_rows for batch in batches)


def check_same(title: str, found: Iterator[pa.RecordBatch], expected: Iterator[pa.RecordBatch]) -> None:
    """Raise unless both give the same windows, however they are cut; only a batch of either is in memory."""
    left, right = _rows(found), _rows(expected)
    have, want = next(left, None), next(right, None)
    while have is not None and want is not None:
        count = min(have.num_rows, want.num_rows)
        if not have.slice(0, count).equals(want.slice(0, count)):
            break
        have = have.slice(count) if have.num_rows > count else next(left, None)
        want = want.slice(count) if want.num_rows > count else next(right, None)
    if have is not None or want is not None:
        raise AssertionError(f"{title}: found other windows than by replay")


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)


class _DuckDB:
    """The rows in a file of DuckDB, aggregated by hour and these by a frame of rows."""

    def __init__(self, bench: Bench, ticks: Ticks, hours: int) -> None:
        import duckdb

        self._hours = hours
        path = bench.workspace.fresh() / "ticks.duckdb"
        self._connection = duckdb.connect(str(path), config={"threads": THREADS})
        self._connection.register("rows", pa.Table.from_batches(ticks.rows(), ticks.shape.schema))
        self._connection.execute("CREATE TABLE ticks AS SELECT * FROM rows")
        self._connection.execute("CHECKPOINT")
        self._connection.unregister("rows")

    def ask(self) -> pa.Table:
        """Windows of so many hours every hour, complete ones."""
        before, hours = self._hours - 1, self._hours
        return self._connection.sql(
            f"""SELECT h - {before} * {HOUR} AS window_start, h + {HOUR} AS window_end, s, s / n AS a, n FROM (
                    SELECT h, sum(s) OVER day AS s, sum(n) OVER day AS n, count(*) OVER day AS hours FROM (
                        SELECT ts // {HOUR} * {HOUR} AS h, sum(v0) AS s, count(v0) AS n FROM ticks GROUP BY h)
                    WINDOW day AS (ORDER BY h ROWS {before} PRECEDING)) WHERE hours = {hours} ORDER BY h"""
        ).to_arrow_table()

    def check(self, expected: pa.Table, found: pa.Table) -> None:
        """Raise unless these are the same windows; the last one need not be complete."""
        same = found.num_rows >= expected.num_rows
        pairs = zip(found.columns, expected.columns, strict=True)
        if not same or any(one.to_pylist()[: len(two)] != two.to_pylist() for one, two in pairs):
            raise AssertionError("DuckDB found other windows than the replay")

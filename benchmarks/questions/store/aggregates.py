"""How long does an aggregate over a random time range take, and what does it read, as the stream grows?"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import data
from formats.base import Aggregates
from formats.duckdb_file import DuckDB
from formats.event_store import EventReader, EventStore
from formats.ours import NAME as OURS
from harness import Bench, Bound, Case, Comparison, Figures, Outcome, Question
from questions.contest import present
from questions.store.archive import Archive

COLUMN = "temperature"
_MICROS_A_ROW = 1000
"""Mean distance of two events of the stream."""
QUERIES, SLOW_QUERIES = 100, 10
"""Queries of one run: ours, and those of a peer that needs a thousand times as long."""
_CHECKED = 5


class Aggregating(Protocol):
    """What can aggregate the rows with times in ``[start, end)``."""

    def aggregate(self, start: int, end: int, column: str) -> Aggregates:
        """Aggregates of one column."""
        ...


def latency_question(events: int) -> str:
    """The name of the question about the speed of aggregates over so many events."""
    return f"aggregate {short(events)}"


def visits_question(events: int) -> str:
    """The name of the question about what aggregates over so many events read."""
    return f"blocks of aggregate {short(events)}"


def ask(bench: Bench, archive: Archive, sizes: Sequence[int], against_duckdb: dict[int, Bound], growth: Bound) -> None:
    """Race random range aggregates over streams of all sizes, smallest first, and tell the blocks they visit.

    ``against_duckdb`` has the bounds of the sizes that are judged; ``growth`` bounds the speed at the largest size
    against that at the smallest.
    """
    ours = {events: EventStore().open(archive.ours(events)) for events in sizes}
    peers = {}
    if present(bench, [DuckDB()]):
        peers = {events: DuckDB().open(archive.duckdb(events)) for events in sizes}
    runs = [Queries(OURS, events, reader, QUERIES, peers.get(events)) for events, reader in ours.items()]
    runs += [Queries(DuckDB.name, events, reader, SLOW_QUERIES) for events, reader in peers.items()]
    outcomes = bench.race("aggregate", [run.case() for run in runs])
    figures = {(run.contestant, run.events): run.figures(outcomes[run.name]) for run in runs}
    for events in sizes:
        _answer_latency(
            bench, figures, events, sizes[0], against_duckdb.get(events), growth if events == sizes[-1] else None
        )
        _answer_visits(bench, ours[events], events)
    for reader in (*ours.values(), *peers.values()):
        reader.close()


def _answer_latency(
    bench: Bench,
    figures: dict[tuple[str, int], Figures],
    events: int,
    smallest: int,
    against_duckdb: Bound | None,
    growth: Bound | None,
) -> None:
    mine = figures[OURS, events]
    peers = {name: found for (name, size), found in figures.items() if name != OURS and size == events}
    comparisons = [Comparison(DuckDB.name, (DuckDB.name,), against_duckdb)]
    if events != smallest:
        own = f"{OURS}, {short(smallest)} events"
        peers[own] = figures[OURS, smallest]
        comparisons.append(Comparison(own, (own,), growth))
    bench.answer(
        Question(
            latency_question(events),
            "queries/s by median latency",
            events,
            mine,
            peers,
            comparisons,
            note=f"median {1e6 / mine.median:,.0f} us: count, min, max, sum, avg of {COLUMN} at random ranges",
        )
    )


def _answer_visits(bench: Bench, reader: EventReader, events: int) -> None:
    """Blocks visited, at most, are two on each level of a tree: the path to either end of the range."""
    visited = [reader.visited(start, end, COLUMN) for start, end in random_ranges(events, QUERIES)]
    nodes, leaves = (statistics.mean(getattr(each, what) for each in visited) for what in ("nodes", "leaves"))
    limit = reader.most_visited()
    bench.answer(
        Question(
            visits_question(events),
            "nodes and leaves visited by a query, at most",
            events,
            Figures((float(max(each.nodes + each.leaves for each in visited)),)),
            {},
            [Comparison("two on each level", (), Bound(limit, limit))],
            higher_is_better=False,
            note=f"mean of {len(visited)} queries: {nodes:.1f} nodes, {leaves:.1f} leaves",
        )
    )


def random_ranges(events: int, count: int, rng: np.random.Generator | None = None) -> list[tuple[int, int]]:
    """Half-open ranges of times whose ends are anywhere in the stream; without ``rng`` always the same."""
    generator = rng or np.random.default_rng(events)
    span = events * _MICROS_A_ROW
    ends = np.sort(generator.integers(0, span + 1, (count, 2)), axis=1) + data.START_MICROS
    return [(start, end) for start, end in ends.tolist()]


class Queries:
    """A contestant's queries over a stream of one size, each of them timed by itself."""

    def __init__(
        self, contestant: str, events: int, reader: Aggregating, count: int, oracle: Aggregating | None = None
    ) -> None:
        self.contestant = contestant
        self.events = events
        self.name = f"{contestant}, {short(events)}"
        self._reader = reader
        self._count = count
        self._oracle = oracle
        # Other ranges in every run, so that no query is answered from what the last one left; the same for everybody.
        self._rng = np.random.default_rng(events)
        self._repetitions: list[list[list[float]]] = []
        """For each repetition, the warm-up first, the seconds of the queries of each run."""

    def case(self) -> Case:
        """The case to race."""
        return Case(self.name, self._work, before=lambda _: self._repetitions.append([]), check=self._check)

    def figures(self, outcome: Outcome) -> Figures:
        """Queries a second by the median latency of each repetition; its first run was untimed."""
        medians = [statistics.median(chain.from_iterable(runs[1:])) for runs in self._repetitions[1:]]
        return Figures(tuple(1 / median for median in medians), tuple(outcome.samples), outcome.peak_memory)

    def _work(self, _: Path) -> None:
        seconds = []
        aggregate = self._reader.aggregate
        for start, end in random_ranges(self.events, self._count, self._rng):
            began = time.perf_counter()
            aggregate(start, end, COLUMN)
            seconds.append(time.perf_counter() - began)
        self._repetitions[-1].append(seconds)

    def _check(self, _: Any) -> None:
        if self._oracle is None:
            return
        for start, end in random_ranges(self.events, _CHECKED):
            found = self._reader.aggregate(start, end, COLUMN)
            expected = self._oracle.aggregate(start, end, COLUMN)
            if not all(map(_agree, found, expected)):
                raise AssertionError(f"{self.name} gave {found} for [{start}, {end}), expected {expected}")


def _agree(found: float | None, expected: float | None) -> bool:
    """Whether two aggregates are the same, but for the order in which doubles were summed."""
    if found is None or expected is None:
        return found is expected
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-6)


def short(events: int) -> str:
    """A number of events as it is spoken: 100M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if events >= unit and events % unit == 0:
            return f"{events // unit}{letter}"
    return str(events)

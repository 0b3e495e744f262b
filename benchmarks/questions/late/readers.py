"""What do events that came late cost those who read afterwards?

Both stores are as the flush at the end of ingest has left them, and were closed. Nothing has run since: no compaction
was asked for, and automatic maintenance, which begins when a store has been open for some seconds, had no time to.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from formats import ours
from formats.event_store import EventReader
from harness import Bench, Bound, Case, Comparison, Figures, Outcome, Question
from questions.late.arrivals import title
from questions.late.writers import IN_ORDER

SCAN: Final = "scan after"
AGGREGATES: Final = "aggregates after"

_RANGES: Final = 50
_COLUMN: Final = "temperature"


def ask(bench: Bench, directories: dict[str, Path], events: int, shape: str, share: float, bound: Bound) -> None:
    """Race scans and aggregates of a store filled late against those of one filled in order."""
    opened = {name: EventReader(directory) for name, directory in directories.items()}
    first, last = (opened[IN_ORDER].rows(row, 1).column("ts")[0].as_py() for row in (0, events - 1))
    dice = random.Random(1)
    ranges = [sorted(dice.choices(range(first, last), k=2)) for _ in range(_RANGES)]
    asked: list[tuple[str, str, Callable[[EventReader], object], float]] = [
        (SCAN, "million events a second", _scan, events / 1e6),
        (AGGREGATES, "ranges a second", partial(_aggregate, ranges=ranges), float(_RANGES)),
    ]
    for kind, unit, work, rate in asked:
        name = title(kind, shape, share)
        cases = [Case(each, partial(_on, reader, work)) for each, reader in opened.items()]
        outcomes = bench.race(name, cases)
        figures = {each: _figures(outcome, rate) for each, outcome in outcomes.items()}
        mine = figures.pop(ours.NAME)
        bench.answer(Question(name, unit, events, mine, figures, [Comparison(IN_ORDER, (IN_ORDER,), bound)]))
    for reader in opened.values():
        reader.close()


def _figures(outcome: Outcome, rate: float) -> Figures:
    return Figures.of(outcome, lambda sample: rate / sample.wall)


def _on(reader: EventReader, work: Callable[[EventReader], object], _: Path) -> object:
    return work(reader)


def _scan(reader: EventReader) -> int:
    return sum(batch.num_rows for batch in reader.scan(None))


def _aggregate(reader: EventReader, ranges: list[list[int]]) -> None:
    for start, end in ranges:
        reader.aggregate(start, end, _COLUMN)

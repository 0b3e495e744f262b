"""How fast do all rows, and a few out of a year, come to Spark?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness import Bench, Bound, Case, Comparison, Figures, Question
from questions.contest import split
from questions.spark.year import CEILING, FILTERED, OURS, PARQUET, STREAM, TIME, Year, consume, fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCAN, ONE_DAY = "scan", "one day, filtered"

Load = Callable[[], "DataFrame"]


@dataclass(frozen=True)
class ReadBounds:
    """Floors and targets; None: for information only."""

    against_ceiling: Bound
    against_parquet: Bound | None = None


def ask_scan(bench: Bench, year: Year, bounds: ReadBounds) -> None:
    """Race reading everything."""
    from tidelog import spark

    loads: dict[str, Load] = {
        OURS: lambda: spark.read(year.spark, year.store, STREAM),
        CEILING: lambda: year.read_ready(year.ready),
        PARQUET: year.read_parquet,
    }
    _ask(bench, year, SCAN, loads, bounds, "M rows/s", year.events / 1e6, "all columns, as rows of Spark")


def ask_one_day(bench: Bench, year: Year, bounds: ReadBounds) -> None:
    """Race reading the rows of a day that a filter leaves; the ceiling has just these."""
    from tidelog import spark

    start, end = (str(np.datetime64(micros, "us")) for micros in year.day)
    condition = f"{FILTERED} <= {year.limit}"
    times = f"{TIME} >= timestamp '{start}' AND {TIME} < timestamp '{end}'"
    loads: dict[str, Load] = {
        OURS: lambda: spark.read(year.spark, year.store, STREAM, start=start, end=end, where=condition),
        CEILING: lambda: year.read_ready(year.ready_day),
        PARQUET: lambda: year.read_parquet().where(f"{times} AND {condition}"),
    }
    rows = year.read_ready(year.ready_day).count()
    _ask(bench, year, ONE_DAY, loads, bounds, "queries/s", 1, f"{rows:,} of {year.events:,} rows")


def _ask(
    bench: Bench, year: Year, name: str, loads: dict[str, Load], bounds: ReadBounds, unit: str, amount: float, note: str
) -> None:
    expected = fingerprint(loads[CEILING]())
    cases = [_case(contestant, load, expected) for contestant, load in loads.items()]
    outcomes = bench.race(name, cases, rehearsed=False)
    ours, peers = split(
        {contestant: Figures.of(found, lambda sample: amount / sample.wall) for contestant, found in outcomes.items()}
    )
    comparisons = [
        Comparison(CEILING, (CEILING,), bounds.against_ceiling),
        Comparison(PARQUET, (PARQUET,), bounds.against_parquet),
    ]
    bench.answer(Question(name, unit, year.events, ours, peers, comparisons, note=note))


def _case(name: str, load: Load, expected: tuple[int, ...]) -> Case:
    def check(_: object) -> None:
        found = fingerprint(load())
        if found != expected:
            raise AssertionError(f"{name} gave rows with the number and hashes {found}, expected {expected}")

    # Making the frame is part of the work: this is when a source is planned.
    return Case(name, lambda _: consume(load()), check=check)

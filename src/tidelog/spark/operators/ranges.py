"""Ranges of time for tasks, of about as many rows each, and the rows that belong to each or lie around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidelog.model.arrays import integer_column, integers
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.operators.base import FOREVER, Ints, Needs, Shape
from tidelog.spark.operators.columns import converted
from tidelog.spark.operators.inputs import TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RANGE: Final = "range"
BESIDE: Final = "place int, is_behind boolean, time bigint"
_SAMPLES: Final = 256
"""Times that are taken of a batch to tell how rows are spread."""
_MOST: Final = 64
"""Ranges, unless more are asked for."""
_ROWS: Final = 1 << 18
"""Rows of a range at least, unless more ranges are asked for: a task takes as long to start as to run so many."""


@dataclass(frozen=True)
class Ranges:
    """Ranges between cuts; the first begins, and the last ends, nowhere."""

    cuts: tuple[int, ...]
    behind: int
    ahead: int
    lows: tuple[int, ...] = ()
    """The first time that each range but the first needs; empty if that is so far behind its begin."""

    def __len__(self) -> int:
        return len(self.cuts) + 1

    def bounds(self, number: int) -> tuple[int, int]:
        """Where a range begins, and where it ends."""
        edges = (-FOREVER, *self.cuts, FOREVER)
        return edges[number], edges[number + 1]

    def of(self, times: Ints) -> tuple[Ints, Ints]:
        """For rows the first and the last range that needs them."""
        cuts = np.array(self.cuts, np.int64)
        low = np.where(times < INT64_MIN + self.ahead, INT64_MIN, times - self.ahead)
        firsts = np.searchsorted(cuts, low, side="right")
        if self.lows:
            return firsts, np.searchsorted(np.array(self.lows, np.int64), times, side="right")
        high = np.where(times > INT64_MAX - self.behind, INT64_MAX, times + self.behind)
        return firsts, np.searchsorted(cuts, high, side="right")


def find_ranges(rows: DataFrame, shape: Shape, needs: Needs, tasks: int | None) -> Ranges:
    """Ranges for the times of rows: each is longer than what tasks read around it."""
    ticks_of = partial(ticks, shape=shape)
    behind, ahead = needs.behind or 0, needs.ahead or 0
    cuts = tuple(find_cuts(rows.select(TIME), ticks_of, behind + ahead, tasks, is_strict=needs.last_before))
    if not cuts or not needs.last_before:
        return Ranges(cuts, behind, ahead)
    starts = tuple(max(cut - behind, INT64_MIN) for cut in cuts)
    found = rows.select(TIME).mapInArrow(Beside(ticks_of, starts, starts, 1, 0), BESIDE).toArrow()
    places, times = (found.column(name).to_numpy() for name in ("place", "time"))
    before = (times[places == place] for place in range(len(cuts)))
    lows = (int(own.max()) if len(own) else start for start, own in zip(starts, before, strict=True))
    return Ranges(cuts, behind, ahead, tuple(lows))


def find_cuts(
    times: DataFrame,
    ticks_of: Callable[[pa.RecordBatch], Ints],
    least: int,
    tasks: int | None,
    most_rows: int | None = None,
    *,
    is_strict: bool = False,
) -> list[int]:
    """Where to cut the times that a function gives for rows, so that ranges have about as many rows each.

    Each range is longer than ``least``, unless ``tasks`` are asked for and it is not strict, and has ``most_rows``,
    about. The first time of all is before the first cut.
    """
    found = times.mapInArrow(partial(_sampled, ticks_of), "time bigint, rows double").toArrow()
    sampled, weights = (np.asarray(found.column(name)) for name in ("time", "rows"))
    order = np.argsort(sampled, kind="stable")
    sampled, weights = sampled[order], np.cumsum(weights[order])
    every = float(weights[-1]) if len(weights) else 0.0
    count = max(1, min(_MOST, int(every // _ROWS)))
    if most_rows is not None:
        count = max(count, int(every // most_rows))
    count = tasks or count
    cuts: list[int] = []
    for each in np.searchsorted(weights, every * np.arange(1, count) / count).tolist() if len(sampled) else []:
        cut = int(sampled[min(each, len(sampled) - 1)])
        before = cuts[-1] if cuts else int(sampled[0])
        if cut > before and ((tasks is not None and not is_strict) or cut - before > least):
            cuts.append(cut)
    return cuts


def _sampled(ticks_of: Callable[[pa.RecordBatch], Ints], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            times = np.sort(ticks_of(batch))
            places = np.linspace(0, len(times) - 1, min(_SAMPLES, len(times))).astype(np.int64)
            weights = np.full(len(places), len(times) / len(places))
            yield pa.record_batch([integer_column(times[places]), pa.array(weights)], ["time", "rows"])


@dataclass(frozen=True)
class Beside:
    """Finds, in each task, times near the borders of ranges: those of rows that conditions look at."""

    own: Callable[[pa.RecordBatch], Ints]
    cuts: tuple[int, ...]
    ends: tuple[int, ...]
    behind: int
    ahead: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The times, each with the number of its border."""
        none = np.empty(0, np.int64)
        before, after = [none] * len(self.cuts), [none] * len(self.cuts)
        for batch in batches:
            times = np.sort(self.own(batch))
            lows, highs = np.searchsorted(times, self.cuts), np.searchsorted(times, self.ends, side="right")
            for place, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
                near = times[max(low - self.behind, 0) : low]
                before[place] = np.sort(np.concatenate([before[place], near]))[-self.behind :] if self.behind else none
                after[place] = np.sort(np.concatenate([after[place], times[high : high + self.ahead]]))[: self.ahead]
        for place, (these, those) in enumerate(zip(before, after, strict=True)):
            both = np.concatenate([these, those])
            sides = np.arange(len(both)) < len(these)
            places = pa.array(np.full(len(both), place, np.int32))
            yield pa.record_batch([places, pa.array(sides), integer_column(both)], ["place", "is_behind", "time"])


def in_ranges(rows: DataFrame, shape: Shape, ranges: Ranges) -> DataFrame:
    """Rows, each with every range that needs it."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    fields = [StructField(each.name, each.dataType) for each in rows.schema]
    return rows.mapInArrow(partial(_divided, shape, ranges), StructType([*fields, StructField(RANGE, IntegerType())]))


def _divided(shape: Shape, ranges: Ranges, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield numbered(batch, *ranges.of(ticks(batch, shape)))


def numbered(batch: pa.RecordBatch, firsts: Ints, lasts: Ints) -> pa.RecordBatch:
    """Rows, each once for every range from the first to the last one that needs it, and the number of that."""
    counts = lasts - firsts + 1
    rows = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    own = batch if len(rows) == batch.num_rows else batch.take(integer_column(rows))
    numbers = pa.array((firsts[rows] + within).astype(np.int32))
    return pa.RecordBatch.from_arrays([*own.columns, numbers], names=[*batch.schema.names, RANGE])


def ticks(batch: pa.RecordBatch, shape: Shape) -> Ints:
    """The times of rows that have them as Spark does."""
    schema = pa.schema([pa.field(TIME, shape.time_type)])
    return integers(converted([batch.column(TIME)], schema).column(0))


def by_range(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Rows that are sorted by range, range by range; each has to be taken before the next is asked for."""
    waiting = _pieces(batches)
    held = next(waiting, None)

    def own(number: int) -> Iterator[pa.RecordBatch]:
        nonlocal held
        while held is not None and held[0] == number:
            yield held[1]
            held = next(waiting, None)

    while held is not None:
        number = held[0]
        yield number, own(number)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        numbers = np.asarray(batch.column(RANGE))
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for first, last in pairwise(cuts):
            if last > first:
                yield int(numbers[first]), batch.slice(first, last - first)

"""Partners within a band of values: rows are kept sorted by value, a run of them at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.operators.base import Ints
from tidelog.operators.columns.series import Series
from tidelog.operators.join import kernels
from tidelog.operators.join.conditions.bands import Band
from tidelog.operators.join.conditions.matching import unpaired
from tidelog.operators.join.pairs import BOTH, TILE, Arriving, Finder, Job

_LEAST_RUN: Final = 256
_DENSE: Final = 16
"""One of so many pairs is a candidate: from then on looking at all of them takes less time."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Run:
    """Rows that follow one another, by value; those without one are not among them."""

    first: int
    """The rank of the first row in time."""
    rows: int
    values: Floats
    ranks: Ints
    finite: int
    """How many values are finite; the others may have anything for a partner."""


class Banded(Finder):
    """Looks in sorted runs. A run is a quarter of a window at the most, so that few rows in it are in no window."""

    def __init__(self, band: Band, nested: Finder) -> None:
        """``nested`` is for arriving rows that have many candidates."""
        self._band = band
        self._nested = nested
        self._values = [Series(np.float64), Series(np.float64)]
        self._bases = [0, 0]
        self._runs: tuple[list[_Run], list[_Run]] = ([], [])

    def append(self, port: int, batch: pa.RecordBatch) -> None:
        """Know their values."""
        self._values[port].append(self._band.values(port, batch))

    def drop(self, port: int, count: int) -> None:
        """Forget runs of which all rows are gone."""
        self._values[port].drop(count)
        self._bases[port] += count
        runs = self._runs[port]
        while runs and runs[0].first + runs[0].rows <= self._bases[port]:
            runs.pop(0)

    def jobs(self, arriving: Arriving) -> Iterator[Job]:
        """Tiles of candidates."""
        windows = arriving.lasts - arriving.firsts
        if not windows.any():
            return
        ranges = []
        for port in BOTH:
            chosen = np.flatnonzero((arriving.ports == port) & (windows > 0))
            if len(chosen):
                ranges.append(self._ranges(port, arriving, chosen))
        counts = np.zeros(len(arriving), np.int64)
        for each in ranges:
            counts[each.chosen] = each.counts
        if int(counts.sum()) * _DENSE > int(windows.sum()):
            yield from self._nested.jobs(arriving)
            return
        for first, last in arriving.cut(counts, TILE):
            if int(counts[first:last].sum()):
                yield partial(self._find, ranges, first, last)

    def _ranges(self, port: int, arriving: Arriving, chosen: Ints) -> _Ranges:
        """Where the candidates of the rows of an input are."""
        other = 1 - port
        firsts, lasts = arriving.firsts[chosen], arriving.lasts[chosen]
        self._extend(other, int(lasts.max()) + self._bases[other], int((lasts - firsts).mean()) // 4)
        values = self._values[port].line[arriving.rows[chosen]]
        lows, highs = np.full(len(chosen), math.inf), np.full(len(chosen), -math.inf)
        is_finite = np.isfinite(values)
        lows[is_finite], highs[is_finite] = self._band.bounds(values[is_finite])
        has_any = np.isinf(values)
        lows[has_any], highs[has_any] = -math.inf, math.inf
        runs = [
            run
            for run in self._runs[other]
            if run.first < lasts.max() + self._bases[other] and run.first + run.rows > firsts.min() + self._bases[other]
        ]
        begins, ends = np.empty((len(runs), len(chosen)), np.int64), np.empty((len(runs), len(chosen)), np.int64)
        counts = np.zeros(len(chosen), np.int64)
        for run, begin, end in zip(runs, begins, ends, strict=True):
            kernels.find_band(run.values, run.finite, lows, highs, begin, end)
            away = (lasts + self._bases[other] <= run.first) | (firsts + self._bases[other] >= run.first + run.rows)
            end[away] = begin[away]
            counts += np.where(away | np.isnan(values), 0, end - begin + len(run.ranks) - run.finite)
        lasts = np.where(np.isnan(values), firsts, lasts)
        return _Ranges(chosen, runs, begins, ends, firsts, lasts, counts, self._bases[other])

    def _extend(self, port: int, end: int, most: int) -> None:
        """Have runs for all rows up to a rank; runs grow to so many rows, or a few."""
        most = max(most, _LEAST_RUN)
        runs, base = self._runs[port], self._bases[port]
        first = max(runs[-1].first + runs[-1].rows if runs else 0, base)
        while first < end:
            rows = min(most, end - first)
            while runs and runs[-1].rows <= rows and runs[-1].rows + rows <= most and runs[-1].first >= base:
                rows += runs[-1].rows
                first = runs.pop().first
            runs.append(_sorted(first, self._values[port].line[first - base : first - base + rows]))
            first += rows

    def _find(self, ranges: list[_Ranges], first: int, last: int) -> tuple[Ints, Ints, bool]:
        parts = [each.part(first, last) for each in ranges]
        found = np.empty(sum(int(part.counts.sum()) for part in parts), np.int64)
        size = 0
        for part in parts:
            size = part.take(found, size)
        return (*unpaired(np.sort(found[:size])), False)


@dataclass(frozen=True)
class _Ranges:
    """Some arriving rows of one input, and where in the runs of the other one their candidates are."""

    chosen: Ints
    """Their numbers, which ascend."""
    runs: list[_Run]
    begins: Ints
    ends: Ints
    firsts: Ints
    lasts: Ints
    counts: Ints
    """How many candidates there are at the most."""
    base: int

    def part(self, first: int, last: int) -> _Ranges:
        """Those of the rows with some numbers."""
        at = slice(*np.searchsorted(self.chosen, (first, last)).tolist())
        begins, ends = np.ascontiguousarray(self.begins[:, at]), np.ascontiguousarray(self.ends[:, at])
        firsts, lasts, counts = self.firsts[at], self.lasts[at], self.counts[at]
        return _Ranges(self.chosen[at], self.runs, begins, ends, firsts, lasts, counts, self.base)

    def take(self, found: Ints, size: int) -> int:
        """Put all candidates behind those that were found."""
        for run, begin, end in zip(self.runs, self.begins, self.ends, strict=True):
            size = kernels.take_band(
                run.ranks, run.finite, self.base, begin, end, self.firsts, self.lasts, self.chosen, found, size
            )
        return size


def _sorted(first: int, values: Floats) -> _Run:
    order = np.argsort(values, kind="stable")
    size = len(values) - int(np.isnan(values).sum())  # these are last
    order = order[:size]
    found = values[order]
    return _Run(first, len(values), found, order + first, int(np.searchsorted(found, math.inf)))

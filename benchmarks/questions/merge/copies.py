"""Copies of one stream, as arrays of elements: in order, or as an aggregate over disordered input revises them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.operators.merge.batches.engine import Rows
from tidelog.operators.merge.codes import ADJUST, BEFORE, INSERT, NEVER, STABLE

BATCH_ROWS = 4_096
MAX_GAP = 20_000
PAYLOAD_BYTES = 1_000


@dataclass(frozen=True)
class Copies:
    """What copies are like; times are in milliseconds."""

    events: int
    inputs: int
    disorder: float = 0.5
    """How many of the elements come late."""
    stables: float = 0.001
    """How many of the elements are stables."""
    validity: int = 16_000
    """The longest time that a value is valid for."""
    delay: int = 4_000
    """The most events that one is overtaken by."""


def ordered(of: Copies, ties: int = 1) -> list[Rows]:
    """Inserts in the order of their starts, ``ties`` of each start; those of one start in another order on each copy.

    With ``ties`` of 1 starts rise strictly.
    """
    dice = np.random.default_rng(1)
    starts = np.repeat(np.cumsum(dice.integers(1, MAX_GAP, -(-of.events // ties))), ties)[: of.events]
    ends = starts + dice.integers(1, 100_000_000, of.events)
    found = []
    for _ in range(of.inputs):
        order = np.lexsort((dice.random(of.events), starts))
        rows = np.full((5, of.events), BEFORE, np.int64)
        rows[0], rows[1], rows[2], rows[3] = INSERT, order, starts[order], ends[order]
        found.append(_with_stables(rows, of.stables, dice))
    return found


def revised(of: Copies) -> list[Rows]:
    """What the aggregate "the last value" gives early, of the same events in another disorder for each copy.

    A value is valid until the next one, and for ``validity`` at the most. One that comes late cuts the value before it
    short, by an adjust.
    """
    dice = np.random.default_rng(2)
    starts = np.cumsum(dice.integers(1, MAX_GAP, of.events))
    return [_revised_copy(of, starts, dice) for _ in range(of.inputs)]


def _revised_copy(of: Copies, starts: npt.NDArray[np.int64], dice: np.random.Generator) -> Rows:
    known: list[int] = []
    ends: list[int] = []
    elements: list[tuple[int, int, int, int, int]] = []
    numbers = starts.tolist()
    for number in _arrivals(of, dice).tolist():
        start = numbers[number]
        place = bisect_left(known, start)
        end = start + of.validity
        if place < len(known):
            end = min(end, known[place])
        if place > 0 and ends[place - 1] > start:
            before = known[place - 1]
            elements.append((ADJUST, _number(starts, before), before, start, ends[place - 1]))
            ends[place - 1] = start
        known.insert(place, start)
        ends.insert(place, end)
        elements.append((INSERT, number, start, end, BEFORE))
        if len(known) > 4 * of.delay + 64:  # what is older than any that may still come
            del known[: 2 * of.delay], ends[: 2 * of.delay]
    return _with_stables(np.array(elements, np.int64).T.copy(), of.stables, dice)


def counted(of: Copies, of_window: int = 10) -> list[Rows]:
    """How many events there are in each window of so many, told when a later window begins, revised for late events.

    A count is how long the window's result is valid, so that late events move its end: the key stays what it is.
    """
    dice = np.random.default_rng(4)
    return [_counted_copy(of, of_window, dice) for _ in range(of.inputs)]


def _counted_copy(of: Copies, of_window: int, dice: np.random.Generator) -> Rows:
    counts = [0] * (-(-of.events // of_window))
    told = 0
    elements: list[tuple[int, int, int, int, int]] = []
    for number in _arrivals(of, dice).tolist():
        window = number // of_window
        counts[window] += 1
        start = window * of_window
        if window < told:
            if counts[window] == 1:
                elements.append((INSERT, window, start, start + 1, BEFORE))
            else:
                elements.append((ADJUST, window, start, start + counts[window], start + counts[window] - 1))
        while told < window:
            if counts[told]:
                elements.append((INSERT, told, told * of_window, told * of_window + counts[told], BEFORE))
            told += 1
    elements += [
        (INSERT, window, window * of_window, window * of_window + counts[window], BEFORE)
        for window in range(told, len(counts))
    ]
    return _with_stables(np.array(elements, np.int64).T.copy(), of.stables, dice)


def _arrivals(of: Copies, dice: np.random.Generator) -> npt.NDArray[np.int64]:
    """The numbers of events as they arrive."""
    places = np.arange(of.events, dtype=np.float64)
    late = dice.random(of.events) < of.disorder
    places[late] += dice.random(int(late.sum())) * of.delay
    return np.argsort(places, kind="stable")


def _number(starts: npt.NDArray[np.int64], start: int) -> int:
    return int(np.searchsorted(starts, start))


def _with_stables(rows: Rows, rate: float, dice: np.random.Generator) -> Rows:
    """Stables at random places, as far as what comes later allows, and one behind everything."""
    times = np.where(rows[0] == ADJUST, np.minimum(rows[3], rows[4]), rows[2])
    limits = np.minimum.accumulate(times[::-1])[::-1]
    places = np.flatnonzero(dice.random(rows.shape[1]) < rate)
    stables = np.full((5, len(places)), BEFORE, np.int64)
    stables[0], stables[1], stables[3] = STABLE, 0, limits[places]
    whole: Rows = np.insert(rows, places, stables, axis=1)
    last = np.array([[STABLE], [0], [BEFORE], [NEVER], [BEFORE]], np.int64)
    return np.ascontiguousarray(np.concatenate([whole, last], axis=1))


def batches(copies: Sequence[Rows], lags: Sequence[int] | None = None) -> Iterator[tuple[int, Rows]]:
    """Batches of all copies in turn, with the number of the copy; some begin so many batches later than others."""
    lags = lags or [0] * len(copies)
    counts = [-(-each.shape[1] // BATCH_ROWS) for each in copies]
    for turn in range(max(count + lag for count, lag in zip(counts, lags, strict=True))):
        for number, copy in enumerate(copies):
            first = (turn - lags[number]) * BATCH_ROWS
            if 0 <= first < copy.shape[1]:
                yield number, copy[:, first : first + BATCH_ROWS]


def payloads(count: int) -> npt.NDArray[np.uint8]:
    """Random payloads, by their numbers."""
    return np.random.default_rng(3).integers(0, 256, (count, PAYLOAD_BYTES), np.uint8)


def adjust_share(rows: Rows) -> float:
    """How many of a copy's elements are adjusts."""
    return float((rows[0] == ADJUST).mean())

"""Rows that the questions share: attributes that are true for a while and false for a while, and cars that drive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Span = tuple[int, int]

GAP: Span = (10, 50)
DURATION: Span = (10, 100)
"""Rows, one a second, for which an attribute is false, and for which it is true: anything between, as often."""


def attribute(dice: np.random.Generator, rows: int, gap: Span = GAP, duration: Span = DURATION) -> Any:
    """Where an attribute is true, which begins with a gap."""
    cycles = rows // (gap[0] + duration[0]) + 1
    lengths = np.empty(2 * cycles, np.int64)
    lengths[0::2] = dice.integers(gap[0], gap[1] + 1, cycles)
    lengths[1::2] = dice.integers(duration[0], duration[1] + 1, cycles)
    until = int(np.searchsorted(np.cumsum(lengths), rows)) + 1
    return np.repeat(np.arange(until) % 2 == 1, lengths[:until])[:rows]


def attributes(rows: int, names: Sequence[str], spans: dict[str, tuple[Span, Span]] | None = None) -> pa.Table:
    """A row every second, ``t``, and some attributes; ``spans``: gaps and durations of those that have others."""
    dice = np.random.default_rng(20)
    columns = [attribute(dice, rows, *(spans or {}).get(name, (GAP, DURATION))) for name in names]
    return pa.table([np.arange(rows), *columns], names=["t", *(name.lower() for name in names)])


def with_scenes(table: pa.Table, scenes: Sequence[dict[str, Span]]) -> pa.Table:
    """Attributes with scenes in their midst, one after the other, as far apart from each other as from the ends.

    A scene says from when to when attributes are true, in rows from its middle on; nothing else is true near it.
    """
    columns = {name: np.asarray(table.column(name)).copy() for name in table.column_names}
    every = len(table) // (len(scenes) + 1)
    for number, scene in enumerate(scenes):
        middle = (number + 1) * every
        reach = 1 + max(abs(each) for span in scene.values() for each in span)
        for name in scene:
            columns[name][max(middle - reach, 0) : middle + reach] = False
        for name, (start, end) in scene.items():
            columns[name][middle + start : middle + end] = True
    return pa.table(columns)


def cars(rows: int, count: int) -> pa.Table:
    """Reports of cars, one a second and car: ``t``, ``car``, ``speed`` and ``accel``, a walk that swings back.

    Accelerations keep for some seconds; speeds are what they add up to, and are drawn to 50.
    """
    dice = np.random.default_rng(21)
    ticks = -(-rows // count)
    speed, accel = np.full(count, 50.0), np.zeros(count)
    speeds, accels = np.empty((ticks, count)), np.empty((ticks, count))
    for tick in range(ticks):
        accel = 0.8 * accel + dice.normal(0, 2, count) + 0.02 * (50 - speed)
        speed = np.clip(speed + accel, 0, 150)
        speeds[tick], accels[tick] = speed, accel
    order = np.tile(np.arange(count), ticks)[:rows]
    return pa.table(
        [np.repeat(np.arange(ticks), count)[:rows], order, speeds.ravel()[:rows], accels.ravel()[:rows]],
        names=["t", "car", "speed", "accel"],
    )

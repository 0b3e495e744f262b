"""Where windows begin and end: by the calendar of a zone, against datetime and zoneinfo."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from tidelog.model.errors import TimeError
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Shape
from tidelog.operators.conformance import OperatorConformance
from tidelog.operators.window.frames import CalendarFrames, FixedFrames, Period
from tidelog.operators.window.timed import TimeWindows

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu")


def midnight(day: date, zone: str) -> int:
    """When a day begins: the first second that has its date."""
    local = ZoneInfo(zone)
    seconds = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) - 15 * 3600
    while datetime.fromtimestamp(seconds, local).date() < day:
        seconds += 900
    return seconds


def later(day: date, period: Period, times: int) -> date:
    if period.days:
        return day + timedelta(days=period.days * times)
    months = day.year * 12 + day.month - 1 + period.months * times
    first = date(months // 12, months % 12 + 1, 1)
    following = date((months + 1) // 12, (months + 1) % 12 + 1, 1)
    return min(first + timedelta(days=day.day - 1), following - timedelta(days=1))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("size", "slide"),
    [
        (Period(days=1), Period(days=1)),
        (Period(days=7), Period(days=2)),
        (Period(months=1), Period(months=1)),
        (Period(months=3), Period(months=1)),
        (Period(months=1), Period(days=5)),
        (Period(days=3), Period(months=1)),
    ],
    ids=str,
)
def test_calendars(size: Period, slide: Period, zone: str) -> None:
    dice = np.random.default_rng(22)
    type_ = pa.timestamp("ms", zone)
    of = Shape(pa.schema([pa.field("ts", type_, nullable=False)]), "ts")
    first = int(datetime(2017, 1, 1, tzinfo=UTC).timestamp())
    times = np.sort(dice.integers(first, first + 700 * 86_400, 40) * 1000 + dice.integers(0, 1000, 40))
    # At the very bounds, and when clocks are put forward and back.
    edges = [midnight(date(2017, month, day), zone) * 1000 for month in (3, 10, 11) for day in (1, 12, 15, 26, 29)]
    times = np.sort(np.concatenate([times, edges, np.array(edges) - 1]))
    batch = pa.RecordBatch.from_arrays([pa.array(times).cast(type_)], schema=of.schema)
    frames = CalendarFrames(Clock(type_), size, slide, zone)
    make = partial(TimeWindows, of, frames, {"rows": "count(*)"})
    found = OperatorConformance(make).check([batch], dice, rounds=1)

    def bounds() -> list[tuple[int, int]]:
        day, windows, number = date(2015, 1, 1), [], 0
        start = (day - date(1970, 1, 1)).days // slide.days if slide.days else (day.year - 1970) * 12 // slide.months
        while day < date(2019, 6, 1):
            day = later(date(1970, 1, 1), slide, start + number)
            windows.append((midnight(day, zone) * 1000, midnight(later(day, size, 1), zone) * 1000))
            number += 1
        return windows

    expected = [(begin, end, sum(begin <= time < end for time in times.tolist())) for begin, end in bounds()]
    assert found == sorted([row for row in expected if row[2]], key=lambda row: (row[1], row[0]))


@pytest.mark.parametrize(("size", "slide", "origin"), [(10, 3, 0), (10, 10, 7), (3, 10, -5), (1, 1, 0)])
def test_fixed_frames_agree_with_themselves(size: int, slide: int, origin: int) -> None:
    frames = FixedFrames(size, slide, origin)
    times = np.sort(np.random.default_rng(23).integers(-50, 50, 60))
    cuts, starts = frames.slices(times)
    assert cuts[0] == 0
    assert cuts[-1] == len(times)
    for begin, end, start in zip(cuts[:-1], cuts[1:], starts, strict=True):
        held = {tuple(np.concatenate(frames.numbers(times[[row]]))) for row in range(begin, end)}
        assert held == {tuple(np.concatenate(frames.numbers(np.array([start]))))}
    for time in range(-60, 60):
        first, last = (int(each[0]) for each in frames.numbers(np.array([time])))
        numbers = np.arange(-100, 100)
        inside = numbers[(frames.starts(numbers) <= time) & (time < frames.ends(numbers))]
        assert list(inside) == list(range(first, last + 1))
        assert frames.closed(time) == int(numbers[frames.ends(numbers) > time][0])


def test_what_cannot_be() -> None:
    with pytest.raises(TimeError, match="expected either"):
        Period(1, 1)
    with pytest.raises(TimeError, match="expected either"):
        Period(0, 0)
    with pytest.raises(TimeError, match="plain integers"):
        CalendarFrames(Clock(pa.int64()), Period(1), Period(1))
    with pytest.raises(TimeError, match="no time zone 'Nowhere/City'"):
        CalendarFrames(Clock(pa.timestamp("us")), Period(1), Period(1), "Nowhere/City")

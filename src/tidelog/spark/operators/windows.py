"""``tidelog.spark.window_aggregate``: aggregates of windows over a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.model.arguments import flag, integer, names, text
from tidelog.model.errors import InputError
from tidelog.model.times.clock import Clock
from tidelog.operators.base import Operator, Shape
from tidelog.operators.window.counted import CountWindows
from tidelog.operators.window.frames import CalendarFrames, FixedFrames, Frames, Period
from tidelog.operators.window.sessions import SessionWindows
from tidelog.operators.window.timed import FromFirst, TimeWindows
from tidelog.spark.jobs.aggregating import named_calls
from tidelog.spark.operators.running import Late, run_query
from tidelog.spark.operators.streaming import METRICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MONTHS: Final = re.compile(r"(\d+) ?(months?|years?)")


def window_aggregate(
    df: DataFrame,
    aggregates: str | Sequence[str] | Mapping[str, str],
    *,
    size: Any = None,
    slide: Any = None,
    gap: Any = None,
    rows: int | None = None,
    by: str | Sequence[str] = (),
    time: str | None = None,
    origin: Any = None,
    zone: str | None = None,
    empty: bool = False,
    complete_only: bool = False,
    lateness: Any = None,
    late: Late = "drop",
    tasks: int | None = None,
    imports: Sequence[str] = (),
    metrics: str = METRICS,
) -> DataFrame:
    """Aggregates of windows over a DataFrame, of batches or streaming: a row for each window and key that has rows.

    Windows are of time, ``size`` long and one every ``slide`` (that of the size by default); or sessions, which end
    when nothing has come for longer than ``gap``; or of so many ``rows`` of a key, one every ``slide`` rows. Lengths
    are texts such as ``"5m"`` or ticks; with a ``zone``, days, months and years of its calendar. ``origin`` is when one
    of the windows begins: 1970 by default, ``"first event"``, or a time. ``empty`` gives windows without rows too, and
    ``complete_only`` leaves out those that the rows begin or end in.

    ``aggregates`` are as for :func:`tidelog.spark.aggregate`, and every aggregate of a store can be asked for. ``by``
    are the columns of the key. Columns that come out are the key, ``window_start``, ``window_end`` and the aggregates.
    Of a stream, a window comes out when the watermark has passed its end; all else is as :func:`run_operator` says.
    """
    calls = named_calls(aggregates)
    keys = [by] if isinstance(by, str) else names("by", by, "symbol")
    if sum(each is not None for each in (size, gap, rows)) != 1:
        raise InputError("expected one of size, for windows of time, gap, for sessions, or rows, for windows of rows")
    options = {"origin": origin is not None, "zone": zone is not None, "empty": empty, "complete_only": complete_only}
    if size is None:
        for name, is_given in {**options, "slide": slide is not None and rows is None}.items():
            if is_given:
                raise InputError(f"found {name}, which only windows of time have; give size as well, or leave it out")
    if rows is not None:
        count = integer("rows", rows, 1)
        make: Any = partial(_counted, count, count if slide is None else integer("slide", slide, 1), calls, keys)
    elif gap is not None:
        make = partial(_sessions, gap, calls, keys)
    else:
        flags = {"empty": flag("empty", empty), "complete_only": flag("complete_only", complete_only)}
        zoned = None if zone is None else text("zone", zone)
        make = partial(_timed, size, size if slide is None else slide, origin, zoned, calls, keys, flags)
    told = {"aggregates": calls, "size": size, "slide": slide, "gap": gap, "rows": rows, "by": list(keys)}
    told |= {"origin": origin, "zone": zone, "empty": empty, "complete_only": complete_only}
    query = f"window_aggregate({', '.join(f'{name}={value!r}' for name, value in told.items())})"
    return run_query(
        df, make, query, time=time, lateness=lateness, late=late, tasks=tasks, imports=imports, metrics=metrics
    )


def _counted(rows: int, slide: int, calls: Mapping[str, str], by: Sequence[str], shape: Shape) -> Operator:
    return CountWindows(shape, rows, slide, calls, by)


def _sessions(gap: Any, calls: Mapping[str, str], by: Sequence[str], shape: Shape) -> Operator:
    return SessionWindows(shape, shape.clock.duration(gap, positive=True), calls, by)


def _timed(
    size: Any,
    slide: Any,
    origin: Any,
    zone: str | None,
    calls: Mapping[str, str],
    by: Sequence[str],
    flags: Mapping[str, bool],
    shape: Shape,
) -> Operator:
    return TimeWindows(shape, _frames(size, slide, origin, zone, shape.clock), calls, by, **flags)


def _frames(size: Any, slide: Any, origin: Any, zone: str | None, clock: Clock) -> Frames | FromFirst:
    periods = [_period(each, zone, clock) for each in (size, slide)]
    if periods[0] is not None and periods[1] is not None:
        day, rest = divmod(0 if origin is None else clock.instant(origin), clock.duration("1d"))
        if rest:
            raise InputError(f"found the origin {origin!r}; windows of a calendar begin with a day")
        return CalendarFrames(clock, periods[0], periods[1], zone or "UTC", day)
    long, every = (clock.duration(each, positive=True) for each in (size, slide))
    if origin == "first event":
        return FromFirst(long, every)
    return FixedFrames(long, every, 0 if origin is None else clock.instant(origin))


def _period(length: Any, zone: str | None, clock: Clock) -> Period | None:
    """A length of a calendar; None for one of so many ticks."""
    told = _MONTHS.fullmatch(length.strip().lower()) if isinstance(length, str) else None
    if told is not None:
        return Period(months=int(told[1]) * (12 if told[2].startswith("y") else 1))
    if zone is None:
        return None
    days, rest = divmod(clock.duration(length, positive=True), clock.duration("1d"))
    if rest:
        raise InputError(f"found the length {length!r} with a zone; expected whole days, months or years")
    return Period(days=days)

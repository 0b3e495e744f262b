"""Replacing the events of a time range: what may be said of it, and rows that are not in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tidelog.model.errors import InputError
from tidelog.model.times.clock import Clock
from tidelog.model.times.interval import Interval
from tidelog.spark.datasource.options import SinkOptions, as_time
from tidelog.store.rows.stored import Ints

APPEND: Final = "append"
"""The value of the option ``outside`` that lets rows in that are not in the range."""


def replaced_range(overwrite: Any) -> tuple[Any, Any] | None:
    """The start and the end of what is replaced, either of which may be None; None if nothing is.

    Raises :class:`InputError` unless it is True, False, or a tuple or list of two: what is nearly one of these, such as
    the text "false", must not replace everything.
    """
    if overwrite is False:
        return None
    if overwrite is True:
        return None, None
    if isinstance(overwrite, tuple | list) and len(overwrite) == 2:
        start, end = overwrite
        return start, end
    raise InputError(
        f"overwrite is {overwrite!r} ({type(overwrite).__name__}); expected True, False, or a start and an end such as "
        "(start, end), each a time or None"
    )


def interval_of(options: SinkOptions, clock: Clock) -> Interval:
    """The range that options say is to be overwritten. Raises :class:`InputError` if it is empty."""
    interval = clock.interval(as_time(options.overwrite_start), as_time(options.overwrite_end))
    if interval.is_empty:
        raise InputError(
            f"the range to overwrite, {options.overwrite_start} to {options.overwrite_end}, is empty; expected "
            "overwrite_end to be after overwrite_start"
        )
    return interval


@dataclass(frozen=True, slots=True)
class Outside:
    """How many rows of a task are not in the range, and the first and the last time among them."""

    rows: int = 0
    first: int = 0
    last: int = 0

    @classmethod
    def of(cls, times: Ints, interval: Interval) -> Outside:
        """Those of some rows, given by their times."""
        is_outside = np.zeros(len(times), np.bool_)
        if interval.start is not None:
            is_outside |= times < interval.start
        if interval.end is not None:
            is_outside |= times >= interval.end
        found = times[is_outside]
        return cls(len(found), int(found.min()), int(found.max())) if len(found) else NONE_OUTSIDE

    @classmethod
    def together(cls, parts: Iterable[Outside]) -> Outside:
        """Those of several tasks."""
        found = [each for each in parts if each.rows]
        if not found:
            return NONE_OUTSIDE
        first, last = min(each.first for each in found), max(each.last for each in found)
        return cls(sum(each.rows for each in found), first, last)

    def refuse(self, interval: Interval, clock: Clock) -> None:
        """Raise :class:`InputError` if there are any."""
        if not self.rows:
            return
        show = clock.format
        start = "" if interval.start is None else f" from {show(interval.start)}"
        end = " on" if interval.end is None else f" up to {show(interval.end)}"
        raise InputError(
            f"{self.rows} of the rows are outside of the range to overwrite,{start}{end}: the first at "
            f"{show(self.first)}, the last at {show(self.last)}; nothing was written. Leave them out, overwrite a "
            "range that has them, or let them be added to what is there: outside='append'"
        )


NONE_OUTSIDE: Final = Outside()

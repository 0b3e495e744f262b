"""Event time: what points, bounds and lengths of time mean on the clock of a stream.

One rule about zones, for queries and for data alike:

* An unzoned column holds UTC. A value that names its zone (an aware datetime, ``...Z``, ``...+01:00``) is
  converted to UTC, one that does not is taken to be UTC.
* A zoned column holds instants. A value that names its zone is one. A value that does not is accepted only
  where all readings of it agree, in columns whose zone is UTC; elsewhere it is refused.

Integers are ticks of the column's unit since 1970-01-01T00:00:00 UTC; on an int64 column they are all there is.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.model.arguments import instance, integer
from tidelog.model.errors import TimeError
from tidelog.model.times.durations import read_duration
from tidelog.model.times.instants import TICKS_PER_SECOND, Instant, read_instant, shown
from tidelog.model.times.interval import ALL_TIME, Interval

__all__ = ["ALL_TIME", "INT64_MAX", "INT64_MIN", "Clock", "Interval"]

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

_UTC_NAMES = frozenset(
    {"UTC", "Etc/UTC", "UCT", "Etc/UCT", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal"}
    | {"+00:00", "-00:00"}
)

_UNIT_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}

_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,30}")

_EPOCH = datetime(1970, 1, 1)
_FIRST_PRINTABLE = (datetime.min - _EPOCH) // timedelta(seconds=1)
_LAST_PRINTABLE = (datetime.max - _EPOCH) // timedelta(seconds=1)


def is_utc(zone: str) -> bool:
    """Whether a zone name is one of UTC's."""
    return zone in _UTC_NAMES


class Clock:
    """How a column of int64 or timestamp type counts time.

    ``unit`` is None for int64 columns, whose ticks have no length that tidelog knows; ``zone`` is None for
    them and for unzoned timestamps.
    """

    __slots__ = ("_takes_naive", "_ticks_per_second", "unit", "zone")

    def __init__(self, type_: pa.DataType) -> None:
        instance("the type of a time column", type_, pa.DataType, "pyarrow.int64() or a pyarrow.timestamp")
        self.unit: Final[str | None] = type_.unit if pa.types.is_timestamp(type_) else None
        self.zone: Final[str | None] = type_.tz if pa.types.is_timestamp(type_) else None
        self._ticks_per_second = TICKS_PER_SECOND.get(self.unit or "", 0)
        self._takes_naive = self.zone is None or is_utc(self.zone)

    def __repr__(self) -> str:
        return f"Clock(unit={self.unit!r}, zone={self.zone!r})"

    def instant(self, value: object) -> int:
        """The tick at which ``value`` happens.

        Raises :class:`TimeError` when it falls between two ticks or outside the range of the clock.
        """
        return self._ticks(value, round_up=False)

    def bound(self, value: object) -> int | None:
        """The first tick at or after ``value``; None, for unbounded, is None.

        Rounding up is right for both ends of a half-open range: on a clock of seconds, ``t >= 10.5`` says
        ``t >= 11`` and ``t < 10.5`` says ``t < 11``.
        """
        return None if value is None else self._ticks(value, round_up=True)

    def interval(self, start: object, end: object) -> Interval:
        """The half-open interval between two bounds; it is empty when ``end`` is not after ``start``."""
        return Interval(self.bound(start), self.bound(end))

    def duration(self, value: object, *, positive: bool = False) -> int:
        """The number of ticks ``value`` lasts: text such as ``"1h30m"``, a timedelta, or an int of ticks.

        Negative durations are refused always, zero when ``positive`` is asked for. Raises :class:`TimeError`
        when the duration is not a whole number of ticks, or too long to count in 63 bits.
        """
        integer = _integer(value, text=self.unit is None)
        if integer is not None:
            ticks = integer
        elif self.unit is None:
            raise TimeError(_expected_integer(value, "a duration"))
        else:
            exact = read_duration(value) * self._ticks_per_second
            if exact.denominator != 1:
                raise TimeError(
                    f"found {shown(value)}, which is not a whole number of {_UNIT_NAMES[self.unit]}s; "
                    f"expected a multiple of the stream's unit, 1{self.unit}"
                )
            ticks = exact.numerator
        if ticks < 0 or (positive and ticks == 0):
            raise TimeError(
                f"found the duration {shown(value)}; expected one {'longer than' if positive else 'of at least'} zero"
            )
        if ticks > INT64_MAX:
            raise TimeError(f"found the duration {shown(value)}; expected at most {INT64_MAX} ticks")
        return ticks

    def format(self, ticks: int) -> str:
        """An instant as text: ISO 8601 in UTC (with ``Z`` on zoned clocks), or the bare integer.

        :meth:`instant` reads the text back. Years before 1 or after 9999, which ISO 8601 has no common form
        for, are given in ticks and their unit, for people only.
        """
        ticks = integer("an instant", ticks)
        if self.unit is None:
            return str(ticks)
        seconds, fraction = divmod(ticks, self._ticks_per_second)
        if not _FIRST_PRINTABLE <= seconds <= _LAST_PRINTABLE:
            return f"{ticks} {_UNIT_NAMES[self.unit]}s since 1970-01-01"
        text = (_EPOCH + timedelta(seconds=seconds)).isoformat()
        digits = len(str(self._ticks_per_second)) - 1
        if fraction:
            text += "." + str(fraction).rjust(digits, "0")
        return text if self.zone is None else text + "Z"

    def _ticks(self, value: object, *, round_up: bool) -> int:
        integer = _integer(value, text=self.unit is None)
        if integer is not None:
            return self._in_range(integer, value)
        if self.unit is None:
            raise TimeError(_expected_integer(value, "a point in time"))
        instant = self._placed(value)
        ticks, rest = divmod(instant.numerator * self._ticks_per_second, instant.denominator)
        if rest and not round_up:
            raise TimeError(
                f"found {shown(value)}, which falls between two {_UNIT_NAMES[self.unit]}s; "
                "round it, or give the column a finer unit"
            )
        return self._in_range(ticks + (rest > 0), value)

    def _placed(self, value: object) -> Instant:
        instant = read_instant(value)
        if not instant.zoned and not self._takes_naive:
            raise TimeError(
                f"found {shown(value)}, which names no time zone, for a column in zone {self.zone}; expected an "
                "aware datetime, or an ISO string that ends in 'Z' or an offset such as '+01:00'"
            )
        return instant

    def _in_range(self, ticks: int, value: object) -> int:
        if INT64_MIN <= ticks <= INT64_MAX:
            return ticks
        unit = "64-bit integers" if self.unit is None else f"a clock of {_UNIT_NAMES[self.unit]}s"
        raise TimeError(
            f"found {shown(value)}, outside the range of {unit}, {self.format(INT64_MIN)} to "
            f"{self.format(INT64_MAX)}; as the bound of a range, None means unbounded"
        )


def _integer(value: object, *, text: bool) -> int | None:
    """``value`` as an int when it is an integer (or, if ``text``, the text of one), else None."""
    # numpy.timedelta64 counts as an integer type in NumPy's hierarchy, bool in Python's.
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return int(value)
    if isinstance(value, str) and text and _INTEGER_TEXT.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, pa.Scalar) and pa.types.is_integer(value.type) and value.is_valid:
        return int(value.as_py())
    return None


def _expected_integer(value: object, what: str) -> str:
    return (
        f"found {shown(value)} ({type(value).__name__}); {what} of this stream is an integer, because its time "
        "column is int64 and tells no unit"
    )

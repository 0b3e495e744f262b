"""Times written as decimal numbers: seconds since 1970, such as ``1700000000.25``, read exactly.

Whole numbers in a column of timestamps count its unit. Only a point tells seconds, and as programs leave it out where
nothing is behind it, it does so for all numbers of a column of one input: see :func:`holds_seconds`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model.conversion.misfit import Misfit
from tidelog.model.times.instants import TICKS_PER_SECOND, shown

TICKS: Final = re.compile(r"\s*-?[0-9]+\s*")
DECIMAL: Final = re.compile(r"\s*-?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)\s*")
"""A number that is no integer by its form."""

SCALE: Final = 9
"""Digits behind the point, as many as the finest unit has."""
DIGITS: Final = pa.decimal128(38, SCALE)
_LIMIT = 10**11
"""Seconds from 1970 to the year 5138: larger numbers are in another unit."""
_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def first_text(text: pa.Array) -> str | None:
    """The first value that is there."""
    row = pc.index(text.is_valid(), pa.scalar(True)).as_py()
    return None if row < 0 else text[row].as_py()


def holds_seconds(text: pa.Array) -> bool | None:
    """Whether numbers of a column are seconds: whether one has a point. None if there are no values to tell by."""
    first = first_text(text)
    if first is None:
        return None
    if not (TICKS.fullmatch(first) or DECIMAL.fullmatch(first)):
        return False
    return bool(pc.any(pc.match_substring_regex(text, f"^(?:{DECIMAL.pattern})$")).as_py())


def fitting_unit(text: pa.Array) -> pa.DataType | None:
    """The timestamp that holds seconds exactly: microseconds, or nanoseconds if there are more digits; else None."""
    for unit in ("us", "ns"):
        try:
            from_seconds(text, pa.timestamp(unit))
        except Misfit:
            continue
        return pa.timestamp(unit)
    return None


def from_seconds(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Texts of seconds as timestamps. Raises :class:`Misfit` at the first that is none, or falls between two ticks."""
    try:
        return from_decimals(pc.utf8_trim_whitespace(text).cast(DIGITS), target)
    except pa.ArrowInvalid:
        pass
    ticks = []
    for row, each in enumerate(text.to_pylist()):
        try:
            ticks.append(None if each is None else ticks_of(Decimal(each.strip()), target))
        except ArithmeticError:
            raise Misfit(
                f"found {shown(each)}, expected seconds since 1970 such as 1700000000.25, as in rows before", row
            ) from None
        except Misfit as misfit:
            raise Misfit(misfit.reason, row) from None
    return pa.array(ticks, pa.int64()).view(target)


def from_decimals(seconds: pa.Array, target: pa.DataType) -> pa.Array:
    """Decimals of type :data:`DIGITS` as timestamps; :class:`Misfit` as for :func:`from_seconds`."""
    seconds = seconds.combine_chunks() if isinstance(seconds, pa.ChunkedArray) else seconds
    words = np.frombuffer(seconds.buffers()[1], np.int64)[2 * seconds.offset :][: 2 * len(seconds)]
    low, high = words[::2], words[1::2]  # of 128 bits: within the limit, the upper half is the sign of the lower one
    missing = seconds.is_null().to_numpy(zero_copy_only=False)
    step = 10**SCALE // TICKS_PER_SECOND[target.unit]
    bad = ((high != low >> 63) | (abs(low // 10**SCALE) >= _LIMIT) | (low % step != 0)) & ~missing
    if bad.any():
        row = int(bad.argmax())
        ticks_of(seconds[row].as_py(), target, row)
    return pa.array(low // step, pa.int64(), mask=missing).view(target)


def ticks_of(seconds: Decimal | int, target: pa.DataType, row: int = 0) -> int:
    """Seconds in ticks of a timestamp. Raises :class:`Misfit`."""
    number = Decimal(seconds)
    if not number.is_finite() or abs(number) >= _LIMIT:
        raise Misfit(
            f"found {seconds}, which is no time in seconds since 1970 before the year 5138; numbers with a point are "
            "seconds, all others count the unit of the column",
            row,
        )
    ticks = Fraction(number) * TICKS_PER_SECOND[target.unit] if number.adjusted() >= -SCALE or not number else None
    if ticks is None or ticks.denominator != 1:
        raise Misfit(
            f"found {seconds}, which falls between two {_UNITS[target.unit]}s; round it, or give the column a finer "
            "unit",
            row,
        )
    return ticks.numerator


def mixed_numbers(found: Any, target: pa.DataType) -> str:
    """Why a number with a point is refused where those before it have none."""
    return (
        f"found {shown(found)}: a number with a point is in seconds, but those at the top of the input have none and "
        f"were taken as {_UNITS[target.unit]}s; write all of them in one way"
    )

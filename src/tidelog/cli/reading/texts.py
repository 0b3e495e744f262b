"""Columns of text as typed columns: the type that fits, the conversion, and the first value that does not fit.

Conversion is Arrow's, over whole columns. Only a column that Arrow refuses is looked at more closely: the first bad
value is found by halving, and texts of times in mixed forms are read one by one, as everywhere in tidelog.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.cli.reading.seconds import DECIMAL, TICKS, first_text, fitting_unit, from_seconds, mixed_numbers
from tidelog.model.conversion.columns import ColumnReader
from tidelog.model.conversion.misfit import Misfit
from tidelog.model.errors import InputError
from tidelog.model.times.clock import is_utc
from tidelog.model.times.instants import shown
from tidelog.model.types import type_name

_Conversion: TypeAlias = Callable[[pa.Array], pa.Array]

_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_PADDED = r"^\s*[+-]?0[0-9]+\s*$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?([nN]a[nN]|nan|[iI]nf(inity)?)$"
_TRUTH = r"^([tT]rue|[fF]alse|TRUE|FALSE)$"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_WITH_ZONE = r"([zZ]|[+-][0-9]{2}(:?[0-9]{2})?)$"
_LONG_INTEGER = r"^\s*[+-]?[0-9]{16,}\s*$"
"""Integers of which a float64 may not know the last digits."""


def decoded(values: pa.Array) -> pa.Array:
    """Bytes as text. Raises :class:`Misfit` at the first value that is not UTF-8."""
    if pa.types.is_string(values.type):
        return values
    return _converted(values, [lambda part: part.cast(pa.string())], "text in UTF-8")


def inferred_type(values: pa.Array, *, is_time: bool = False, times_only: bool = False) -> pa.DataType:
    """The narrowest of null, int64, float64, bool, date32, timestamp and string that holds all values of a text column.

    Numbers with padding zeros stay text, because the zeros mean something. Timestamps count microseconds, or
    nanoseconds where texts have more digits, and are in UTC where texts name a zone. Days are dates, but for the
    column of event time; there, numbers with a point are seconds since 1970 (:mod:`tidelog.cli.reading.seconds`). With
    ``times_only``, everything but days and times stays text.
    """
    text = pc.unique(values.drop_null())
    if not len(text):
        return pa.null()
    if not times_only:
        if _all(text, _INTEGER):
            return next((type_ for type_ in (pa.int64(), pa.uint64()) if _fits(text, type_)), pa.string())
        if _all(text, _NUMBER) and not _any(text, _PADDED):
            return (fitting_unit(text) if is_time else None) or pa.float64()
        if _all(text, _TRUTH):
            return pa.bool_()
    if not is_time and _all(text, _DAY) and _fits(text, pa.date32()):
        return pa.date32()
    if _all(text, _TIME):
        zone = "UTC" if _all(pc.utf8_slice_codeunits(text, 10), _WITH_ZONE) else None
        for unit in ("us", "ns"):
            if _fits(text, pa.timestamp(unit, zone)):
                return pa.timestamp(unit, zone)
    return pa.string()


def typed(text: pa.Array, field: pa.Field, *, in_seconds: bool = False, as_told: bool = False) -> pa.Array:
    """A text column as a field's type; nulls stay nulls, wherever they are.

    Spaces around numbers and times are ignored. Integers for a timestamp count its unit, but are ``in_seconds`` where
    the column is known to be. Binary values are written in base64. Raises :class:`Misfit` at the first value that does
    not fit; unless the type is ``as_told`` by the user, that is also one that would not be the same any more: a number
    with padding zeros, or an integer that a float would round.
    """
    target = field.type
    if pa.types.is_string(target) or pa.types.is_large_string(target):
        return text.cast(target)
    if pa.types.is_binary(target) or pa.types.is_large_binary(target):
        return _from_base64(text, target)
    if pa.types.is_timestamp(target):
        return from_seconds(text, target) if in_seconds else _times(text, field)
    expected = type_name(target)
    column = _converted(text, [lambda part: _checked(part.cast(target), part, target), _trimmed(target)], expected)
    if not as_told:
        _refuse_changed(text, column, field)
    return column


def _times(text: pa.Array, field: pa.Field) -> pa.Array:
    target = field.type
    convert = _time_conversion(text, target)
    if convert is not None:
        try:
            return convert(text)
        except pa.ArrowInvalid:
            pass
    # Texts of several forms in one column, or a fault: read each on its own, which also knows what is wrong.
    nullable = pa.field(field.name, target)
    values = [int(each) if each and TICKS.fullmatch(each) else each for each in text.to_pylist()]
    try:
        column = ColumnReader(nullable).read(values)
    except InputError as error:
        row = error.row or 0
        if DECIMAL.fullmatch(text[row].as_py()):
            raise Misfit(mixed_numbers(text[row].as_py(), target), row) from None
        raise Misfit(str(error).removeprefix(f"column {field.name!r}, row {row}: "), row) from None
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _time_conversion(text: pa.Array, target: pa.DataType) -> _Conversion | None:
    """How texts of the form that the first one has become times; None if each needs to be looked at.

    Going by the first one matters: Arrow takes much longer to refuse a column than to convert it.
    """
    first = first_text(text)
    if first is None or TICKS.fullmatch(first):
        return lambda part: part.cast(pa.int64()).view(target)
    if re.search(_WITH_ZONE, first[10:]):
        return lambda part: part.cast(pa.timestamp(target.unit, "UTC")).view(target)
    if target.tz is None or is_utc(target.tz):
        return lambda part: part.cast(pa.timestamp(target.unit)).view(target)
    return None


def _refuse_changed(text: pa.Array, column: pa.Array, field: pa.Field) -> None:
    """Raise :class:`Misfit` at the first number that is not what its text says any more."""
    target = field.type
    if not (pa.types.is_integer(target) or pa.types.is_floating(target) or pa.types.is_decimal(target)):
        return
    padded = pc.match_substring_regex(text, _PADDED)
    row = pc.index(padded, pa.scalar(True)).as_py()
    reason = f"the padding zeros of which {type_name(target)} would lose"
    if pa.types.is_floating(target) and (pc.max(pc.binary_length(text)).as_py() or 0) > 15:
        long = pc.fill_null(pc.match_substring_regex(text, _LONG_INTEGER), False).to_numpy(zero_copy_only=False)
        for each in long.nonzero()[0].tolist():
            if 0 <= row < each:
                break
            if int(text[each].as_py()) != int(column[each].as_py()):
                row, reason = each, f"which {type_name(target)} would round"
                break
    if row >= 0:
        raise Misfit(
            f"found {shown(text[row].as_py())}, {reason}; if it is a text, create the stream with --type "
            f"{field.name}=string, and if that does no harm, say --type {field.name}={type_name(target)}",
            row,
        )


def _from_base64(text: pa.Array, target: pa.DataType) -> pa.Array:
    values: list[bytes | None] = []
    for row, each in enumerate(text.to_pylist()):
        try:
            values.append(None if each is None else base64.b64decode(each, validate=True))
        except (binascii.Error, ValueError) as error:
            raise Misfit(f"found {shown(each)}, expected binary data written in base64: {error}", row) from None
    return pa.array(values, target)


def _trimmed(target: pa.DataType) -> _Conversion:
    return lambda part: _checked(pc.utf8_trim_whitespace(part).cast(target), part, target)


def _checked(values: pa.Array, text: pa.Array, target: pa.DataType) -> pa.Array:
    """Refuse what Arrow lets pass: hexadecimal integers, and floats that overflow to infinity."""
    if pa.types.is_integer(target) and _any(text, r"[xX]"):
        raise pa.ArrowInvalid("hexadecimal")
    if pa.types.is_floating(target):
        infinite = pc.is_inf(values)
        if pc.any(infinite).as_py() and _any(text.filter(infinite), r"[0-9]"):
            raise pa.ArrowInvalid("overflow")
    return values


def _converted(values: pa.Array, conversions: list[_Conversion], expected: str) -> pa.Array:
    """The first conversion that works for all values; else :class:`Misfit` at the value no conversion gets past."""
    for convert in conversions:
        try:
            return convert(values)
        except pa.ArrowInvalid:
            continue
    row = max(_good_prefix(values, convert) for convert in conversions)
    raise Misfit(f"found {shown(values[row].as_py())}, expected {expected}", row)


def _good_prefix(values: pa.Array, convert: _Conversion) -> int:
    """How many values from the first on a conversion takes, when it does not take all of them."""
    good, bad = 0, len(values)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            convert(values.slice(good, middle - good))
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good


def _fits(text: pa.Array, target: pa.DataType) -> bool:
    try:
        text.cast(target)
    except pa.ArrowInvalid:
        return False
    return True


def _all(text: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, pattern)).as_py())


def _any(text: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, pattern)).as_py())

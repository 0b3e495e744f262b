"""Single Python values on their way into a column: what each type of column accepts, and as what.

This is the definition of fitting for Python values. Faster ways in (:mod:`tidelog.model.conversion.columns`,
:mod:`tidelog.model.conversion.rows`) must agree with it or defer to it.

A reader turns a value into the *canonical* one, which Arrow takes without further judgement: bool, int, float,
str, bytes or Decimal as they are, ticks since the epoch (int) for timestamps, days (date32) or milliseconds
(date64) since the epoch for dates, and None for everything that stands for a missing value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.model.conversion.families import Family, family
from tidelog.model.conversion.misfit import Misfit
from tidelog.model.conversion.reasons import inexact_float, integer_range, not_an_integer, out_of_range, unfit_decimal
from tidelog.model.errors import TimeError
from tidelog.model.times.clock import Clock
from tidelog.model.times.instants import is_missing, read_instant, shown
from tidelog.model.types import type_name

Reader = Callable[[Any], Any]
"""Python value -> canonical value; raises :class:`Misfit`."""

_SECONDS_PER_DAY = 86_400
_FLOAT32 = struct.Struct("<f")
_EXACTLY = Context(prec=76, traps=[])
"""Room to rescale any decimal128 without rounding, whatever context the user works in."""


def value_reader(field: pa.Field) -> Reader:
    """The reader of values for a column."""
    convert = _CONVERTERS[family(field.type)](field.type)
    nullable, expected = field.nullable, type_name(field.type)

    def read(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if is_missing(value):
            if nullable:
                return None
            raise Misfit(f"found {shown(value)}, expected {expected}: the column is not nullable")
        return convert(_plain(value))

    plain = plain_shape(field)
    if plain is None:
        return read
    if plain.bounds is not None:
        return _quick_integer_reader(*plain.bounds, read)
    return _quick_string_reader(read) if plain.type is str else _quick_reader(plain.type, read)


class PlainShape(NamedTuple):
    """Values of a column that are canonical as they are."""

    type: type
    """Their type, exactly."""
    bounds: tuple[int, int] | None = None
    """The smallest and the largest one; None for all but integers. Strings must be ASCII besides."""


def plain_shape(field: pa.Field) -> PlainShape | None:
    """What most values of a column are; None if none are canonical without a closer look."""
    common = _COMMON_TYPE.get(family(field.type))
    if common is None or field.type == pa.float32():
        return None
    if common is int:
        return PlainShape(int, integer_range(pa.int64() if pa.types.is_timestamp(field.type) else field.type))
    return PlainShape(common)


# One call and one comparison for a value of the most common type: these run per cell of single-row appends.

_COMMON_TYPE: dict[Family, type] = {
    Family.BOOL: bool,
    Family.INTEGER: int,
    Family.TIMESTAMP: int,
    Family.FLOAT: float,
    Family.STRING: str,
    Family.BINARY: bytes,
}


def _quick_reader(common: type, otherwise: Reader) -> Reader:
    return lambda value: value if type(value) is common else otherwise(value)


def _quick_integer_reader(low: int, high: int, otherwise: Reader) -> Reader:
    return lambda value: value if type(value) is int and low <= value <= high else otherwise(value)


def _quick_string_reader(otherwise: Reader) -> Reader:
    # Text in ASCII, which CPython knows without looking, has no lone surrogates.
    return lambda value: value if type(value) is str and value.isascii() else otherwise(value)


def _plain(value: Any) -> Any:
    """NumPy and Arrow scalars as the Python values they wrap; those of time stay, as Python would round them."""
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        return value.item()
    if isinstance(value, pa.Scalar) and not isinstance(value, pa.TimestampScalar | pa.DurationScalar):
        return value.as_py()
    return value


def _wrong_type(value: Any, expected: str) -> Misfit:
    return Misfit(f"found {shown(value)} ({type(value).__name__}), expected {expected}")


def _bool(type_: pa.DataType) -> Reader:
    def convert(value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise _wrong_type(value, "a bool")

    return convert


def _integer(type_: pa.DataType) -> Reader:
    low, high = integer_range(type_)

    def convert(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            if low <= value <= high:
                return int(value)
            raise Misfit(out_of_range(value, type_))
        if isinstance(value, float):
            if value.is_integer() and low <= value <= high:
                return int(value)
            raise Misfit(not_an_integer(value, type_))
        raise _wrong_type(value, f"an integer ({type_name(type_)})")

    return convert


def _float(type_: pa.DataType) -> Reader:
    narrow = type_ == pa.float32()

    def convert(value: Any) -> float:
        if isinstance(value, float):
            if narrow:
                _rounded_to_float32(value)
            return float(value)
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                raise Misfit(inexact_float(value, type_)) from None
            if narrow:
                number = _rounded_to_float32(number)
            if number != value:
                raise Misfit(inexact_float(value, type_))
            return number
        raise _wrong_type(value, f"a number ({type_name(type_)})")

    return convert


def _rounded_to_float32(value: float) -> float:
    """The nearest float32: a Python float has no width of its own, so rounding it is no loss; overflowing is."""
    try:
        (rounded,) = _FLOAT32.unpack(_FLOAT32.pack(value))
    except OverflowError:
        raise Misfit(f"found {value!r}, outside the range of float32; declare the column as float64") from None
    return float(rounded)


def _decimal(type_: pa.DataType) -> Reader:
    unit = Decimal((0, (1,), -type_.scale))
    limit = Decimal((0, (1,), type_.precision - type_.scale))

    def convert(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            advice = "; turn floats into decimals yourself, e.g. Decimal(str(x))" if isinstance(value, float) else ""
            raise _wrong_type(value, f"a Decimal or int ({type_name(type_)}){advice}")
        number = Decimal(value)
        if not number.is_finite() or number.copy_abs() >= limit:
            raise Misfit(unfit_decimal(value, type_))
        scaled = number.quantize(unit, context=_EXACTLY)
        if scaled != number:
            raise Misfit(unfit_decimal(value, type_))
        return scaled

    return convert


def _string(type_: pa.DataType) -> Reader:
    def convert(value: Any) -> str:
        if not isinstance(value, str):
            advice = "; decode it first" if isinstance(value, bytes | bytearray | memoryview) else ""
            raise _wrong_type(value, f"a str{advice}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(f"found {shown(value)}, which has a lone surrogate and so no UTF-8 form") from None
        return str(value)

    return convert


def _binary(type_: pa.DataType) -> Reader:
    def convert(value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        advice = "; encode it first" if isinstance(value, str) else ""
        raise _wrong_type(value, f"bytes{advice}")

    return convert


def _timestamp(type_: pa.DataType) -> Reader:
    clock = Clock(type_)

    def convert(value: Any) -> int:
        try:
            return clock.instant(value)
        except TimeError as error:
            raise Misfit(str(error)) from None

    return convert


def _date(type_: pa.DataType) -> Reader:
    unit = 1 if type_ == pa.date32() else 1000 * _SECONDS_PER_DAY

    def convert(value: Any) -> int:
        try:
            instant = read_instant(value)
        except TimeError as error:
            raise Misfit(str(error)) from None
        days, rest = divmod(instant.numerator, instant.denominator * _SECONDS_PER_DAY)
        if rest or instant.zoned or abs(days) >= 2**31:
            raise Misfit(f"found {shown(value)}, expected a date; the time of day and the zone would be lost")
        return days * unit

    return convert


_CONVERTERS: dict[Family, Callable[[pa.DataType], Reader]] = {
    Family.BOOL: _bool,
    Family.INTEGER: _integer,
    Family.FLOAT: _float,
    Family.DECIMAL: _decimal,
    Family.TIMESTAMP: _timestamp,
    Family.DATE: _date,
    Family.STRING: _string,
    Family.BINARY: _binary,
}
"""How values that are not missing are read, by the family of the column's type."""

"""Casts from and to text.

Common forms go through Arrow's kernels; the rest is read or written once for each distinct value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.values import decimals
from tidelog.expr.values.calendar import date_text, instant_text, read_date, read_instant
from tidelog.expr.values.interval_text import interval_text, read_interval
from tidelog.expr.values.types import (
    BLOB,
    BOOLEAN,
    DATE,
    FLOAT,
    HUGEINT,
    INTERVAL,
    TIMESTAMP,
    VARCHAR,
    integer_fits,
    is_decimal,
    is_float,
    is_instant,
    is_integer,
)
from tidelog.expr.values.vectors import Mask, as_array, made, numbers, valid_rows

Converted = tuple[pa.Array, Mask | None]

_SPACE = " \t\n\v\f\r"
_NUMBER = re.compile(r"[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)([eE][+-]?\d+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+(_[0-9a-fA-F]+)*")
_BINARY = re.compile(r"[+-]?0[bB][01]+(_[01]+)*")
_PLAIN_INTEGER = r"^-?[0-9]{1,18}$"
_PLAIN_FLOAT = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
_PLAIN_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?$"
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_BLOB_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")

_TRUE = frozenset({"t", "true", "1", "yes", "y"})
_FALSE = frozenset({"f", "false", "0", "no", "n"})


def shown(value: pa.Scalar) -> str:
    """A value as it stands in messages: as text, in quotes if it is text."""
    text = to_text(as_array(value, 1), VARCHAR)[0][0].as_py() if value.type != VARCHAR else value.as_py()
    return repr(text) if value.type == VARCHAR else str(text)


def by_distinct(array: pa.Array, target: pa.DataType, convert: Callable[[Any], Any]) -> Converted:
    """Each distinct value converted; ``convert`` raises ValueError for those without a counterpart.

    The converted values are what the memory of the array holds: counts of units for instants.
    """
    encoded = pc.dictionary_encode(_encodable(array))
    values, failed = [], []
    for value in _distinct(encoded.dictionary, array.type):
        try:
            values.append(convert(value))
            failed.append(False)
        except (ValueError, OverflowError, InvalidOperation):
            values.append(None)
            failed.append(True)
    converted = _built(values, target)
    if not any(failed):
        return _taken(converted, encoded.indices, target), None
    bad = pc.take(pa.array(failed), encoded.indices).fill_null(False)
    return _taken(converted, encoded.indices, target), numbers(bad)


def _encodable(array: pa.Array) -> pa.Array:
    if array.type != INTERVAL:
        return array
    return pa.Array.from_buffers(pa.binary(16), len(array), array.buffers(), offset=array.offset)


def _distinct(dictionary: pa.Array, type_: pa.DataType) -> list[Any]:
    if type_ == INTERVAL:
        return list(np.frombuffer(b"".join(dictionary.to_pylist()), [("m", "<i4"), ("d", "<i4"), ("n", "<i8")]))
    if is_instant(type_):
        return list(numbers(dictionary).tolist())
    if type_ == FLOAT:
        return list(numbers(dictionary))  # NumPy's floats print themselves in the fewest digits
    return list(dictionary.to_pylist())


def _built(values: list[Any], target: pa.DataType) -> pa.Array:
    if target != INTERVAL:
        return pa.array(values, target)
    records = np.array(
        [(0, 0, 0) if v is None else v for v in values], [("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")]
    )
    return made(records, np.array([v is not None for v in values], np.bool_), INTERVAL)


def _taken(values: pa.Array, indices: pa.Array, target: pa.DataType) -> pa.Array:
    if target != INTERVAL:
        return pc.take(values, indices)
    chosen = numbers(indices.fill_null(0))
    valid, records = valid_rows(indices), numbers(values)
    own = valid_rows(values)
    if len(records) == 0:
        return made(np.zeros(len(indices), records.dtype), np.zeros(len(indices), np.bool_), INTERVAL)
    there = np.ones(len(indices), np.bool_) if own is None else own[chosen]
    return made(records[chosen], there if valid is None else there & valid, INTERVAL)


def from_text(array: pa.Array, target: pa.DataType) -> Converted:
    """Text read as values of another type."""
    plain = _plain_cast(array, target)
    if plain is not None:
        return plain, None
    return by_distinct(array, target, _reader(target))


def _plain_cast(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """The cast by an Arrow kernel, if every text has a form that it reads as DuckDB does."""
    if is_integer(target) and target != HUGEINT:
        form, through = _PLAIN_INTEGER, target
    elif is_float(target):
        form, through = _PLAIN_FLOAT, target
    elif target == DATE:
        form, through = _PLAIN_DATE, target
    elif target == TIMESTAMP:
        form, through = _PLAIN_INSTANT, target
    else:
        return None
    if pc.all(pc.match_substring_regex(array, form), min_count=0).as_py() is not True:
        return None
    try:
        return pc.cast(array, through)
    except pa.ArrowInvalid:
        return None  # some value is out of range; the reader says which


def _reader(target: pa.DataType) -> Callable[[str], Any]:
    if target == BOOLEAN:
        return _read_boolean
    if is_decimal(target):
        return lambda text: decimal_of(_read_number(text), target)
    if is_integer(target):
        return lambda text: integer_of(_read_number(text, other_bases=True), target)
    if is_float(target):
        return lambda text: _read_float(text, target)
    if target == BLOB:
        return _read_blob
    if target == DATE:
        return read_date
    if target == INTERVAL:
        return read_interval
    return lambda text: read_instant(text, target.unit, zoned=target.tz is not None)


def _read_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered in _TRUE or lowered in _FALSE:
        return lowered in _TRUE
    raise ValueError(text)


def _read_number(text: str, *, other_bases: bool = False) -> Decimal:
    stripped = text.strip(_SPACE)
    if other_bases and (_HEXADECIMAL.fullmatch(stripped) or _BINARY.fullmatch(stripped)):
        return Decimal(int(stripped.replace("_", ""), 0))
    if not _NUMBER.fullmatch(stripped):
        raise ValueError(text)
    return Decimal(stripped.replace("_", ""))


def _read_float(text: str, target: pa.DataType) -> float:
    stripped = text.strip(_SPACE)
    bare = stripped.lstrip("+-").lower()
    if bare in ("inf", "infinity", "nan") and len(stripped) - len(bare) <= 1:
        return float(stripped)
    if not _NUMBER.fullmatch(stripped):
        raise ValueError(text)
    value = float(stripped.replace("_", ""))
    if target == FLOAT:
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return value


def _read_blob(text: str) -> bytes:
    if not text.isascii():
        raise ValueError(text)
    raw = _BLOB_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text.encode())
    if b"\\" in _BLOB_ESCAPE.sub(b"", text.encode()):
        raise ValueError(text)
    return raw


def integer_of(value: Decimal, target: pa.DataType) -> int | Decimal:
    """A decimal rounded to an integer, halves away from zero. Raises ValueError if it does not fit."""
    rounded = (
        int(decimals.rounded_to(value, 0, ROUND_HALF_UP))
        if abs(value.adjusted()) < 90
        else 0
        if value.adjusted() < 0
        else None
    )
    if rounded is None or not integer_fits(rounded, target):
        raise ValueError(value)
    return Decimal(rounded) if target == HUGEINT else rounded


def decimal_of(value: Decimal, target: pa.DataType) -> Decimal:
    """A decimal rounded to the scale of a type. Raises ValueError if it has too many digits."""
    if value.adjusted() > 60:
        raise ValueError(value)
    rounded = decimals.rounded_to(value, target.scale, ROUND_HALF_UP) if value.adjusted() > -90 else Decimal(0)
    if rounded.copy_abs() >= Decimal(10) ** (target.precision - target.scale):
        raise ValueError(value)
    return rounded


def to_text(array: pa.Array, target: pa.DataType) -> Converted:
    """Values as DuckDB prints them."""
    type_ = array.type
    if type_ == BOOLEAN or (is_integer(type_) and type_ != HUGEINT):
        return pc.cast(array, target), None
    if is_float(type_):
        return by_distinct(array, target, _float_text)
    if is_decimal(type_):
        return by_distinct(array, target, lambda value: format(value, "f"))
    if type_ == BLOB:
        return by_distinct(array, target, _blob_text)
    if type_ == INTERVAL:
        return by_distinct(
            array, target, lambda record: interval_text(int(record["m"]), int(record["d"]), int(record["n"]) // 1000)
        )
    if type_ == DATE:
        return by_distinct(array, target, date_text)
    return by_distinct(array, target, lambda ticks: instant_text(ticks, type_.unit, zoned=type_.tz is not None))


def _float_text(value: Any) -> str:
    return str(value)


def _blob_text(value: bytes) -> str:
    return "".join(chr(b) if 32 <= b < 127 and b not in b"\\'\"" else f"\\x{b:02X}" for b in value)

"""Families of types, and which type may become which on the way into a stream, judged by types alone."""

from __future__ import annotations

import enum
import functools

import pyarrow as pa

from tidelog.model.errors import SchemaError
from tidelog.model.times.clock import is_utc
from tidelog.model.types import storable, type_name


class Family(enum.Enum):
    """The kind of values a type holds, whatever their width."""

    NULL = enum.auto()
    BOOL = enum.auto()
    INTEGER = enum.auto()
    FLOAT = enum.auto()
    DECIMAL = enum.auto()
    TIMESTAMP = enum.auto()
    DATE = enum.auto()
    STRING = enum.auto()
    BINARY = enum.auto()
    OTHER = enum.auto()


_FAMILIES = (
    (Family.NULL, pa.types.is_null),
    (Family.BOOL, pa.types.is_boolean),
    (Family.INTEGER, pa.types.is_integer),
    (Family.FLOAT, pa.types.is_floating),
    (Family.DECIMAL, pa.types.is_decimal),
    (Family.TIMESTAMP, pa.types.is_timestamp),
    (Family.DATE, pa.types.is_date),
    (Family.STRING, pa.types.is_string),
    (Family.STRING, pa.types.is_large_string),
    (Family.STRING, pa.types.is_string_view),
    (Family.BINARY, pa.types.is_binary),
    (Family.BINARY, pa.types.is_large_binary),
    (Family.BINARY, pa.types.is_binary_view),
    (Family.BINARY, pa.types.is_fixed_size_binary),
)


def value_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values: a dictionary's are its entries."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


@functools.lru_cache(maxsize=256)
def family(type_: pa.DataType) -> Family:
    """The family of a type; a dictionary belongs to that of its values."""
    values = value_type(type_)
    return next((each for each, matches in _FAMILIES if matches(values)), Family.OTHER)


CONVERTIBLE: frozenset[tuple[Family, Family]] = frozenset(
    {
        (Family.BOOL, Family.BOOL),
        (Family.INTEGER, Family.INTEGER),
        (Family.INTEGER, Family.FLOAT),
        (Family.INTEGER, Family.DECIMAL),
        (Family.INTEGER, Family.TIMESTAMP),
        (Family.FLOAT, Family.FLOAT),
        (Family.FLOAT, Family.INTEGER),
        (Family.DECIMAL, Family.DECIMAL),
        (Family.TIMESTAMP, Family.TIMESTAMP),
        (Family.TIMESTAMP, Family.DATE),
        (Family.DATE, Family.TIMESTAMP),
        (Family.DATE, Family.DATE),
        (Family.STRING, Family.STRING),
        (Family.BINARY, Family.BINARY),
    }
)
"""From which family to which there is a cast that keeps the meaning of values, if perhaps not of all."""

_ADVICE = {
    (Family.TIMESTAMP, Family.INTEGER): "cast it to int64 in the unit you mean",
    (Family.DATE, Family.INTEGER): "cast it to int32 days or int64 milliseconds, as you mean it",
    (Family.FLOAT, Family.TIMESTAMP): "turn it into integers of the column's unit, or into timestamps",
    (Family.STRING, Family.TIMESTAMP): "parse it first, e.g. with a cast or pyarrow.compute.strptime",
    (Family.STRING, Family.DATE): "parse it first, e.g. with a cast",
    (Family.STRING, Family.INTEGER): "parse it first, e.g. with a cast",
    (Family.STRING, Family.FLOAT): "parse it first, e.g. with a cast",
    (Family.STRING, Family.DECIMAL): "parse it first, e.g. with a cast",
    (Family.STRING, Family.BINARY): "encode it first, e.g. with a cast",
    (Family.BINARY, Family.STRING): "decode it first, e.g. with a cast",
    (Family.FLOAT, Family.DECIMAL): "round it to a decimal first, e.g. with a cast",
    (Family.DECIMAL, Family.FLOAT): "round it to a float first, e.g. with a cast",
}
"""What to do about pairs that look convertible and are not, because values could change or mean several things."""


def refusal(source: pa.DataType, target: pa.DataType) -> str | None:
    """Why no array of type ``source`` may become one of ``target``, or None if some can."""
    if source == target or pa.types.is_null(source):
        return None
    found = f"found type {type_name(source)}, expected {type_name(target)}"
    pair = family(source), family(target)
    if pair not in CONVERTIBLE:
        return f"{found}; {_ADVICE.get(pair) or _general_advice(source)}"
    zone = getattr(value_type(source), "tz", None)
    names_an_instant = pair[0] is Family.INTEGER or zone is not None
    if pair[1] is Family.TIMESTAMP and target.tz and not is_utc(target.tz) and not names_an_instant:
        return f"{found}; say which zone the values are in, e.g. with pyarrow.compute.assume_timezone"
    if pair == (Family.TIMESTAMP, Family.DATE) and zone is not None:
        return f"{found}; the day an instant falls on depends on the zone: cast it to a date first"
    return None


def _general_advice(source: pa.DataType) -> str:
    try:
        storable(source)
    except SchemaError:
        return "no column can hold such values"
    return "cast it to the expected type first, or declare the column with the type found"

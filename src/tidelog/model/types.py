"""The column types a stream can hold, what they are called in JSON, and what to use instead of the others."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tidelog.model.errors import SchemaError

_PLAIN: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
"""Types without parameters, by the name they have in JSON and in messages."""

_PLAIN_NAMES: dict[pa.DataType, str] = {type_: name for name, type_ in _PLAIN.items()}

UNITS = ("s", "ms", "us", "ns")
"""The units a timestamp can count, coarse to fine."""

_OFFSET = re.compile(r"[+-](?:[01]\d|2[0-3]):[0-5]\d")

_ADVICE: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    # Extension types first: the predicates below would look through them at their storage.
    (lambda t: isinstance(t, pa.BaseExtensionType), "store its storage type"),
    (pa.types.is_time, "store int64 nanoseconds since midnight, or a string"),
    (pa.types.is_duration, "store int64 in a unit of your choice"),
    (pa.types.is_interval, "store its parts as integer columns"),
    (pa.types.is_float16, "use float32"),
    (pa.types.is_decimal, "use decimal128, or a string where 38 digits are not enough"),
    (pa.types.is_null, "name the type its values will have"),
    (pa.types.is_fixed_size_binary, "use binary"),
    (pa.types.is_struct, "make a column of each field"),
    (pa.types.is_union, "make a nullable column of each alternative"),
    (pa.types.is_run_end_encoded, "use the type of its values; runs are compressed anyway"),
    (pa.types.is_nested, "store one event per element, or the whole as JSON text in a string column"),
)
"""What to do about a type that cannot be stored; the first predicate that holds."""


def type_name(type_: pa.DataType) -> str:
    """What a type is called in messages: the constructor's name rather than Arrow's, e.g. ``float64``."""
    return _PLAIN_NAMES.get(type_) or str(type_)


def storable(type_: pa.DataType) -> pa.DataType:
    """The type under which values of ``type_`` are stored.

    Dictionaries are stored by value and views as what they view; every other storable type is itself.
    Raises :class:`SchemaError`, without naming a column, for a type that cannot be stored.
    """
    if pa.types.is_dictionary(type_):
        return storable(type_.value_type)
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    if type_ in _PLAIN_NAMES or pa.types.is_timestamp(type_):
        return type_
    if pa.types.is_decimal128(type_):
        if 0 <= type_.scale <= type_.precision:
            return type_
        # Legal in Arrow, but neither DuckDB nor Spark has such a type, and Arrow's own conversions stumble over it.
        raise SchemaError(
            f"type {type_name(type_)} cannot be stored; expected decimal128 with a scale from 0 to its precision. "
            "Instead, use more precision, or scale the values"
        )
    advice = next((text for matches, text in _ADVICE if matches(type_)), "use one of the types above")
    raise SchemaError(
        f"type {type_name(type_)} cannot be stored; expected bool, an integer, float32 or float64, a string, "
        f"binary, a timestamp, a date, decimal128, or a dictionary of one of these. Instead, {advice}"
    )


def is_known_zone(zone: str) -> bool:
    """Whether a time zone is a name of the IANA database or an offset such as ``+01:00``."""
    if zone == "UTC" or _OFFSET.fullmatch(zone):
        return True
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def type_to_dict(type_: pa.DataType) -> dict[str, Any]:
    """A storable type as JSON members: ``type`` and its parameters."""
    if pa.types.is_timestamp(type_):
        members = {"type": "timestamp", "unit": type_.unit}
        return members if type_.tz is None else members | {"zone": type_.tz}
    if pa.types.is_decimal128(type_):
        return {"type": "decimal128", "precision": type_.precision, "scale": type_.scale}
    return {"type": _PLAIN_NAMES[type_]}


def type_from_dict(members: dict[str, Any]) -> pa.DataType:
    """The type described by the JSON members that :func:`type_to_dict` makes; none may be left over."""
    rest = dict(members)
    name = rest.pop("type", None)
    try:
        if name == "timestamp":
            type_ = pa.timestamp(rest.pop("unit"), rest.pop("zone", None))
        elif name == "decimal128":
            type_ = pa.decimal128(rest.pop("precision"), rest.pop("scale"))
        else:
            type_ = _PLAIN[name]
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaError(f"{members!r} does not describe a column type") from error
    if rest:
        raise SchemaError(f"{members!r} describes a type with unknown members {sorted(rest)}")
    return type_

"""Constants of plans: as values of Python, as Spark writes them, and as conditions of a stream do."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any, Final

from tidelog.spark.sql.types import FLOATS, NANOSECONDS, PLAIN_TIMES, WHOLE, ZONED, Type, Unwritable, type_of
from tidelog.sql.text.tree import Node

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_SECOND: Final = 1_000_000
_UNITS: Final = {"TIMESTAMP_S": 1, "TIMESTAMP_MS": 1000, "TIMESTAMP": _SECOND, ZONED: _SECOND}
"""How many of it make a second."""


def value_of(node: Node) -> tuple[Type, Any]:
    """The type and the value of a constant: times are counts, decimals whole numbers without their point."""
    told = node["value"]
    kind = type_of(told["type"])
    if told.get("is_null") or kind.id == "NULL":
        return kind, None
    value = told.get("value")
    if kind.id == "HUGEINT" or (kind.is_decimal and isinstance(value, dict)):
        return kind, (int(value["upper"]) << 64) + int(value["lower"])
    return kind, value


def moment(kind: Type, count: int) -> datetime.datetime:
    """A time by its count. Raises :class:`Unwritable` for those that texts are not written for."""
    micros = count * (_SECOND // _UNITS[kind.id])
    try:
        return _EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        raise Unwritable("a time before the year 1 or after 9999, or without an end") from None


def spark_constant(kind: Type, value: Any) -> str:
    """A constant as Spark writes it. Raises :class:`Unwritable`."""
    name = kind.spark
    if name is None:
        raise Unwritable(f"a value of type {kind.name}")
    if value is None:
        return "NULL" if kind.id == "NULL" else f"CAST(NULL AS {name})"
    if kind.id == "BOOLEAN":
        return "TRUE" if value else "FALSE"
    if kind.id in NANOSECONDS:
        return _whole(int(value), "BIGINT")
    if kind.id in WHOLE:
        if kind.id == "HUGEINT" and abs(value) >= 10**38:
            raise Unwritable("a whole number of more than 38 digits")
        return _whole(int(value), name)
    if kind.is_decimal:
        return f"CAST('{Decimal(value).scaleb(-kind.scale):f}' AS {name})"
    if kind.id in FLOATS:
        number = float(value)
        text = repr(number) if math.isfinite(number) else str(number)
        return f"CAST('{text}' AS {name})"
    if kind.id == "VARCHAR":
        return text_constant(str(value))
    if kind.id == "BLOB":
        return f"X'{_bytes(str(value)).hex()}'"
    if kind.id == "DATE":
        try:
            return f"DATE '{(_EPOCH + datetime.timedelta(days=value)).date().isoformat()}'"
        except OverflowError:
            raise Unwritable("a day before the year 1 or after 9999, or without an end") from None
    if kind.id in PLAIN_TIMES:
        return f"TIMESTAMP_NTZ '{moment(kind, value).isoformat(' ')}'"
    if kind.id == ZONED:
        return f"TIMESTAMP '{moment(kind, value).isoformat(' ')}+00:00'"
    if kind.id == "INTERVAL":
        if value["months"]:
            raise Unwritable("an interval of months, which are of different lengths, as a value")
        return f"make_dt_interval({value['days']}, 0, 0, {seconds(value['micros'])})"
    if kind.id == "LIST" and kind.child is not None:
        inner = [spark_constant(kind.child, None if each["is_null"] else each["value"]) for each in value["children"]]
        return f"CAST(array({', '.join(inner)}) AS {name})"
    raise Unwritable(f"a constant of type {kind.name}")


def text_constant(text: str) -> str:
    """A text as Spark writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    escaped = escaped.replace("$", "\\u0024")  # else Spark would put its settings into ${...}
    if "\x00" in escaped:
        raise Unwritable("a text with a zero byte")
    return f"'{escaped}'"


def seconds(micros: int) -> str:
    """Microseconds as a number of seconds, with the point."""
    return f"CAST('{Decimal(micros).scaleb(-6):f}' AS DECIMAL(18,6))"


def _bytes(text: str) -> bytes:
    """Bytes as DuckDB writes them: as characters, or as two digits behind a backslash and an x."""
    return re.sub(r"\\x([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text).encode("latin-1")


def _whole(value: int, name: str) -> str:
    return f"CAST('{value}' AS {name})"


def condition_constant(kind: Type, value: Any) -> str:
    """A constant as conditions of a stream write it. Raises :class:`Unwritable`."""
    if value is None:
        raise Unwritable("nothing")
    if kind.id == "BOOLEAN":
        return "TRUE" if value else "FALSE"
    if kind.id in WHOLE:
        return str(value)
    if kind.is_decimal:
        return f"CAST('{Decimal(value).scaleb(-kind.scale):f}' AS DECIMAL({kind.width}, {kind.scale}))"
    if kind.id in FLOATS:
        number = float(value)
        text = repr(number) if math.isfinite(number) else str(number)
        return f"CAST('{text}' AS {kind.id})"
    if kind.id == "VARCHAR" and "\x00" not in value:
        return "'" + str(value).replace("'", "''") + "'"
    if kind.id == "DATE":
        return f"DATE '{(_EPOCH + datetime.timedelta(days=value)).date().isoformat()}'"
    if kind.id in PLAIN_TIMES:
        return f"TIMESTAMP '{moment(kind, value).isoformat(' ')}'"
    if kind.id == ZONED:
        return f"TIMESTAMPTZ '{moment(kind, value).isoformat(' ')}+00'"
    if kind.id == "TIMESTAMP_NS":
        whole = moment(Type("TIMESTAMP"), value // 1_000_000_000 * _SECOND)
        return f"CAST('{whole.isoformat(' ')}.{value % 1_000_000_000:09d}' AS TIMESTAMP_NS)"
    raise Unwritable(kind.name)

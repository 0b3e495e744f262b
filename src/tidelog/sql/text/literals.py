"""Values of Python as constants of SQL."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.model.arguments import found
from tidelog.model.errors import InputError
from tidelog.model.scalars import python_value


def literal(value: Any) -> str:
    """A value as a constant. Raises :class:`InputError` for what has none."""
    if value is None or _is_missing(value):
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(value) + ("" if "e" in repr(value) else "e0") if math.isfinite(value) else f"'{value}'::DOUBLE"
    if isinstance(value, str):
        parts = [_text(part) for part in value.split("\0")]  # which no text of SQL can have
        return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"
    if isinstance(value, bytes | bytearray | memoryview):
        return "'" + "".join(f"\\x{each:02X}" for each in bytes(value)) + "'::BLOB"
    if isinstance(value, np.datetime64):
        return _numpy_time(value)
    if isinstance(value, pa.TimestampScalar) and value.type.unit == "ns":
        text = _numpy_time(np.datetime64(value.value, "ns"))
        return text if value.type.tz is None else f"{text[:-1]}+00'".replace("TIMESTAMP_NS", "TIMESTAMPTZ_NS", 1)
    if isinstance(value, datetime.datetime):
        kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
        digits = "_NS" if getattr(value, "nanosecond", 0) else ""  # of pandas
        return f"{kind}{digits} '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime.time):
        return f"{'TIME' if value.utcoffset() is None else 'TIMETZ'} '{value.isoformat()}'"
    if isinstance(value, np.timedelta64) and np.datetime_data(value)[0] not in ("Y", "M", "generic"):
        if value.astype("m8[us]") != value:
            raise found("a parameter", value, "a length of time in whole microseconds")
        return f"INTERVAL '{value.astype('m8[us]').astype(int)} microseconds'"
    if isinstance(value, datetime.timedelta):
        if getattr(value, "nanoseconds", 0):  # of pandas
            raise found("a parameter", value, "a length of time in whole microseconds")
        micros = value // datetime.timedelta(microseconds=1)
        return f"INTERVAL '{micros} microseconds'"
    if isinstance(value, Decimal) and value.is_finite():
        return f"'{value:f}'::DECIMAL({_precision(value)})"
    if isinstance(value, uuid.UUID):
        return f"'{value}'::UUID"
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, Mapping) and value and all(isinstance(name, str) for name in value):
        members = (f"{_text(name)}: {literal(each)}" for name, each in value.items())
        return "{" + ", ".join(members) + "}"
    if hasattr(value, "as_py"):
        return literal(python_value(value))
    if hasattr(value, "__array__"):  # of NumPy, pandas, Polars, Arrow
        dimensions = np.ndim(value)
        if dimensions == 0 and hasattr(value, "item"):
            return literal(value.item())
        if dimensions == 1 or isinstance(value, np.ndarray):
            return "[" + ", ".join(map(literal, value)) + "]"
    raise found("a parameter", value, "a number, a text, a time, a list of such, or None")


def _is_missing(value: Any) -> bool:
    """Whether it is what pandas and NumPy have for no value."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NaTType", "NAType")


def _numpy_time(value: np.datetime64) -> str:
    unit = np.datetime_data(value)[0]
    if unit in ("ps", "fs", "as"):
        raise found("a parameter", value, "a time in whole nanoseconds")
    kind = "TIMESTAMP_NS" if unit == "ns" else "DATE" if unit in ("D", "W", "M", "Y") else "TIMESTAMP"
    exact = value if unit == "ns" else value.astype("M8[D]" if kind == "DATE" else "M8[us]")
    return f"{kind} '{str(exact).replace('T', ' ')}'"


def _text(value: str) -> str:
    if re.search(r"[\0\ud800-\udfff]", value):
        raise found("a parameter", value, "a text of Unicode characters other than \\0")
    return "'" + value.replace("'", "''") + "'"


def _precision(value: Decimal) -> str:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    return f"{max(len(digits) + max(0, int(exponent)), scale, 1)}, {scale}"


def parameters(params: Any, names: Sequence[str]) -> dict[str, Any]:
    """The values of parameters by their names in a text, in which ``?`` counts from ``1``.

    Raises :class:`InputError` if some are missing or too many.
    """
    if params is None:
        given: dict[str, Any] = {}
    elif isinstance(params, Mapping):
        given = {str(name).removeprefix("$"): value for name, value in params.items()}
    elif isinstance(params, str | bytes) or not isinstance(params, Sequence):
        raise found("params", params, "a list for ?, or a dict for $name")
    else:
        given = {str(index): value for index, value in enumerate(params, 1)}
    if len({name.isdecimal() for name in names}) > 1:
        raise InputError("found both ? and $name in a statement; expected one of them")
    by_lower = {name.lower(): value for name, value in given.items()}
    wanted = {name: name.lower() for name in names}
    missing = [name for name, lower in wanted.items() if lower not in by_lower]
    spare = sorted(set(by_lower) - set(wanted.values()))
    if missing or spare:
        has = ", ".join(_shown(name) for name in given) or "none"
        needs = ", ".join(_shown(name) for name in names) or "none"
        raise InputError(f"found parameters {has}; expected those of the statement, {needs}")
    return {name: by_lower[lower] for name, lower in wanted.items()}


def _shown(name: str) -> str:
    return f"${name}" if not re.fullmatch(r"\d+", name) else f"number {name}"

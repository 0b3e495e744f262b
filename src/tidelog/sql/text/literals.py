"""Values of Python as constants of SQL."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tidelog.model.arguments import found
from tidelog.model.errors import InputError
from tidelog.model.scalars import python_value


def literal(value: Any) -> str:
    """A value as a constant. Raises :class:`InputError` for what has none."""
    if value is None:
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
    if isinstance(value, datetime.datetime):
        kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
        return f"{kind} '{value.isoformat(' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, datetime.time):
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, datetime.timedelta):
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
    if hasattr(value, "item"):
        return literal(value.item())
    raise found("a parameter", value, "a number, a text, a time, a list of such, or None")


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

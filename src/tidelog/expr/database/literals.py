"""Strings that stand for values of other types: those of times in their usual form without DuckDB, the rest by it."""

from __future__ import annotations

import re
from datetime import datetime

import pyarrow as pa

from tidelog.expr.database import binding
from tidelog.expr.database.connection import connection
from tidelog.expr.errors import EvaluationError
from tidelog.expr.values.types import DATE, VARCHAR, is_instant, sql_name

_USUAL = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.(\d{1,6}))?)?))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def read(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Strings as values of a type. Raises :class:`EvaluationError`."""
    if type_ == VARCHAR:
        return texts
    if is_instant(type_):
        usual = [_usual(text, type_) for text in texts.to_pylist()]
        if None not in usual:
            return pa.array(usual, pa.int32() if type_ == DATE else pa.int64()).cast(type_)
    try:
        return converted(texts, type_)
    except EvaluationError:
        failed = texts.filter(converted(texts, type_, lenient=True).is_null())
        shown = failed[0].as_py() if len(failed) else texts[0].as_py()
        raise EvaluationError(f"{shown!r} cannot be read as {sql_name(type_)}") from None


def converted(array: pa.Array, type_: pa.DataType, *, lenient: bool = False) -> pa.Array:
    """Values as those of another type. Raises :class:`EvaluationError`."""
    import duckdb

    text = f"{'TRY_CAST' if lenient else 'CAST'}(c0 AS {sql_name(type_)})"
    schema = pa.schema([("c0", array.type)])
    try:
        with connection() as own:
            return own.prepared(text, schema, sql_name(array.type)).values(pa.table([array], schema=schema))
    except (duckdb.Error, RuntimeError) as error:
        raise binding.failed(error) from None


def _usual(text: str, type_: pa.DataType) -> int | None:
    """Days or ticks since 1970 of a date, or a date and a time, in the form that most people write."""
    found = _USUAL.fullmatch(text)
    if found is None or len(found[3] or "") > (6 if type_ == DATE else _DIGITS[type_.unit]):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    since = moment - _EPOCH
    if type_ == DATE:
        return since.days
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    digits = _DIGITS[type_.unit]
    return micros * 1000 if digits == 9 else micros // 10 ** (6 - digits)

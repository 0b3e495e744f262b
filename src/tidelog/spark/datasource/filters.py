"""Filters that Spark offers to a source, as bounds of time and a condition for the store.

A filter is taken only if the store's answer equals Spark's for every row; others go back to Spark, which then applies
them itself. The two agree on what matters: NULL is never true, NaN equals itself and is above everything, -0.0 equals
0.0, text and binary compare by bytes. Where a stored value is not the value that Spark sees (nanoseconds cut or
counted, days of date64), a filter goes back, unless it bounds the time column: those bounds are exact for all clocks.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import datasource as spark

from tidelog.model.schema import SEQUENCE_COLUMN, Schema
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.model.times.interval import ALL_TIME, Interval
from tidelog.spark.datasource.types import NsRule

MOST_MEMBERS: Final = 1000
"""A longer list of IN goes back to Spark: it would take longer to read than it saves."""

NO_TIME: Final = Interval(0, 0)
"""No instant at all."""

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

_ROUNDED_DIGITS = 28
"""PySpark computes decimals on their way here under Python's usual precision, which rounds longer ones."""

_OPERATORS: dict[type[spark.Filter], str] = {
    spark.EqualTo: "=",
    spark.GreaterThan: ">",
    spark.GreaterThanOrEqual: ">=",
    spark.LessThan: "<",
    spark.LessThanOrEqual: "<=",
    spark.EqualNullSafe: "IS NOT DISTINCT FROM",
}

_TEXT_FUNCTIONS: dict[type[spark.Filter], str] = {
    spark.StringStartsWith: "starts_with",
    spark.StringEndsWith: "ends_with",
    spark.StringContains: "contains",
}

_TICKS_TO_MICROSECONDS: dict[str, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class Taken:
    """What the filters that were taken say, all of them together."""

    interval: Interval = ALL_TIME
    """Event times, in ticks of the stream's clock."""
    conditions: tuple[str, ...] = ()
    """SQL conditions over the stored columns, of which all must hold."""

    @property
    def where(self) -> str | None:
        """The conditions as one text; None if there are none."""
        return " AND ".join(f"({each})" for each in self.conditions) or None


def translate(
    filters: Iterable[spark.Filter], schema: Schema, ns: NsRule = "error"
) -> tuple[Taken, list[spark.Filter]]:
    """What of ``filters`` (of which all must hold) the store can answer, and those that Spark must apply itself."""
    interval = ALL_TIME
    conditions: list[str] = []
    left: list[spark.Filter] = []
    for each in filters:
        bounds, is_exact = _bounds(each, schema, ns)
        interval = interval.intersect(bounds)
        if is_exact:
            continue
        condition = _condition(each, schema)
        if condition is None:
            left.append(each)
        else:
            conditions.append(condition)
    return Taken(NO_TIME if interval.is_empty else interval, tuple(conditions)), left


# -- event time -------------------------------------------------------------------------------------------------------


def _bounds(found: spark.Filter, schema: Schema, ns: NsRule) -> tuple[Interval, bool]:
    """Between which ticks the rows are that pass a filter, and whether those are all that is between them."""
    if getattr(found, "attribute", None) != (schema.time,):
        return ALL_TIME, False
    if isinstance(found, spark.IsNotNull):
        return ALL_TIME, True  # event times are never null
    values = _values(found)
    counts = [_count(value, schema.time_type, ns) for value in values]
    known = [count for count in counts if count is not None]
    if not values or len(known) < len(values):
        return ALL_TIME, False
    first = _first_tick(schema.time_type, ns)
    low, high = min(known), max(known)
    if isinstance(found, spark.EqualTo | spark.EqualNullSafe | spark.In):
        return _interval(first(low), first(high + 1)), low == high
    if isinstance(found, spark.GreaterThan | spark.GreaterThanOrEqual):
        return _interval(first(low + isinstance(found, spark.GreaterThan)), None), True
    if isinstance(found, spark.LessThan | spark.LessThanOrEqual):
        return _interval(None, first(low + isinstance(found, spark.LessThanOrEqual))), True
    return ALL_TIME, False


def _values(found: spark.Filter) -> tuple[Any, ...]:
    """What a filter compares with; nothing for those that do not compare."""
    if isinstance(found, spark.In):
        return tuple(value for value in found.value if value is not None)
    return (found.value,) if hasattr(found, "value") else ()


def _count(value: Any, type_: pa.DataType, ns: NsRule) -> int | None:
    """A point in time as the number that Spark has for it: microseconds, or ticks of a column of integers."""
    if _is_counted(type_, ns):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    return _microseconds(value, type_)


def _is_counted(type_: pa.DataType, ns: NsRule) -> bool:
    """Whether times of a stored type are plain numbers in Spark."""
    return not pa.types.is_timestamp(type_) or (type_.unit == "ns" and ns == "long")


def _microseconds(value: Any, type_: pa.DataType) -> int | None:
    """A datetime since the epoch, if it is of the kind that Spark has for a column."""
    if not isinstance(value, datetime.datetime) or (value.tzinfo is None) != (type_.tz is None):
        return None
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND


def _first_tick(type_: pa.DataType, ns: NsRule) -> Callable[[int], int]:
    """What gives the first tick whose number in Spark is at least a given one; numbers never fall as ticks rise."""
    if _is_counted(type_, ns):
        return lambda count: count
    if type_.unit == "ns":
        return lambda count: count * 1000
    factor = _TICKS_TO_MICROSECONDS[type_.unit]
    return lambda count: -(-count // factor)


def _interval(low: int | None, high: int | None) -> Interval:
    """An interval of 64-bit ticks: bounds behind their ends bound nothing, or leave nothing."""
    if (low is not None and low > INT64_MAX) or (high is not None and high <= INT64_MIN):
        return NO_TIME
    return Interval(
        None if low is None or low <= INT64_MIN else low, None if high is None or high > INT64_MAX else high
    )


# -- conditions -------------------------------------------------------------------------------------------------------


def _condition(found: spark.Filter, schema: Schema) -> str | None:
    """The SQL text of a filter; None if it says something that the store would answer differently."""
    if isinstance(found, spark.Not):
        inner = _condition(found.child, schema)
        return None if inner is None else f"NOT ({inner})"
    path: tuple[str, ...] = getattr(found, "attribute", ())
    if len(path) != 1:
        return None
    name = path[0]
    if name != SEQUENCE_COLUMN and name not in schema:
        return None
    column = quoted(name)
    if isinstance(found, spark.IsNull):
        return f"{column} IS NULL"
    if isinstance(found, spark.IsNotNull):
        return f"{column} IS NOT NULL"
    type_ = pa.int64() if name == SEQUENCE_COLUMN else schema.field(name).type
    if isinstance(found, spark.In):
        return _member(column, found.value, type_)
    function = _TEXT_FUNCTIONS.get(type(found))
    operator = _OPERATORS.get(type(found))
    value: Any = getattr(found, "value", None)
    if isinstance(found, spark.EqualNullSafe) and value is None:
        return f"{column} IS NULL"
    constant = literal(value, type_)
    if constant is None:
        return None
    if function is not None:
        return f"{function}({column}, {constant})" if isinstance(value, str) else None
    return None if operator is None else f"{column} {operator} {constant}"


def _member(column: str, values: Sequence[Any], type_: pa.DataType) -> str | None:
    if not 0 < len(values) <= MOST_MEMBERS:
        return None
    members = ["NULL" if value is None else literal(value, type_) for value in values]
    known = [member for member in members if member is not None]
    return f"{column} IN ({', '.join(known)})" if len(known) == len(members) else None


def quoted(name: str) -> str:
    """A column's name as it stands in a condition."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any, type_: pa.DataType) -> str | None:
    """A value as a constant of the SQL type that a stored column has; None if there is none that is equal to it."""
    if pa.types.is_boolean(type_):
        return str(value).upper() if isinstance(value, bool) else None
    if pa.types.is_integer(type_):
        return _integer(value)
    if pa.types.is_floating(type_):
        return _float(value, type_)
    if pa.types.is_decimal(type_):
        return _decimal(value, type_)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else None
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return f"unhex('{bytes(value).hex()}')" if isinstance(value, bytes | bytearray) else None
    if type_ == pa.date32():
        is_date = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
        return f"CAST('{value.isoformat()}' AS DATE)" if is_date else None
    if pa.types.is_timestamp(type_) and type_.unit != "ns":
        return _timestamp(value, type_)
    return None


def _integer(value: Any) -> str | None:
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return str(int(value))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _float(value: Any, type_: pa.DataType) -> str | None:
    if not isinstance(value, float):
        return None
    narrow = type_ == pa.float32()
    with np.errstate(over="ignore"):
        if narrow and not math.isnan(value) and float(np.float32(value)) != value:
            return None
    text = repr(value)
    if not math.isfinite(value):
        return f"CAST('{text}' AS {'FLOAT' if narrow else 'DOUBLE'})"
    text = text if "e" in text else text + "e0"
    return f"CAST({text} AS FLOAT)" if narrow else text


def _decimal(value: Any, type_: pa.DataType) -> str | None:
    if not isinstance(value, Decimal) or len(value.as_tuple().digits) >= _ROUNDED_DIGITS:
        return None
    try:
        pa.scalar(value, type_)
    except pa.ArrowInvalid:
        return None  # has more digits than the column
    return f"CAST('{value:f}' AS DECIMAL({type_.precision},{type_.scale}))"


def _timestamp(value: Any, type_: pa.DataType) -> str | None:
    if _microseconds(value, type_) is None:
        return None
    if type_.tz is None:
        return f"CAST('{value.isoformat(' ')}' AS TIMESTAMP)"
    in_utc = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return f"CAST('{in_utc.isoformat(' ')}+00' AS TIMESTAMPTZ)"

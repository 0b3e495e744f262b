"""Functions of times, as Spark SQL with DuckDB's meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.spark.sql.expressions import times
from tidelog.spark.sql.expressions.calls import Call, Functions
from tidelog.spark.sql.expressions.casts import rounded_thousandth
from tidelog.spark.sql.expressions.constants import text_constant
from tidelog.spark.sql.types import (
    NANOSECONDS,
    PLAIN_TIMES,
    ZONED,
    Unwritable,
)

FUNCTIONS: Final = Functions()


def _clocks(call: Call, place: int = 0) -> str:
    """A time as clocks show it in the zone of the statement."""
    argument = call.arguments[place]
    if argument.type.id == ZONED:
        return times.local(argument.text, call.zone)
    if argument.type.id in PLAIN_TIMES or argument.type.id == "DATE":
        return argument.text
    raise call.refuse()


_PARTS: Final[Mapping[str, str]] = {
    "year": "year({x})",
    "month": "month({x})",
    "day": "day({x})",
    "dayofmonth": "day({x})",
    "hour": "hour({x})",
    "minute": "minute({x})",
    "second": "second({x})",
    "quarter": "quarter({x})",
    "dayofweek": "(dayofweek({x}) - 1)",
    "weekday": "(dayofweek({x}) - 1)",
    "isodow": "(weekday({x}) + 1)",
    "dayofyear": "dayofyear({x})",
    "week": "weekofyear({x})",
    "weekofyear": "weekofyear({x})",
    "isoyear": "extract(YEAROFWEEK FROM {x})",
    "yearweek": "(extract(YEAROFWEEK FROM {x}) * 100 + weekofyear({x}))",
    "millisecond": "CAST(floor(extract(SECOND FROM {x}) * 1000) AS BIGINT)",
    "microsecond": "CAST(extract(SECOND FROM {x}) * 1000000 AS BIGINT)",
}
_OF_TIMES_ONLY: Final = frozenset({"hour", "minute", "second", "millisecond", "microsecond"})


@FUNCTIONS.named(*_PARTS)
def _part(call: Call) -> str:
    x = _clocks(call)
    if call.kinds[0] == "DATE" and call.name in _OF_TIMES_ONLY:
        x = f"CAST({x} AS TIMESTAMP_NTZ)"
    return f"CAST({_PARTS[call.name].format(x=x)} AS BIGINT)"


def _count(call: Call) -> str:
    """The microseconds of a time since 1970, or of a length of time."""
    kind = call.kinds[0]
    if kind == "INTERVAL" and not call.arguments[0].is_constant:
        return times.micros(f"(timestamp_micros(0) + {call.texts[0]})", zoned=True)
    if kind == ZONED:
        return times.micros(call.texts[0], zoned=True)
    if kind in PLAIN_TIMES or kind == "DATE":
        return times.micros(call.texts[0])
    raise call.refuse()


@FUNCTIONS.named("epoch")
def _epoch(call: Call) -> str:
    count = _count(call)
    if call.kinds[0] == ZONED:  # computed in two steps, which shows in the last digit
        whole, rest = times.floored(count, 1000), f"pmod({count}, 1000L)"
        return f"(CAST({whole} AS DOUBLE) / 1E3D + CAST({rest} AS DOUBLE) / 1E6D)"
    return f"(CAST({count} AS DOUBLE) / 1E6D)"


@FUNCTIONS.named("epoch_us", "epoch_ms", "epoch_ns")
def _epochs(call: Call) -> str:
    if call.name == "epoch_ns":
        return call.texts[0] if call.kinds[0] in NANOSECONDS else f"({_count(call)} * 1000L)"
    return _count(call) if call.name == "epoch_us" else rounded_thousandth(_count(call), call.tools)


@FUNCTIONS.named("date_trunc", "datetrunc")
def _date_trunc(call: Call) -> str:
    unit = str(call.constant(0, "a unit"))
    one = call.arguments[1]
    if one.type.id == "DATE":
        found = times.truncated(unit, f"CAST({one.text} AS TIMESTAMP_NTZ)", None)
    elif one.type.id in PLAIN_TIMES:
        found = times.truncated(unit, one.text, None)
    elif one.type.id == ZONED:
        found = call.let(one.text, lambda x: times.truncated(unit, x, call.zone))
    else:
        raise call.refuse()
    return f"CAST({found} AS DATE)" if call.type.id == "DATE" else found


@FUNCTIONS.named("time_bucket")
def _time_bucket(call: Call) -> str:
    width = call.constant(0, "a width")
    time = call.arguments[1]
    if time.type.id not in (*PLAIN_TIMES, ZONED, "DATE"):
        raise call.refuse()
    is_zoned = time.type.id == ZONED
    text = time.text if time.type.id == "TIMESTAMP" else f"CAST({time.text} AS TIMESTAMP_NTZ)"
    more = call.arguments[2] if len(call.arguments) > 2 else None
    if more is None:
        found = call.let(text, lambda x: times.bucket(width, x))
    elif more.type.id == "VARCHAR" and is_zoned:
        zone = str(call.constant(2, "a zone"))
        return call.let(time.text, lambda x: times.zoned_bucket(width, x, zone))
    elif more.type.id == "INTERVAL":
        by = call.constant(2, "an offset")
        found = call.let(
            times.shifted(text, by, -1, None), lambda x: times.shifted(times.bucket(width, x), by, 1, None)
        )
    elif more.type.id in ("TIMESTAMP", ZONED):
        origin = int(call.constant(2, "an origin"))
        found = call.let(text, lambda x: times.bucket(width, x, origin))
    else:
        raise call.refuse()
    if is_zoned:
        return f"CAST({found} AS TIMESTAMP)"
    return f"CAST({found} AS DATE)" if call.type.id == "DATE" else found


@FUNCTIONS.named("timezone")
def _timezone(call: Call) -> str:
    zone = str(call.constant(0, "a zone"))
    one = call.arguments[1]
    if one.type.id == ZONED:
        return times.local(one.text, zone)
    if one.type.id in PLAIN_TIMES:
        return call.let(one.text, lambda x: times.instant(x, zone))
    raise call.refuse()


@FUNCTIONS.named("date_diff", "datediff")
def _date_diff(call: Call) -> str:
    """How many beginnings of a unit there are between two times."""
    unit = times.unit_of(str(call.constant(0, "a unit")))
    if call.kinds[1] != call.kinds[2]:
        raise call.refuse()
    zoned = call.kinds[1] == ZONED
    if zoned and unit in ("minute", "hour") and not times.is_utc(call.zone):
        raise Unwritable(f"date_diff of {unit}s in a time zone, where they need not begin with those of UTC")
    if unit == "week":  # which DuckDB counts from the first time on
        return f"CAST(datediff({_clocks(call, 2)}, {_clocks(call, 1)}) div 7 AS BIGINT)"
    ends = [call.let(_clocks(call, at), lambda x: times.number_of(unit, x)) for at in (2, 1)]
    if zoned and unit in times.UNITS:
        ends = [times.number_of(unit, f"CAST({call.texts[at]} AS TIMESTAMP_NTZ)") for at in (2, 1)]
    return f"CAST({ends[0]} - {ends[1]} AS BIGINT)"


@FUNCTIONS.named("strftime")
def _strftime(call: Call) -> str:
    place = 1 if call.kinds[0] == "VARCHAR" else 0
    form = str(call.constant(1 - place, "a format"))
    x = _clocks(call, place)
    return (
        f"date_format(CAST({x} AS TIMESTAMP), {text_constant(times.pattern(form))})"
        if form
        else f"if({x} IS NULL, NULL, '')"
    )


@FUNCTIONS.named("to_microseconds")
def _to_microseconds(call: Call) -> str:
    call.expect("BIGINT")
    return f"make_dt_interval(0, 0, 0, CAST(CAST({call.texts[0]} AS DECIMAL(20, 0)) / 1000000 AS DECIMAL(18, 6)))"


@FUNCTIONS.named("generate_series")
def _generate_series(call: Call) -> str:
    """Times from one to another, both of them included; Spark itself refuses steps that lead away."""
    if call.kinds not in ([ZONED, ZONED, "INTERVAL"], *([each, each, "INTERVAL"] for each in PLAIN_TIMES)):
        raise call.refuse()
    low, high, step = call.texts
    return f"CASE WHEN {low} <= {high} THEN sequence({low}, {high}, {step}) WHEN {low} > {high} THEN array() END"

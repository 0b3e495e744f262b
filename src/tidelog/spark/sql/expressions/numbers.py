"""Operators and functions of numbers, as Spark SQL with DuckDB's meaning."""

from __future__ import annotations

from typing import Final

from tidelog.spark.sql.expressions import times
from tidelog.spark.sql.expressions.calls import Argument, Call, Functions
from tidelog.spark.sql.expressions.casts import checked
from tidelog.spark.sql.types import (
    FLOATS,
    INTEGERS,
    PLAIN_TIMES,
    UNSIGNED,
    WHOLE,
    ZONED,
    Unwritable,
)

FUNCTIONS: Final = Functions()


def _fits(call: Call, text: str) -> str:
    """The result of whole numbers, as one of its type: Spark has wider ones for those without a sign."""
    if call.type.id in UNSIGNED:
        return checked(text, call.type, call.tools)
    if call.type.id == "HUGEINT":
        return f"CAST({text} AS DECIMAL(38,0))"
    return text


def _of_decimals(call: Call, sign: str) -> str:
    one, other = (each.type for each in call.arguments)
    if sign == "*":
        digits = one.width + other.width + 1
    else:
        digits = max(one.scale, other.scale) + max(one.width - one.scale, other.width - other.scale) + 1
    if digits > 38 and (one.scale or other.scale):
        raise Unwritable(f"{sign} of {one.name} and {other.name}, whose result has more than 38 digits")
    return f"CAST({call.texts[0]} {sign} {call.texts[1]} AS {call.type.spark})"


def _plain(call: Call, sign: str) -> str | None:
    """A sign between numbers of one kind."""
    one, other = call.arguments
    if call.type.id in WHOLE and one.type == other.type == call.type:
        return _fits(call, f"({one.text} {sign} {other.text})")
    if call.type.id in FLOATS and one.type == other.type == call.type:
        return f"({one.text} {sign} {other.text})"
    if call.type.is_decimal and one.type.is_decimal and other.type.is_decimal:
        return _of_decimals(call, sign)
    return None


def _shifted(call: Call, time: Argument, by: Argument, sign: int) -> str:
    zone = call.zone if time.type.id == ZONED else None
    text = f"CAST({time.text} AS TIMESTAMP_NTZ)" if time.type.id == "DATE" else time.text
    if by.is_constant and by.value is not None:
        return call.let(text, lambda x: times.shifted(x, by.value, sign, zone))
    if zone is not None and not times.is_utc(zone):
        raise Unwritable("an interval that is computed, beside a time of a zone")
    return f"({text} {'+' if sign > 0 else '-'} {by.text})"


_TIMES: Final = frozenset({*PLAIN_TIMES, ZONED, "DATE"})


@FUNCTIONS.named("+", "add")
def _add(call: Call) -> str:
    if len(call.arguments) == 1:
        return call.texts[0]
    one, other = call.arguments
    found = _plain(call, "+")
    if found is not None:
        return found
    if one.type.id == "INTERVAL" and other.type.id in _TIMES:
        one, other = other, one
    if other.type.id == "INTERVAL" and one.type.id in _TIMES:
        return _shifted(call, one, other, 1)
    if one.type.id in INTEGERS and other.type.id == "DATE":
        one, other = other, one
    if one.type.id == "DATE" and other.type.id in INTEGERS:
        return f"date_add({one.text}, {other.text})"
    raise call.refuse()


@FUNCTIONS.named("-", "subtract")
def _subtract(call: Call) -> str:
    if len(call.arguments) == 1:
        if call.type.id in INTEGERS or call.type.id in FLOATS or call.type.is_decimal or call.type.id == "HUGEINT":
            return f"(- {call.texts[0]})"
        raise call.refuse()
    one, other = call.arguments
    found = _plain(call, "-")
    if found is not None:
        return found
    if other.type.id == "INTERVAL" and one.type.id in _TIMES:
        return _shifted(call, one, other, -1)
    if one.type.id == other.type.id == "DATE":
        return f"CAST(datediff({one.text}, {other.text}) AS BIGINT)"
    if one.type.id == "DATE" and other.type.id in INTEGERS:
        return f"date_sub({one.text}, {other.text})"
    if one.type.id == other.type.id and one.type.id in _TIMES:
        if one.type.id == ZONED and not times.is_utc(call.zone):
            return times.difference(one.text, other.text, call.zone, call.let)
        return f"({one.text} - {other.text})"
    raise call.refuse()


@FUNCTIONS.named("*", "multiply")
def _multiply(call: Call) -> str:
    found = _plain(call, "*")
    if found is None:
        raise call.refuse()
    return found


@FUNCTIONS.named("/", "divide")
def _divide(call: Call) -> str:
    """Division of floats, by zero too: infinite, or no number."""
    one, other = call.arguments
    if call.type.id not in FLOATS or not one.type == other.type == call.type:
        raise call.refuse()
    if other.is_constant and other.value:
        found = f"({one.text} / {other.text})"
    else:
        found = call.let(
            one.text,
            lambda a: call.let(
                other.text, lambda b: f"CASE WHEN {b} = 0 THEN {a} * power({b}, -1D) ELSE {a} / {b} END"
            ),
        )
    return f"CAST({found} AS FLOAT)" if call.type.id == "FLOAT" else found


@FUNCTIONS.named("//")
def _divide_whole(call: Call) -> str:
    if call.type.id in FLOATS:
        return _divide(call)
    one, other = call.arguments
    if call.type.id not in WHOLE or not one.type == other.type == call.type:
        raise call.refuse()
    return f"CAST(({one.text} div {other.text}) AS {call.type.spark})"


@FUNCTIONS.named("%", "mod")
def _modulo(call: Call) -> str:
    one, other = call.arguments
    if call.type.id in FLOATS and one.type == other.type == call.type:
        nothing = f"CAST('NaN' AS {call.type.spark})"
        if other.is_constant and other.value:
            return f"({one.text} % {other.text})"
        return call.let(
            other.text,
            lambda b: (
                f"CASE WHEN {b} = 0 THEN CASE WHEN {one.text} IS NOT NULL THEN {nothing} END ELSE {one.text} % {b} END"
            ),
        )
    if call.type.id in WHOLE and one.type == other.type == call.type:
        return f"CAST({one.text} % {other.text} AS {call.type.spark})"
    raise call.refuse()


@FUNCTIONS.named("abs", "@")
def _abs(call: Call) -> str:
    if call.type.id in UNSIGNED:
        return call.texts[0]
    if call.type.id in WHOLE or call.type.id in FLOATS or call.type.is_decimal:
        return f"abs({call.texts[0]})"
    raise call.refuse()


@FUNCTIONS.named("round")
def _round(call: Call) -> str:
    one = call.arguments[0]
    digits = int(call.constant(1, "digits")) if len(call.arguments) > 1 else 0
    if one.type.is_decimal or one.type.id in INTEGERS:
        return f"CAST(round({one.text}, {digits}) AS {call.type.spark})"
    if one.type.id != "DOUBLE":
        raise call.refuse()

    def body(x: str) -> str:
        scale = f"1E{abs(digits)}D"
        up, down = ("*", "/") if digits >= 0 else ("/", "*")
        result = f"(round({x} {up} {scale}) {down} {scale})" if digits else f"round({x})"
        return call.let(result, lambda r: f"CASE WHEN isnan({r}) OR abs({r}) = double('inf') THEN {x} ELSE {r} END")

    return call.let(one.text, body)


@FUNCTIONS.named("floor", "ceil", "ceiling")
def _floor(call: Call) -> str:
    name = "floor" if call.name == "floor" else "ceil"
    one = call.arguments[0]
    if one.type.id in FLOATS:
        return call.let(
            one.text,
            lambda x: f"CASE WHEN abs({x}) < 1E15D THEN CAST({name}({x}) AS {call.type.spark}) ELSE {x} END",
        )
    if one.type.is_decimal:
        return f"CAST({name}({one.text}) AS {call.type.spark})"
    raise call.refuse()


@FUNCTIONS.named("sqrt", "ln", "log10", "log2", "exp", "power", "pow", "sin", "cos", "tan", "atan", "atan2")
def _real(call: Call) -> str:
    call.expect(*["DOUBLE"] * len(call.arguments))
    name = {"pow": "power"}.get(call.name, call.name)
    if name in ("ln", "log10", "log2"):
        nothing, least = "double('NaN')", "double('-Infinity')"
        body = f"CASE WHEN {{x}} < 0 THEN {nothing} WHEN {{x}} = 0 THEN {least} ELSE {name}({{x}}) END"
        return call.let(call.texts[0], lambda x: body.format(x=x))
    return f"{name}({', '.join(call.texts)})"


@FUNCTIONS.named("sign")
def _sign(call: Call) -> str:
    if call.arguments[0].type.id not in FLOATS and call.arguments[0].type.id not in INTEGERS:
        raise call.refuse()
    return call.let(
        call.texts[0],
        lambda x: (
            f"CAST(CASE WHEN {x} IS NULL THEN NULL WHEN {x} = 0 OR isnan({x}) THEN 0 WHEN {x} > 0 THEN 1 "
            f"ELSE -1 END AS {call.type.spark})"
        ),
    )


@FUNCTIONS.named("isnan")
def _isnan(call: Call) -> str:
    return f"CASE WHEN {call.texts[0]} IS NOT NULL THEN isnan({call.texts[0]}) END"


@FUNCTIONS.named("isinf", "isfinite")
def _isinf(call: Call) -> str:
    if call.kinds[0] not in FLOATS:
        raise call.refuse()
    body = "abs({x}) = double('inf')" if call.name == "isinf" else "NOT (abs({x}) = double('inf') OR isnan({x}))"
    return call.let(call.texts[0], lambda x: f"CASE WHEN {x} IS NOT NULL THEN {body.format(x=x)} END")


@FUNCTIONS.named("greatest", "least")
def _greatest(call: Call) -> str:
    if any(each.type != call.type for each in call.arguments) or call.type.id in ("LIST", "STRUCT", "INTERVAL"):
        raise call.refuse()
    return call.texts[0] if len(call.arguments) == 1 else f"{call.name}({', '.join(call.texts)})"

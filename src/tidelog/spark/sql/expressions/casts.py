"""Casts with DuckDB's meaning: numbers are rounded, not cut; what does not fit is an error, or null for TRY_CAST."""

from __future__ import annotations

from typing import Final

from tidelog.spark.sql.expressions.constants import text_constant
from tidelog.spark.sql.expressions.times import floored, instant, is_utc, local, micros, of_micros
from tidelog.spark.sql.expressions.tools import Tools
from tidelog.spark.sql.types import FLOATS, NANOSECONDS, PLAIN_TIMES, WHOLE, ZONED, Type, Unwritable, limits

_PER_SECOND: Final = {"TIMESTAMP_S": 1, "TIMESTAMP_MS": 1000, "TIMESTAMP": 1_000_000}
_NUMBER: Final = r"^[ \t\n\r]*-?[0-9]+[ \t\n\r]*$"
_REAL: Final = r"^[ \t\n\r]*-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\r]*$"
_OTHER_NUMBERS: Final = (
    r"^[ \t\n\r]*[+-]?([0-9][0-9_.]*|\.[0-9]).*[ \t\n\r]*$|^[ \t\n\r]*[+-]?(?i:nan|inf|infinity)[ \t\n\r]*$"
)
"""Texts that DuckDB may take for numbers, in forms that Spark does not know."""
_NO_OTHERS: Final = r"^[ \t\n\r]*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*$"
"""Days, which begin like numbers and are none."""
_DAY: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?$"


def cast(text: str, source: Type, target: Type, zone: str, *, is_try: bool, tools: Tools) -> str:
    """An expression of one type as one of another. Raises :class:`Unwritable` for casts that are not written."""
    name = target.spark
    if name is None or source.spark is None:
        raise Unwritable(f"a cast from {source.name} to {target.name}")
    if source == target:
        return text
    if source.id == "NULL":
        return f"CAST({text} AS {name})"  # null, or an error
    if source.child is not None and target.child is not None and not is_try:
        if source.child.id == "NULL":
            return f"CAST({text} AS {name})"
        x = tools.name()
        return f"transform({text}, {x} -> {cast(x, source.child, target.child, zone, is_try=False, tools=tools)})"
    how = "try_cast" if is_try else "CAST"
    plain = f"{how}({text} AS {name})"
    if source.id in WHOLE or source.is_decimal or source.id in FLOATS or source.id == "BOOLEAN":
        found = _of_number(text, source, target, plain, how, is_try, tools)
        if found is not None:
            return found
    if source.id == "VARCHAR":
        return tools.let(text, lambda x: _of_text(x, target, how, is_try, tools))
    if source.id == "DATE" or source.id in PLAIN_TIMES or source.id in (ZONED, *NANOSECONDS):
        found = _of_time(text, source, target, zone, tools)
        if found is not None:
            return found
    raise Unwritable(f"a cast from {source.name} to {target.name}")


def checked(text: str, kind: Type, tools: Tools, *, is_try: bool = False) -> str:
    """A whole number of Spark's as one of a type that has fewer. Raises at run time, or gives null, for others."""
    bounds = limits(kind)
    if bounds is None:
        return text
    low, high = bounds
    otherwise = f"CAST(NULL AS {kind.spark})" if is_try else failure(f"a value is out of the range of {kind.name}")
    inside = lambda x: (  # noqa: E731  # what follows takes it
        f"CASE WHEN {x} BETWEEN {_number(low)} AND {_number(high)} THEN CAST({x} AS {kind.spark}) "
        f"WHEN {x} IS NULL THEN NULL ELSE {otherwise} END"
    )
    return tools.let(text, inside)


def failure(message: str) -> str:
    """An expression that ends the query with an error."""
    return f"raise_error({text_constant(message)})"


def _number(value: int) -> str:
    return f"CAST('{value}' AS DECIMAL(38,0))"


def _of_number(text: str, source: Type, target: Type, plain: str, how: str, is_try: bool, tools: Tools) -> str | None:
    if target.id == "BOOLEAN":
        return f"({text} <> 0)" if source.id != "BOOLEAN" else text
    if source.id == "BOOLEAN":
        if target.id in WHOLE:
            return f"CAST(CAST({text} AS INT) AS {target.spark})"
        if target.id == "VARCHAR":
            return plain
        return None
    if target.id in WHOLE:
        if source.id in FLOATS:
            text = f"rint({text})"
            if target.id in ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"):
                text = f"{how}({text} AS DECIMAL(38,0))"
            else:
                return f"{how}({text} AS {target.spark})"
        elif source.is_decimal and source.scale:
            text = f"round({text}, 0)"
        if target.id.startswith("U"):
            return checked(text, target, tools, is_try=is_try)
        return f"{how}({text} AS {target.spark})"
    if target.is_decimal:
        if source.id in FLOATS:
            return _decimal_of_float(text, source, target, how)
        return plain
    if target.id in FLOATS:
        if source.is_decimal and source.scale:
            return f"CAST({_double_of_decimal(text, source)} AS {target.spark})"
        if (source.id, target.id) == ("DOUBLE", "FLOAT"):
            return tools.let(text, lambda x: _float_of_double(x, is_try))
        return f"CAST({text} AS {target.spark})"
    if target.id == "VARCHAR":
        if source.id in FLOATS:
            return tools.let(text, lambda x: _text_of_float(x, source, tools))
        return f"CAST({text} AS STRING)"
    return None


def _float_of_double(x: str, is_try: bool) -> str:
    otherwise = "CAST(NULL AS FLOAT)" if is_try else failure("a value is out of the range of FLOAT")
    too_large = f"abs({x}) < double('inf') AND abs(CAST({x} AS FLOAT)) = float('inf')"
    return f"CASE WHEN {too_large} THEN {otherwise} ELSE CAST({x} AS FLOAT) END"


def _double_of_decimal(text: str, source: Type) -> str:
    """As DuckDB does it: the digits as a number, divided by a power of ten."""
    if source.width + source.scale > 38:
        raise Unwritable(f"a cast from {source.name} to DOUBLE, whose last digit DuckDB rounds in its own way")
    return f"(CAST({text} * CAST('{10**source.scale}' AS DECIMAL({source.scale + 1},0)) AS DOUBLE) / 1E{source.scale}D)"


def _decimal_of_float(text: str, source: Type, target: Type, how: str) -> str:
    if target.width + target.scale + 1 > 38:
        raise Unwritable(f"a cast from {source.name} to {target.name}")
    whole = f"{how}(round(CAST({text} AS DOUBLE) * 1E{target.scale}D) AS DECIMAL({target.width},0))"
    if not target.scale:
        return whole
    unit = f"CAST('1E-{target.scale}' AS DECIMAL({target.scale + 1},{target.scale}))"
    return f"CAST({whole} * {unit} AS {target.spark})"


def _text_of_float(x: str, kind: Type, tools: Tools) -> str:
    """The shortest text of a float, with an exponent from 1e16 on and below 1e-4."""
    shown = f"CAST({x} AS STRING)"
    if not tools.has_shortest_texts():
        shown = _unique_text(x, kind)

    def body(s: str) -> str:
        digits = f"rtrim('0', CAST(CAST({s} AS DECIMAL(38,21)) AS STRING))"
        mantissa = f"regexp_replace(regexp_extract({s}, '^([^E]*)E', 1), '[.]?0*$', '')"
        power = f"CAST(regexp_extract({s}, 'E(.*)$', 1) AS INT)"
        sign = f"CASE WHEN {power} < 0 THEN 'e-' ELSE 'e+' END"
        width = f"greatest(2, length(CAST(abs({power}) AS STRING)))"
        return (
            f"CASE WHEN abs({x}) >= 1E-4D AND abs({x}) < 1E16D THEN CASE WHEN {digits} LIKE '%.' "
            f"THEN concat({digits}, '0') ELSE {digits} END "
            f"ELSE concat({mantissa}, {sign}, lpad(CAST(abs({power}) AS STRING), {width}, '0')) END"
        )

    return (
        f"CASE WHEN {x} IS NULL THEN NULL WHEN isnan({x}) THEN 'nan' "
        f"WHEN {x} = double('Infinity') THEN 'inf' WHEN {x} = double('-Infinity') THEN '-inf' "
        f"WHEN {x} = 0 THEN CAST({x} AS STRING) ELSE {tools.let(shown, body)} END"
    )


def _unique_text(x: str, kind: Type) -> str:
    """The text of a float by a Java that does not always find the shortest one: of as few digits as tell it apart.

    Those of FLOAT are found by trying. Of DOUBLE so many are tried that it is known to be the only one; others fail.
    """
    is_single = kind.id == "FLOAT"
    cases = []
    for digits in (6, 7, 8, 9) if is_single else (15, 16):
        text = f"format_string('%.{digits - 1}E', CAST({x} AS DOUBLE))"
        holds = f"CAST({text} AS {kind.spark}) = {x}"
        if digits == 16:
            mantissa = f"CAST(regexp_extract({text}, '^([^E]*)E', 1) AS DECIMAL(17,15))"
            power = f"regexp_extract({text}, '(E.*)$', 1)"
            unit = "CAST('1E-15' AS DECIMAL(16,15))"
            for sign in "+-":
                other = f"concat(CAST({mantissa} {sign} {unit} AS STRING), {power})"
                holds += f" AND CAST({other} AS DOUBLE) <> {x}"
        cases.append(f"WHEN {holds} THEN {text}")
    message = "a DOUBLE with 17 digits is written as text by Spark on Java 19 or newer only"
    return f"CASE {' '.join(cases)} ELSE {failure(message)} END"


def _of_text(x: str, target: Type, how: str, is_try: bool, tools: Tools) -> str:
    """What a text says. What DuckDB might read and Spark would not, or otherwise, is an error."""
    unreadable = f"CAST(NULL AS {target.spark})" if is_try else failure(f"a text cannot be converted to {target.name}")
    unsure = failure(f"a text is written in a form that is not read as {target.name} on Spark")
    if target.id in WHOLE:
        number = f"{how}(trim({x}) AS DECIMAL(38,0))"
        value = _of_number(number, Type("HUGEINT"), target, f"{how}({number} AS {target.spark})", how, is_try, tools)
        return (
            f"CASE WHEN {x} IS NULL THEN NULL WHEN {x} RLIKE {_pattern(_NUMBER)} THEN {value} "
            f"WHEN {_may_be_number(x)} THEN {unsure} ELSE {unreadable} END"
        )
    if target.id in FLOATS or target.is_decimal:
        return (
            f"CASE WHEN {x} IS NULL THEN NULL WHEN {x} RLIKE {_pattern(_REAL)} THEN {how}(trim({x}) AS {target.spark}) "
            f"WHEN {_may_be_number(x)} THEN {unsure} ELSE {unreadable} END"
        )
    if target.id in ("DATE", "TIMESTAMP"):
        reads = f"{x} RLIKE {_pattern(_DAY)}"
        if target.id == "TIMESTAMP":
            reads = f"({reads} OR {x} RLIKE {_pattern(_MOMENT)})"
        return (
            f"CASE WHEN {x} IS NULL THEN NULL WHEN {reads} THEN {how}({x} AS {target.spark}) "
            f"WHEN {x} RLIKE '[0-9]' OR {x} RLIKE '(?i)inf|epoch' THEN {unsure} ELSE {unreadable} END"
        )
    raise Unwritable(f"a cast from VARCHAR to {target.name}")


def _may_be_number(x: str) -> str:
    return f"({x} RLIKE {_pattern(_OTHER_NUMBERS)} AND NOT {x} RLIKE {_pattern(_NO_OTHERS)})"


def _pattern(text: str) -> str:
    return text_constant(text)


def _of_time(text: str, source: Type, target: Type, zone: str, tools: Tools) -> str | None:
    if source.id == "DATE":
        return _of_day(text, target, zone)
    if source.id in PLAIN_TIMES:
        return _of_plain_time(text, source, target, zone, tools)
    if source.id == ZONED:
        return _of_zoned_time(text, target, zone, tools)
    kept = rounded_thousandth(text, tools)
    is_zoned = source.id == "TIMESTAMPTZ_NS"
    if target.id == "VARCHAR" and not is_zoned:
        return tools.let(text, _text_of_nanoseconds)
    if is_zoned:
        if target.id == "TIMESTAMP_NS" and is_utc(zone):
            return text
        here = of_micros(kept, zoned=True)
        return (
            here
            if target.id == ZONED
            else _of_zoned_time(here, target, zone, tools)
            if target.id != "VARCHAR"
            else None
        )
    if target.id == "TIMESTAMPTZ_NS":
        return text if is_utc(zone) else None
    if target.id == "DATE":
        return f"CAST({of_micros(floored(text, 1000))} AS DATE)"
    here = of_micros(kept)
    return here if target.id == "TIMESTAMP" else _of_plain_time(here, Type("TIMESTAMP"), target, zone, tools)


def rounded_thousandth(text: str, tools: Tools) -> str:
    """A whole number divided by a thousand, rounded away from zero at the half: how nanoseconds become microseconds."""
    return tools.let(text, lambda x: f"(({x} + CASE WHEN {x} < 0 THEN -500 ELSE 500 END) div 1000L)")


def _text_of_nanoseconds(x: str) -> str:
    whole = f"CAST({of_micros(f'{floored(x, 1_000_000_000)} * 1000000L')} AS STRING)"
    rest = f"rtrim('0', lpad(CAST(pmod({x}, 1000000000L) AS STRING), 9, '0'))"
    return f"CASE WHEN pmod({x}, 1000000000L) = 0 THEN {whole} ELSE concat({whole}, '.', {rest}) END"


def _of_day(text: str, target: Type, zone: str) -> str | None:
    midnight = f"CAST({text} AS TIMESTAMP_NTZ)"
    if target.id in PLAIN_TIMES:
        return midnight
    if target.id == ZONED:
        return instant(midnight, zone)
    if target.id == "TIMESTAMP_NS":
        return f"({micros(midnight)} * 1000L)"
    if target.id == "VARCHAR":
        return f"CAST({text} AS STRING)"
    return None


def _of_plain_time(text: str, source: Type, target: Type, zone: str, tools: Tools) -> str | None:
    if target.id in PLAIN_TIMES:
        per = _PER_SECOND["TIMESTAMP"] // _PER_SECOND[target.id]
        if _PER_SECOND[target.id] >= _PER_SECOND[source.id]:
            return text
        half = per // 2
        return tools.let(
            micros(text),
            lambda n: of_micros(f"((({n} + CASE WHEN {n} < 0 THEN -{half}L ELSE {half}L END) div {per}L) * {per}L)"),
        )
    if target.id == "TIMESTAMP_NS":
        return f"({micros(text)} * 1000L)"
    if target.id == "TIMESTAMPTZ_NS":
        return f"({micros(instant(text, zone), zoned=True)} * 1000L)"
    if target.id == ZONED:
        return tools.let(text, lambda x: instant(x, zone))
    if target.id == "DATE":
        return f"CAST({text} AS DATE)"
    if target.id == "VARCHAR":
        return f"CAST({text} AS STRING)"
    return None


def _of_zoned_time(text: str, target: Type, zone: str, tools: Tools) -> str | None:
    here = local(text, zone)
    if target.id in PLAIN_TIMES:
        return here if target.id == "TIMESTAMP" else _of_plain_time(here, Type("TIMESTAMP"), target, zone, tools)
    if target.id == "TIMESTAMPTZ_NS":
        return f"({micros(text, zoned=True)} * 1000L)"
    if target.id == "TIMESTAMP_NS":
        return f"({micros(here)} * 1000L)"
    if target.id == "DATE":
        return f"CAST({here} AS DATE)"
    if target.id == "VARCHAR":
        return tools.let(text, lambda x: _text_of_zoned_time(x, zone))
    return None


def _text_of_zoned_time(x: str, zone: str) -> str:
    here = local(x, zone)
    if is_utc(zone):
        return f"concat(CAST({here} AS STRING), '+00')"
    ahead = f"CAST(({micros(here)} - {micros(x, zoned=True)}) div 60000000L AS INT)"
    hours = f"lpad(CAST(abs({ahead}) div 60 AS STRING), 2, '0')"
    minutes = f"lpad(CAST(abs({ahead}) % 60 AS STRING), 2, '0')"
    return (
        f"concat(CAST({here} AS STRING), CASE WHEN {ahead} < 0 THEN '-' ELSE '+' END, {hours}, "
        f"CASE WHEN {ahead} % 60 = 0 THEN '' ELSE concat(':', {minutes}) END)"
    )

"""Functions and operators that are written for Spark: a list, each with DuckDB's meaning.

An entry takes a :class:`Call` and gives Spark SQL, or raises :class:`Unwritable` for arguments that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.spark.sql import times
from tidelog.spark.sql.casts import checked, failure
from tidelog.spark.sql.constants import text_constant
from tidelog.spark.sql.types import (
    FLOATS,
    INTEGERS,
    NANOSECONDS,
    PLAIN_TIMES,
    UNSIGNED,
    WHOLE,
    ZONED,
    Type,
    Unwritable,
    quoted,
)


@dataclass(frozen=True)
class Argument:
    """What a function is called with."""

    text: str
    type: Type
    is_constant: bool
    value: Any
    """Of a constant; see :func:`tidelog.spark.sql.constants.value_of`."""


@dataclass(frozen=True)
class Call:
    """A call of a function."""

    name: str
    arguments: Sequence[Argument]
    type: Type
    """Of the result."""
    zone: str
    """The time zone of the statement."""
    let: Callable[[str, Callable[[str], str]], str]
    """Writes an expression once where a body needs it several times."""

    @property
    def texts(self) -> list[str]:
        """The arguments."""
        return [each.text for each in self.arguments]

    @property
    def kinds(self) -> list[str]:
        """What the arguments are."""
        return [each.type.id for each in self.arguments]

    def constant(self, place: int, what: str) -> Any:
        """An argument that has to be a constant."""
        argument = self.arguments[place]
        if not argument.is_constant or argument.value is None:
            raise Unwritable(f"{self.name} with {what} that is no constant")
        return argument.value

    def expect(self, *kinds: str) -> None:
        """Raise unless the arguments are of some types."""
        if list(kinds) != self.kinds:
            raise Unwritable(f"{self.name} of {', '.join(each.type.name for each in self.arguments)}")

    def refuse(self) -> Unwritable:
        """What is raised for arguments that are not known."""
        return Unwritable(f"{self.name} of {', '.join(each.type.name for each in self.arguments)}")


Written = Callable[[Call], str]
FUNCTIONS: Final[dict[str, Written]] = {}


def _named(*names: str) -> Callable[[Written], Written]:
    def keep(function: Written) -> Written:
        for name in names:
            FUNCTIONS[name] = function
        return function

    return keep


# -- arithmetic ------------------------------------------------------------------------------------------------


def _fits(call: Call, text: str) -> str:
    """The result of whole numbers, as one of its type: Spark has wider ones for those without a sign."""
    if call.type.id in UNSIGNED:
        return checked(text, call.type, call.let)
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
        return times.shifted(text, by.value, sign, zone)
    if zone is not None and not times.is_utc(zone):
        raise Unwritable("an interval that is computed, beside a time of a zone")
    return f"({text} {'+' if sign > 0 else '-'} {by.text})"


_TIMES: Final = frozenset({*PLAIN_TIMES, ZONED, "DATE"})


@_named("+", "add")
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


@_named("-", "subtract")
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
        return f"({one.text} - {other.text})"
    raise call.refuse()


@_named("*", "multiply")
def _multiply(call: Call) -> str:
    found = _plain(call, "*")
    if found is None:
        raise call.refuse()
    return found


@_named("/", "divide")
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


@_named("//")
def _divide_whole(call: Call) -> str:
    if call.type.id in FLOATS:
        return _divide(call)
    one, other = call.arguments
    if call.type.id not in WHOLE or not one.type == other.type == call.type:
        raise call.refuse()
    return f"CAST(({one.text} div {other.text}) AS {call.type.spark})"


@_named("%", "mod")
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


@_named("abs", "@")
def _abs(call: Call) -> str:
    if call.type.id in UNSIGNED:
        return call.texts[0]
    if call.type.id in WHOLE or call.type.id in FLOATS or call.type.is_decimal:
        return f"abs({call.texts[0]})"
    raise call.refuse()


@_named("round")
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


@_named("floor", "ceil", "ceiling")
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


@_named("sqrt", "ln", "log10", "log2", "exp", "power", "pow", "sin", "cos", "tan", "atan", "atan2")
def _real(call: Call) -> str:
    call.expect(*["DOUBLE"] * len(call.arguments))
    name = {"pow": "power"}.get(call.name, call.name)
    if name in ("sqrt", "ln", "log10", "log2"):
        bad = "<" if name == "sqrt" else "<="
        message = f"{name} of a number that has none"
        return call.let(call.texts[0], lambda x: f"CASE WHEN {x} {bad} 0 THEN {failure(message)} ELSE {name}({x}) END")
    return f"{name}({', '.join(call.texts)})"


@_named("sign")
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


@_named("isnan")
def _isnan(call: Call) -> str:
    return f"CASE WHEN {call.texts[0]} IS NOT NULL THEN isnan({call.texts[0]}) END"


@_named("isinf", "isfinite")
def _isinf(call: Call) -> str:
    if call.kinds[0] not in FLOATS:
        raise call.refuse()
    body = "abs({x}) = double('inf')" if call.name == "isinf" else "NOT (abs({x}) = double('inf') OR isnan({x}))"
    return call.let(call.texts[0], lambda x: f"CASE WHEN {x} IS NOT NULL THEN {body.format(x=x)} END")


@_named("greatest", "least")
def _greatest(call: Call) -> str:
    if any(each.type != call.type for each in call.arguments) or call.type.id in ("LIST", "STRUCT", "INTERVAL"):
        raise call.refuse()
    return call.texts[0] if len(call.arguments) == 1 else f"{call.name}({', '.join(call.texts)})"


# -- texts -----------------------------------------------------------------------------------------------------


@_named("||")
def _joined(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"concat({', '.join(call.texts)})"


@_named("concat")
def _concat(call: Call) -> str:
    call.expect(*["VARCHAR"] * len(call.arguments))
    return f"concat_ws('', {', '.join(call.texts)})"


@_named("concat_ws")
def _concat_ws(call: Call) -> str:
    call.expect(*["VARCHAR"] * len(call.arguments))
    return f"concat_ws({', '.join(call.texts)})"


@_named("length", "len", "char_length", "character_length")
def _length(call: Call) -> str:
    if call.kinds == ["LIST"]:
        return f"CAST(array_size({call.texts[0]}) AS BIGINT)"
    call.expect("VARCHAR")
    return f"CAST(char_length({call.texts[0]}) AS BIGINT)"


@_named("strlen")
def _strlen(call: Call) -> str:
    call.expect("VARCHAR")
    return f"CAST(octet_length({call.texts[0]}) AS BIGINT)"


@_named("upper", "ucase", "lower", "lcase")
def _folded(call: Call) -> str:
    call.expect("VARCHAR")
    return call.let(call.texts[0], lambda x: _case(x, call.name.startswith("u")))


def _case(x: str, is_upper: bool) -> str:
    """A text in upper or lower case; letters that become several, or depend on their place, are refused."""
    name = "upper" if is_upper else "lower"
    unsure = f"char_length({name}({x})) <> char_length({x})"
    unsure += f" OR contains({x}, 'ß')" if is_upper else f" OR contains({x}, 'Σ')"
    message = f"{name} of a text with letters that Spark and DuckDB change differently"
    return f"CASE WHEN {unsure} THEN {failure(message)} ELSE {name}({x}) END"


@_named("contains")
def _contains(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"contains({', '.join(call.texts)})"


@_named("starts_with", "prefix", "^@")
def _starts_with(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"startswith({', '.join(call.texts)})"


@_named("ends_with", "suffix")
def _ends_with(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"endswith({', '.join(call.texts)})"


@_named("strpos", "instr", "position")
def _strpos(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"CAST(instr({', '.join(call.texts)}) AS BIGINT)"


@_named("replace")
def _replace(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR", "VARCHAR")
    return f"replace({', '.join(call.texts)})"


@_named("trim", "ltrim", "rtrim")
def _trim(call: Call) -> str:
    call.expect(*["VARCHAR"] * len(call.arguments))
    which = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[call.name]
    what = "' '" if len(call.arguments) == 1 else call.texts[1]
    return f"trim({which} {what} FROM {call.texts[0]})"


@_named("substring", "substr", "array_slice")
def _substring(call: Call) -> str:
    if call.kinds[0] != "VARCHAR":
        raise call.refuse()
    start = int(call.constant(1, "a start"))
    if call.name == "array_slice":
        end = int(call.constant(2, "an end"))
        start, length = max(start, 1) if start >= 0 else start, end - max(start, 1) + 1
        if len(call.arguments) > 3 or end < 0:
            raise Unwritable("a slice that counts from the end")
    else:
        length = int(call.constant(2, "a length")) if len(call.arguments) > 2 else 1 << 30
    if start < 1 or length < 0:
        raise Unwritable(f"{call.name} from {start} on, of length {length}; expected a start from 1 on")
    return f"substring({call.texts[0]}, {start}, {length})"


@_named("left", "right")
def _left(call: Call) -> str:
    if int(call.constant(1, "a length")) < 0:
        raise Unwritable(f"{call.name} of a length below zero")
    return f"{call.name}({call.texts[0]}, {call.constant(1, 'a length')})"


@_named("lpad", "rpad")
def _pad(call: Call) -> str:
    if not call.constant(2, "a filling") or int(call.constant(1, "a length")) < 0:
        raise Unwritable(f"{call.name} without a filling")
    return f"{call.name}({', '.join(call.texts)})"


@_named("repeat")
def _repeat(call: Call) -> str:
    call.expect("VARCHAR", "BIGINT")
    return f"repeat({call.texts[0]}, {int(call.constant(1, 'a number'))})"


@_named("split_part")
def _split_part(call: Call) -> str:
    if not call.constant(1, "a separator") or not call.constant(2, "a number"):
        raise Unwritable("split_part with an empty separator, or part 0")
    return f"split_part({', '.join(call.texts[:2])}, {int(call.constant(2, 'a number'))})"


@_named("~~", "!~~", "~~*", "!~~*", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape")
def _like(call: Call) -> str:
    pattern = str(call.constant(1, "a pattern"))
    is_folded = "*" in call.name or "ilike" in call.name
    if "escape" in call.name:
        escape = str(call.constant(2, "an escape"))
        if len(escape) != 1 or re.search(re.escape(escape) + "(?![%_]|" + re.escape(escape) + ")", pattern):
            raise Unwritable("LIKE with an ESCAPE that does not stand before %, _ or itself")
    else:
        escape = next(each for each in "\x01\x02\x03\x04\x05\x06\x07\x08~!#" if each not in pattern)
    sign = "NOT LIKE" if call.name.startswith(("!", "not")) else "LIKE"
    if not is_folded:
        return f"({call.texts[0]} {sign} {text_constant(pattern)} ESCAPE {text_constant(escape)})"
    if not pattern.isascii():
        raise Unwritable("ILIKE with a pattern of other letters than a to z")
    folded = text_constant(pattern.lower())
    return f"({_folded_ascii(call.texts[0], call)} {sign} {folded} ESCAPE {text_constant(escape.lower())})"


def _folded_ascii(text: str, call: Call) -> str:
    return call.let(text, lambda x: _case(x, False))


_CODES: Final = frozenset("dDwW.\\+*?()[]{}|^$/-_")
_MARKS: Final = frozenset("*+?|().")


def regular(pattern: str) -> str:
    """A regular expression of RE2 as one of Java's. Raises :class:`Unwritable` for what might mean something else."""
    found: list[str] = []
    in_class = False
    at = 0
    while at < len(pattern):
        each = pattern[at]
        if each == "\\":
            if at + 1 == len(pattern) or pattern[at + 1] not in _CODES:
                raise Unwritable(f"{pattern[at : at + 2]} in a regular expression")
            found.append(pattern[at : at + 2])
            at += 2
            continue
        if in_class:
            if each in "[&":
                raise Unwritable(f"{each} inside of [] in a regular expression")
            in_class = each != "]"
            found.append(each)
        elif each == "[":
            start = re.match(r"\[\^?\]?", pattern[at:])
            assert start is not None
            if start[0].endswith("]"):
                raise Unwritable("] at the beginning of [] in a regular expression")
            in_class = True
            found.append(start[0])
            at += len(start[0])
            continue
        elif each == "(" and pattern[at + 1 : at + 2] == "?" and pattern[at + 1 : at + 3] != "?:":
            raise Unwritable("(? in a regular expression")
        elif each == "$":
            found.append("\\z")
        elif each in "{}":
            count = re.match(r"\{\d+(,\d*)?\}", pattern[at:])
            if count is None:
                raise Unwritable(f"{each} in a regular expression")
            found.append(count[0])
            at += len(count[0])
            continue
        elif each in "*+?}" and pattern[at + 1 : at + 2] == "+":
            raise Unwritable("++ in a regular expression")
        else:
            found.append(each)
        at += 1
    return "(?d)" + "".join(found)


@_named("regexp_matches", "regexp_full_match")
def _regexp(call: Call) -> str:
    pattern = regular(str(call.constant(1, "a pattern")))
    flags = str(call.constant(2, "options")) if len(call.arguments) > 2 else ""
    if flags not in ("", "i", "c"):
        raise Unwritable(f"the options {flags!r} of a regular expression")
    if flags == "i":
        pattern = f"(?i){pattern}"
    if call.name == "regexp_full_match":
        pattern = f"{pattern[:4]}^(?:{pattern[4:]})\\z" if flags != "i" else f"{pattern[:8]}^(?:{pattern[8:]})\\z"
    return f"({call.texts[0]} RLIKE {text_constant(pattern)})"


@_named("regexp_extract")
def _regexp_extract(call: Call) -> str:
    group = int(call.constant(2, "a group")) if len(call.arguments) > 2 else 0
    if len(call.arguments) > 3:
        raise Unwritable("regexp_extract with options")
    pattern = text_constant(regular(str(call.constant(1, "a pattern"))))
    return f"regexp_extract({call.texts[0]}, {pattern}, {group})"


@_named("regexp_replace")
def _regexp_replace(call: Call) -> str:
    if len(call.arguments) < 4 or call.constant(3, "options") != "g":
        raise Unwritable("regexp_replace without the option 'g': Spark replaces all that match")
    by = str(call.constant(2, "a replacement"))
    if "$" in by or re.search(r"\\(?!\d)", by):
        raise Unwritable("$ or \\ in a replacement")
    by = re.sub(r"\\(\d)", r"$\1", by)
    pattern = text_constant(regular(str(call.constant(1, "a pattern"))))
    return f"regexp_replace({call.texts[0]}, {pattern}, {text_constant(by)})"


# -- times -----------------------------------------------------------------------------------------------------


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


@_named(*_PARTS)
def _part(call: Call) -> str:
    x = _clocks(call)
    if call.kinds[0] == "DATE" and call.name in _OF_TIMES_ONLY:
        x = f"CAST({x} AS TIMESTAMP_NTZ)"
    return f"CAST({_PARTS[call.name].format(x=x)} AS BIGINT)"


def _count(call: Call) -> str:
    """The microseconds of a time since 1970."""
    kind = call.kinds[0]
    if kind == ZONED:
        return times.micros(call.texts[0], zoned=True)
    if kind in PLAIN_TIMES or kind == "DATE":
        return times.micros(call.texts[0])
    raise call.refuse()


@_named("epoch")
def _epoch(call: Call) -> str:
    return f"(CAST({_count(call)} AS DOUBLE) / 1E6D)"


@_named("epoch_us", "epoch_ms", "epoch_ns")
def _epochs(call: Call) -> str:
    if call.name == "epoch_ns":
        return call.texts[0] if call.kinds[0] in NANOSECONDS else f"({_count(call)} * 1000L)"
    return _count(call) if call.name == "epoch_us" else times.floored(_count(call), 1000)


@_named("date_trunc", "datetrunc")
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


@_named("time_bucket")
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


@_named("timezone")
def _timezone(call: Call) -> str:
    zone = str(call.constant(0, "a zone"))
    one = call.arguments[1]
    if one.type.id == ZONED:
        return times.local(one.text, zone)
    if one.type.id in PLAIN_TIMES:
        return call.let(one.text, lambda x: times.instant(x, zone))
    raise call.refuse()


@_named("strftime")
def _strftime(call: Call) -> str:
    place = 1 if call.kinds[0] == "VARCHAR" else 0
    form = str(call.constant(1 - place, "a format"))
    x = _clocks(call, place)
    return (
        f"date_format(CAST({x} AS TIMESTAMP), {text_constant(times.pattern(form))})"
        if form
        else f"if({x} IS NULL, NULL, '')"
    )


# -- others ----------------------------------------------------------------------------------------------------


@_named("error")
def _error(call: Call) -> str:
    return failure(str(call.constant(0, "a text")).split("\n")[0])


@_named("list_value")
def _list(call: Call) -> str:
    return f"CAST(array({', '.join(call.texts)}) AS {call.type.spark})"


@_named("struct_pack", "row")
def _struct(call: Call) -> str:
    named = zip(call.type.fields, call.texts, strict=True)
    return "named_struct(" + ", ".join(f"{text_constant(name)}, {text}" for (name, _), text in named) + ")"


@_named("struct_extract")
def _field(call: Call) -> str:
    return f"({call.texts[0]}).{quoted(str(call.constant(1, 'a name')))}"

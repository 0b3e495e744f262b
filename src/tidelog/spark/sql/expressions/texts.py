"""Functions of texts, as Spark SQL with DuckDB's meaning."""

from __future__ import annotations

import re
from typing import Final

from tidelog.spark.sql.expressions.calls import Call, Functions
from tidelog.spark.sql.expressions.casts import failure
from tidelog.spark.sql.expressions.constants import text_constant
from tidelog.spark.sql.types import (
    Unwritable,
    quoted,
)

FUNCTIONS: Final = Functions()


@FUNCTIONS.named("||")
def _joined(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"concat({', '.join(call.texts)})"


@FUNCTIONS.named("concat")
def _concat(call: Call) -> str:
    call.expect(*["VARCHAR"] * len(call.arguments))
    return f"concat_ws('', {', '.join(call.texts)})"


@FUNCTIONS.named("concat_ws")
def _concat_ws(call: Call) -> str:
    call.expect(*["VARCHAR"] * len(call.arguments))
    return f"concat_ws({', '.join(call.texts)})"


@FUNCTIONS.named("length", "len", "char_length", "character_length")
def _length(call: Call) -> str:
    call.expect("VARCHAR")
    return f"CAST(char_length({call.texts[0]}) AS BIGINT)"


@FUNCTIONS.named("strlen")
def _strlen(call: Call) -> str:
    call.expect("VARCHAR")
    return f"CAST(octet_length({call.texts[0]}) AS BIGINT)"


@FUNCTIONS.named("upper", "ucase", "lower", "lcase")
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


@FUNCTIONS.named("contains")
def _contains(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"contains({', '.join(call.texts)})"


@FUNCTIONS.named("starts_with", "prefix", "^@")
def _starts_with(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"startswith({', '.join(call.texts)})"


@FUNCTIONS.named("ends_with", "suffix")
def _ends_with(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"endswith({', '.join(call.texts)})"


@FUNCTIONS.named("strpos", "instr", "position")
def _strpos(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR")
    return f"CAST(instr({', '.join(call.texts)}) AS BIGINT)"


@FUNCTIONS.named("replace")
def _replace(call: Call) -> str:
    call.expect("VARCHAR", "VARCHAR", "VARCHAR")
    return f"replace({', '.join(call.texts)})"


@FUNCTIONS.named("trim", "ltrim", "rtrim")
def _trim(call: Call) -> str:
    call.expect(*["VARCHAR"] * len(call.arguments))
    which = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[call.name]
    what = "' '" if len(call.arguments) == 1 else call.texts[1]
    return f"trim({which} {what} FROM {call.texts[0]})"


@FUNCTIONS.named("substring", "substr", "array_slice", "array_extract")
def _substring(call: Call) -> str:
    start = int(call.constant(1, "a start"))
    if call.kinds[0] != "VARCHAR":
        raise call.refuse()
    if call.name == "array_extract":
        length = 1
    elif call.name == "array_slice":
        end = int(call.constant(2, "an end"))
        start, length = max(start, 1) if start >= 0 else start, end - max(start, 1) + 1
        if len(call.arguments) > 3 or end < 0:
            raise Unwritable("a slice that counts from the end")
    else:
        length = int(call.constant(2, "a length")) if len(call.arguments) > 2 else 1 << 30
    if start < 1 or length < 0:
        raise Unwritable(f"{call.name} from {start} on, of length {length}; expected a start from 1 on")
    return f"substring({call.texts[0]}, {start}, {length})"


@FUNCTIONS.named("left", "right")
def _left(call: Call) -> str:
    if int(call.constant(1, "a length")) < 0:
        raise Unwritable(f"{call.name} of a length below zero")
    return f"{call.name}({call.texts[0]}, {call.constant(1, 'a length')})"


@FUNCTIONS.named("lpad", "rpad")
def _pad(call: Call) -> str:
    if not call.constant(2, "a filling") or int(call.constant(1, "a length")) < 0:
        raise Unwritable(f"{call.name} without a filling")
    return f"{call.name}({', '.join(call.texts)})"


@FUNCTIONS.named("repeat")
def _repeat(call: Call) -> str:
    call.expect("VARCHAR", "BIGINT")
    return f"repeat({call.texts[0]}, {int(call.constant(1, 'a number'))})"


@FUNCTIONS.named("string_split", "str_split", "split", "string_to_array")
def _split(call: Call) -> str:
    separator = str(call.constant(1, "a separator"))
    if not separator or "\\E" in separator:
        raise Unwritable(f"{call.name} with an empty separator")
    pattern = text_constant(f"\\Q{separator}\\E")
    return f"split({call.texts[0]}, {pattern}, -1)"


@FUNCTIONS.named("~~", "!~~", "~~*", "!~~*", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape")
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


@FUNCTIONS.named("regexp_matches", "regexp_full_match")
def _regexp(call: Call) -> str:
    pattern = regular(str(call.constant(1, "a pattern")))
    flags = str(call.constant(2, "options")) if len(call.arguments) > 2 else ""
    if flags not in ("", "i", "c"):
        raise Unwritable(f"the options {flags!r} of a regular expression")
    if flags == "i":
        if not pattern.isascii():
            raise Unwritable("a regular expression with the option 'i' and other letters than a to z")
        pattern = f"(?i){pattern}"
    if call.name == "regexp_full_match":
        pattern = f"{pattern[:4]}^(?:{pattern[4:]})\\z" if flags != "i" else f"{pattern[:8]}^(?:{pattern[8:]})\\z"
    if flags != "i":
        return f"({call.texts[0]} RLIKE {text_constant(pattern)})"
    message = "a regular expression with the option 'i' over a text with signs that DuckDB takes for k or s"
    return call.let(
        call.texts[0],
        lambda x: (
            f"CASE WHEN {x} RLIKE '[\u212a\u017f]' THEN {failure(message)} ELSE {x} RLIKE {text_constant(pattern)} END"
        ),
    )


@FUNCTIONS.named("regexp_extract")
def _regexp_extract(call: Call) -> str:
    group = int(call.constant(2, "a group")) if len(call.arguments) > 2 else 0
    if len(call.arguments) > 3:
        raise Unwritable("regexp_extract with options")
    pattern = text_constant(regular(str(call.constant(1, "a pattern"))))
    return f"regexp_extract({call.texts[0]}, {pattern}, {group})"


@FUNCTIONS.named("regexp_replace")
def _regexp_replace(call: Call) -> str:
    if len(call.arguments) < 4 or call.constant(3, "options") != "g":
        raise Unwritable("regexp_replace without the option 'g': Spark replaces all that match")
    by = str(call.constant(2, "a replacement"))
    if "$" in by or re.search(r"\\(?!\d)", by):
        raise Unwritable("$ or \\ in a replacement")
    by = re.sub(r"\\(\d)", r"$\1", by)
    pattern = text_constant(regular(str(call.constant(1, "a pattern"))))
    return f"regexp_replace({call.texts[0]}, {pattern}, {text_constant(by)})"


@FUNCTIONS.named("error")
def _error(call: Call) -> str:
    return failure(str(call.constant(0, "a text")).split("\n")[0])


@FUNCTIONS.named("struct_pack", "row")
def _struct(call: Call) -> str:
    named = zip(call.type.fields, call.texts, strict=True)
    return "named_struct(" + ", ".join(f"{text_constant(name)}, {text}" for (name, _), text in named) + ")"


@FUNCTIONS.named("struct_extract")
def _field(call: Call) -> str:
    return f"({call.texts[0]}).{quoted(str(call.constant(1, 'a name')))}"

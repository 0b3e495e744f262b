"""LIKE and regular expressions. Patterns are constants, so each is understood once.

Regular expressions are RE2's, in Arrow as in DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.expr.errors import EvaluationError
from tidelog.expr.functions.signatures import register
from tidelog.expr.tree import Value
from tidelog.expr.values.bounds import MOST_BYTES, check_sizes, check_total, sizes_of
from tidelog.expr.values.vectors import as_array, length_of

_THEME = "text"
_ANY_RUN, _ANY_ONE = object(), object()


def like_parts(pattern: str, escape: str | None) -> list[object]:
    """A LIKE pattern as characters and wildcards (``%``: any run, ``_``: any one). Raises EvaluationError."""
    if escape is not None and len(escape) > 1:
        raise EvaluationError(f"the escape {escape!r} of LIKE must be empty or one character")
    parts: list[object] = []
    rest = iter(pattern)
    for character in rest:
        if escape and character == escape:
            following = next(rest, None)
            if following is None:
                raise EvaluationError(f"the pattern {pattern!r} of LIKE must not end with its escape {escape!r}")
            parts.append(following)
        else:
            parts.append({"%": _ANY_RUN, "_": _ANY_ONE}.get(character, character))
    return parts


def literal_prefix(parts: Sequence[object]) -> str:
    """The characters before the first wildcard."""
    prefix = []
    for part in parts:
        if not isinstance(part, str):
            break
        prefix.append(part)
    return "".join(prefix)


def is_prefix_pattern(parts: Sequence[object]) -> bool:
    """Whether a pattern is a text and ``%`` behind it, nothing else."""
    return bool(parts) and parts[-1] is _ANY_RUN and all(isinstance(part, str) for part in parts[:-1])


def _matches(value: Value, parts: list[object]) -> Value:
    """LIKE by the cheapest kernel that does it."""
    runs = [place for place, part in enumerate(parts) if part is _ANY_RUN]
    text = "".join(part for part in parts if isinstance(part, str))
    if _ANY_ONE not in parts:
        if not runs:
            return pc.equal(value, text)
        if runs == [len(parts) - 1]:
            return pc.starts_with(value, text)
        if runs == [0]:
            return pc.ends_with(value, text)
        if runs == [0, len(parts) - 1]:
            return pc.match_substring(value, text)
    expression = "".join({_ANY_RUN: ".*", _ANY_ONE: "."}.get(part) or _quoted(str(part)) for part in parts)
    return pc.match_substring_regex(value, f"(?s)^{expression}$(?-s)".replace("$(?-s)", r"\z"))


def _quoted(text: str) -> str:
    """A character as RE2 takes it literally."""
    return f"\\x{{{ord(text):x}}}" if text == "\0" else re.sub(r"([^A-Za-z0-9_\s\u0080-\U0010ffff])", r"\\\1", text)


def _register_like(name: str, *, lowered: bool) -> None:
    text = "VARCHAR, VARCHAR -> BOOLEAN; VARCHAR, VARCHAR, VARCHAR -> BOOLEAN"

    @register(name, "operator", text, constants=(1, 2))
    def run(values: Sequence[Value], _result: pa.DataType) -> Value:
        value, pattern, *escape = values
        value = as_array(value, length_of(values))
        if lowered:
            value, pattern = pc.utf8_lower(value), pc.utf8_lower(pattern)
        parts = like_parts(pattern.as_py(), escape[0].as_py() if escape else None)
        return _matches(value, parts)


_register_like("like", lowered=False)
_register_like("ilike", lowered=True)


def _with_options(pattern: str, options: str, allowed: str = "cilmnpsg") -> tuple[str, bool]:
    """A pattern with its options written into it, and whether ``g`` was among them."""
    flags, everywhere = set(), False
    for option in options:
        if option not in allowed or option == " ":
            raise EvaluationError(f"{option!r} is no option of regular expressions; expected some of c i l m n p s g")
        if option == "i":
            flags.add("i")
        elif option == "c":
            flags.discard("i")
        elif option == "s":
            flags.add("s")
        elif option in "mnp":
            flags.discard("s")
        elif option == "l":
            pattern = re.sub(r"([^A-Za-z0-9_\s\u0080-\U0010ffff])", r"\\\1", pattern)
        else:
            everywhere = True
    return (f"(?{''.join(sorted(flags))})" if flags else "") + pattern, everywhere


def _run_regex(pattern: str, value: Value, function: str, **options: object) -> Value:
    try:
        return getattr(pc, function)(value, pattern=pattern, **options)
    except pa.ArrowInvalid as error:
        raise EvaluationError(f"{pattern!r} is no regular expression of RE2: {error}") from None


@register(
    "regexp_matches",
    _THEME,
    "VARCHAR, VARCHAR -> BOOLEAN; VARCHAR, VARCHAR, VARCHAR -> BOOLEAN",
    constants=(1, 2),
)
def _regexp_matches(values: Sequence[Value], _result: pa.DataType) -> Value:
    value = as_array(values[0], length_of(values))
    pattern, _ = _with_options(values[1].as_py(), values[2].as_py() if len(values) > 2 else "", "cilmnps")
    return _run_regex(pattern, value, "match_substring_regex")


@register(
    "regexp_full_match",
    _THEME,
    "VARCHAR, VARCHAR -> BOOLEAN; VARCHAR, VARCHAR, VARCHAR -> BOOLEAN",
    constants=(1, 2),
)
def _regexp_full_match(values: Sequence[Value], _result: pa.DataType) -> Value:
    value = as_array(values[0], length_of(values))
    pattern, _ = _with_options(values[1].as_py(), values[2].as_py() if len(values) > 2 else "", "cilmnps")
    return _run_regex(rf"\A(?:{pattern})\z", value, "match_substring_regex")


_COUNTED = 64
"""Rows whose matches are counted at a time."""


def _check_replaced(value: pa.Array, pattern: str, replacement: str, everywhere: bool) -> None:
    """Raise if texts could become too long, each match being replaced by a text that may have groups of it."""
    own = sizes_of(value, len(value))
    groups = len(re.findall(r"\\[0-9]", replacement))
    each = len(replacement.encode())
    matches = own + 1 if everywhere else np.ones_like(own)
    if (own * (1 + groups) + matches * each).max(initial=0) * len(own) <= MOST_BYTES:
        return  # however often it matches
    if everywhere and not _run_regex(pattern, pa.array([""]), "match_substring_regex")[0].as_py():
        total = 0
        for first, last in pairwise([*range(0, len(value), _COUNTED), len(value)]):  # the first ones may be too long
            found = pc.fill_null(_run_regex(pattern, value[first:last], "count_substring_regex"), 0)
            matches[first:last] = found.to_numpy(zero_copy_only=False)
            sizes = own[first:last] * (1 + groups) + matches[first:last] * each
            check_sizes(sizes, own[first:last] * (1 + groups))
            total += int(sizes.sum())
        check_total(total)
        return
    check_sizes(own * (1 + groups) + matches * each, own * (1 + groups))


@register(
    "regexp_replace",
    _THEME,
    "VARCHAR, VARCHAR, VARCHAR -> VARCHAR; VARCHAR, VARCHAR, VARCHAR, VARCHAR -> VARCHAR",
    constants=(1, 2, 3),
)
def _regexp_replace(values: Sequence[Value], _result: pa.DataType) -> Value:
    value = as_array(values[0], length_of(values))
    pattern, everywhere = _with_options(values[1].as_py(), values[3].as_py() if len(values) > 3 else "")
    _check_replaced(value, pattern, values[2].as_py(), everywhere)
    return _run_regex(
        pattern,
        value,
        "replace_substring_regex",
        replacement=values[2].as_py(),
        max_replacements=-1 if everywhere else 1,
    )


@register(
    "regexp_extract",
    _THEME,
    "VARCHAR, VARCHAR -> VARCHAR; VARCHAR, VARCHAR, INTEGER -> VARCHAR; VARCHAR, VARCHAR, INTEGER, VARCHAR -> VARCHAR",
    constants=(1, 2, 3),
)
def _regexp_extract(values: Sequence[Value], result: pa.DataType) -> Value:
    value = as_array(values[0], length_of(values))
    group = values[2].as_py() if len(values) > 2 else 0
    if not 0 <= group <= 9:
        raise EvaluationError(f"found group {group} in regexp_extract, expected one from 0 to 9")
    pattern, _ = _with_options(values[1].as_py(), values[3].as_py() if len(values) > 3 else "", "cilmnps")
    named, count = _with_named_groups(pattern)
    empty = pc.if_else(pc.is_valid(value), pa.scalar("", result), pa.scalar(None, result))
    if group > count:
        _run_regex(pattern, pa.array([""]), "match_substring_regex")  # refuses what is no regular expression
        return empty
    found = _run_regex(f"(?P<g0>{named})", value, "extract_regex")
    part = pc.struct_field(found, f"g{group}")
    return pc.if_else(pc.fill_null(pc.is_valid(found), False), pc.fill_null(part, ""), empty)


def _with_named_groups(pattern: str) -> tuple[str, int]:
    """A pattern with every capturing group named ``g1``, ``g2``, ..., as Arrow wants it, and their number."""
    result, count, place, in_class = [], 0, 0, False
    while place < len(pattern):
        character = pattern[place]
        if character == "\\":
            result.append(pattern[place : place + 2])
            place += 2
            continue
        if in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
            if pattern[place + 1 : place + 2] == "^":
                result.append("[")
                place, character = place + 1, "^"
            if pattern[place + 1 : place + 2] == "]":  # a bracket in first place is a member
                result.append(character)
                place, character = place + 1, "]"
        elif character == "(":
            named = re.match(r"\(\?P?<([A-Za-z_]\w*)>", pattern[place:])
            if named or pattern[place + 1 : place + 2] != "?":
                count += 1
                result.append(f"(?P<g{count}>")
                place += named.end() if named else 1
                continue
        result.append(character)
        place += 1
    return "".join(result), count

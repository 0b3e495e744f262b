"""Long lists of literals in the text of an expression, read without sqlglot, which takes microseconds for each token.

A list behind IN that is long, and of nothing but numbers, strings, NULL, TRUE and FALSE, is taken out of the text and
replaced by a name that no column has. What sqlglot reads of the rest refers to it by that name.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog.expr.errors import ExpressionError
from tidelog.expr.values.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    HUGEINT,
    INTEGER,
    NULL,
    VARCHAR,
    WIDEST_DECIMAL,
    integer_fits,
)

MARK: Final = "\0list "
"""What the names of lists begin with."""

_LONG: Final = 1024
"""Characters of a list from which on it is taken out."""

_SHORT: Final = 19
"""Characters below which a number is read without looking at it more closely."""

_SPACE = "[ \\t\\r\\n]*+"
_NUMBER = r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_STRING = r"'[^']*+(?:''[^']*+)*+'"
_ITEM = rf"(?:{_NUMBER}|{_STRING}|(?i:null|true|false))"
_LIST = re.compile(rf"{_SPACE}{_ITEM}{_SPACE}(?:,{_SPACE}{_ITEM}{_SPACE})*+\)")
_ITEMS = re.compile(_ITEM)
_CONTENTS = re.compile(r"'([^']*+(?:''[^']*+)*+)'")
_STRINGS = re.compile(rf"{_SPACE}{_STRING}{_SPACE}(?:,{_SPACE}{_STRING}{_SPACE})*+")
_INTEGERS = re.compile(r"[0-9,+\- \t\r\n]*+")

_NEXT = re.compile(rf"""{_STRING}|"[^"]*+(?:""[^"]*+)*+"|\b(?i:in){_SPACE}\(|--|/\*|\$|\b[eExXbB]'""")
"""Strings, quoted names, the beginning of a list, and what this is not made to look through."""

Literals = tuple[pa.Array, ...]
"""Literals, those of each type together; the types are those that single literals have."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text without its long lists."""

    text: str
    lists: dict[str, Literals]
    """By the name that stands in the place of each."""
    _places: tuple[int, ...] = (0,)
    _originals: tuple[int, ...] = (0,)

    def place(self, position: int | None) -> int | None:
        """Where in the original text a position of this one is."""
        if position is None:
            return None
        index = bisect_right(self._places, position) - 1
        return position - self._places[index] + self._originals[index]


def shortened(text: str) -> Shortened:
    """A text with each long list of literals behind IN replaced by ``"\\0list n"``."""
    if len(text) < _LONG or MARK[0] in text:
        return Shortened(text, {})
    parts: list[str] = []
    lists: dict[str, Literals] = {}
    places, originals = [0], [0]
    copied = at = length = 0
    while (found := _NEXT.search(text, at)) is not None:
        at = found.end()
        first = found[0][0]
        if first in "'\"":
            continue
        if found[0][-1] != "(":  # comments and other kinds of strings: sqlglot knows about them
            break
        whole = _LIST.match(text, at)
        if whole is None or whole.end() - at < _LONG:
            continue
        name = f"{MARK}{len(lists)}"
        lists[name] = _literals(text[at : whole.end() - 1])
        parts += [text[copied:at], f'"{name}")']
        length += at - copied + len(name) + 3
        copied = at = whole.end()
        places.append(length)
        originals.append(copied)
    if not lists:
        return Shortened(text, {})
    return Shortened("".join([*parts, text[copied:]]), lists, tuple(places), tuple(originals))


def _literals(body: str) -> Literals:
    """The literals between the brackets of a list."""
    if _INTEGERS.fullmatch(body):
        return _integers(body.split(","))
    if "'" not in body:
        return _mixed(map(str.strip, body.split(",")))
    if _STRINGS.fullmatch(body):
        contents = _CONTENTS.findall(body)
        if "''" in body:
            contents = [each.replace("''", "'") if "'" in each else each for each in contents]
        return (pa.array(contents, VARCHAR),)
    return _mixed(_ITEMS.findall(body))


def _integers(tokens: list[str]) -> Literals:
    try:
        values = np.fromiter(map(int, tokens), np.int64, len(tokens))
    except (OverflowError, ValueError):  # of more digits than Python reads at once, too
        return _mixed(map(str.strip, tokens))
    limits = np.iinfo(np.int32)
    is_small = (values >= limits.min) & (values <= limits.max)
    groups = ((INTEGER, values[is_small].astype(np.int32)), (BIGINT, values[~is_small]))
    return together(pa.array(some, type_) for type_, some in groups if len(some))


def _mixed(tokens: Iterable[str]) -> Literals:
    integers: list[str] = []
    decimals: dict[tuple[int, int], list[str]] = {}
    others: list[tuple[pa.DataType, Any]] = []
    for token in tokens:
        whole, point, fraction = token.lstrip("+-").partition(".")
        if not point and len(token) < _SHORT and whole.isdigit():
            integers.append(token)
        elif len(token) < _SHORT and whole.isdigit() and fraction.isdigit() and token[0] != "+":
            decimals.setdefault((len(whole), len(fraction)), []).append(token)
        else:
            others.append(literal_of(token))
    found = list(_integers(integers)) if integers else []
    for (before, behind), values in decimals.items():
        found.append(pa.array(values, VARCHAR).cast(pa.decimal128(before + behind, behind)))
    return together([*found, *grouped(others)])


def grouped(literals: Iterable[tuple[pa.DataType, Any]]) -> Literals:
    """Literals of given types and values, those of each type together."""
    groups: dict[str, tuple[pa.DataType, list[Any]]] = {}
    for type_, value in literals:
        groups.setdefault(str(type_), (type_, []))[1].append(value)
    return together(pa.array(values, type_) for type_, values in groups.values())


def together(parts: Iterable[pa.Array]) -> Literals:
    """Arrays of literals, those of one type as one, in the order of the types' names."""
    groups: dict[str, list[pa.Array]] = {}
    for part in parts:
        groups.setdefault(str(part.type), []).append(part)
    return tuple(pa.concat_arrays(groups[name]) for name in sorted(groups))


def literal_of(token: str) -> tuple[pa.DataType, Any]:
    """Type and value of the text of a literal: a number with or without a sign, a string in quotes, or a keyword."""
    if token[0] == "'":
        return VARCHAR, token[1:-1].replace("''", "'")
    word = token.upper()
    if word == "NULL":
        return NULL, None
    if word in ("TRUE", "FALSE"):
        return BOOLEAN, word == "TRUE"
    return number_of(token)


_PLAIN_NUMBER = re.compile(r"[0-9]+|[0-9]*\.[0-9]*")


def number_of(token: str) -> tuple[pa.DataType, int | float | Decimal]:
    """Type and value of a number as written: INTEGER, BIGINT, HUGEINT, DECIMAL or DOUBLE, the first that holds it.

    Raises :class:`ExpressionError`, without a place, for one that is beyond all of them.
    """
    negative, digits = token[0] == "-", token.lstrip("+-")
    is_plain = _PLAIN_NUMBER.fullmatch(digits) is not None
    if is_plain and "." not in digits:
        significant = digits.lstrip("0") or "0"
        if len(significant) <= WIDEST_DECIMAL:
            value = -int(significant) if negative else int(significant)
            return next(type_ for type_ in (INTEGER, BIGINT, HUGEINT) if integer_fits(value, type_)), value
    elif is_plain:
        whole, _, fraction = digits.partition(".")
        count = len(whole) + len(fraction)
        if count <= WIDEST_DECIMAL:
            exact = Decimal(f"{whole or 0}.{fraction or 0}"[: count + 2])
            return pa.decimal128(max(count, 1), len(fraction)), exact.copy_negate() if negative else exact
    try:
        rounded = float(digits)
    except ValueError:
        raise ExpressionError(f"{digits[:20]!r} is no number") from None
    if rounded == float("inf"):
        raise ExpressionError(f"the number {digits[:20]}... is beyond all types; expected less than 1.8e308")
    return DOUBLE, -rounded if negative else rounded

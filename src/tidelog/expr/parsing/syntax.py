"""Text as sqlglot reads it. Imported only when something is parsed: sqlglot is slow to load."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from tidelog.expr.errors import ExpressionError, UnsupportedError, too_deep
from tidelog.expr.parsing.lists import Literals, Shortened, shortened

MOST_CHARACTERS = 1 << 17
"""Characters that an expression may have besides long lists of literals: sqlglot takes two seconds for so many."""

_MOST_SUBSCRIPTS = 100
"""Subscripts behind one another, which sqlglot copies at each: a thousand take half a minute."""

_LONG_DESCRIPTION = 200

_KEPT_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")


class Expressions(DuckDB):
    """DuckDB's syntax, with functions left under their own names instead of sqlglot's."""

    class Parser(DuckDB.Parser):  # type: ignore[valid-type, misc]
        """Knows only the functions whose arguments have a syntax of their own."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: DuckDB.Parser.FUNCTION_PARSERS[name] for name in _KEPT_SYNTAX
        }


_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)
_COLOURS = re.compile(r"\x1b\[\d*m")


@functools.cache
def is_plain_name(name: str) -> bool:
    """Whether a column's name needs no quotes: it is in lower case and no keyword."""
    if not _PLAIN_NAME.fullmatch(name):
        return False
    try:
        found = Expressions().parse(name)[0]
    except SqlglotError:
        return False
    return isinstance(found, exp.Column) and found.name == name


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one expression, and what sqlglot makes of it."""

    text: str
    node: exp.Expression
    _short: Shortened

    def place(self, node: exp.Expression) -> int | None:
        """Where in the text a node starts, as far as its names tell."""
        return self._short.place(position_of(node))

    def literals(self, node: exp.Expression) -> Literals | None:
        """The list that stands in the text where sqlglot has seen a node; None if that is no list."""
        return self._short.lists.get(node.name) if isinstance(node, exp.Column) else None


def read(text: str) -> Source:
    """Read the text of one expression. Raises :class:`ExpressionError` for a syntax error."""
    if not isinstance(text, str):
        raise ExpressionError(f"found a {type(text).__name__} for an expression, expected SQL text")
    _check_characters(text)
    short = shortened(text)
    if len(short.text) > MOST_CHARACTERS:
        raise ExpressionError(
            f"found an expression of {len(short.text):,} characters; expected {MOST_CHARACTERS:,} at the most, besides "
            "lists of numbers and strings behind IN",
            text=text,
            position=0,
        )
    if short.text.count("][") > _MOST_SUBSCRIPTS:
        raise UnsupportedError("subscripts are not supported in expressions", text=text, position=text.find("]["))
    try:
        found = Expressions().parse(short.text)
    except SqlglotError as error:
        raise _syntax_error(text, short, error) from None
    except RecursionError:
        raise too_deep(text) from None
    if len(found) != 1 or found[0] is None:
        what = "nothing" if not found or found[0] is None else f"{len(found)} expressions"
        raise ExpressionError(f"found {what}, expected one expression, e.g. price > 10", text=text, position=0)
    return Source(text, cast(exp.Expression, found[0]), short)


def _check_characters(text: str) -> None:
    """Raise unless a text can be written as UTF-8: Python's may have halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="replace").decode()
        raise ExpressionError("found half of a character, which is no text", text=shown, position=error.start) from None


def _syntax_error(text: str, short: Shortened, error: SqlglotError) -> ExpressionError:
    details = getattr(error, "errors", None) or [{}]
    description = str(details[0].get("description") or _COLOURS.sub("", str(error)).split("\n")[0])
    if description.startswith("Required keyword"):
        description = "an operand is missing"
    start = details[0].get("start_context")
    position = None
    if start is not None:
        place = short.text.find(str(start) + str(details[0].get("highlight", "")))
        position = None if place < 0 else short.place(place + len(str(start)))
    if len(description) > _LONG_DESCRIPTION:
        description = f"{description[:_LONG_DESCRIPTION]}..."
    return ExpressionError(f"syntax error: {description[:1].lower() + description[1:]}", text=text, position=position)


def position_of(node: exp.Expression) -> int | None:
    """Where in the text a node starts, as far as its names tell."""
    found = [int(each.meta["start"]) for each in node.walk() if each._meta and "start" in each._meta]
    own = node.meta.get("start") if node._meta else None
    if own is not None:
        return int(own)
    return min(found, default=None)

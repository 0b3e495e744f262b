"""What can go wrong with an expression: its text, its types, or the values it meets."""

from __future__ import annotations

import re
import unicodedata

from tidelog.model.errors import InputError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that would do something to a terminal, or cannot be printed."""


_LONGEST = 2000
"""Characters of a message before its text: names and values in it may have any length."""


class ExpressionError(InputError):
    """A text is no expression that can be evaluated over the columns at hand.

    ``text`` is the whole text and ``position`` the place in it that the message is about, counted in characters
    from 0, where one is known. The message shows both: the line with a caret under the place.
    """

    def __init__(self, message: str, *, text: str = "", position: int | None = None, column: str | None = None) -> None:
        if len(message) > _LONGEST:
            message = f"{message[:_LONGEST]}..."
        super().__init__(message + _marked(text, position), column=column)
        self.text = text
        self.position = position


class EvaluationError(ExpressionError):
    """Values of a batch have no result under an expression: an overflow, a cast that fails, a division by zero."""


class UnsupportedError(ExpressionError):
    """DuckDB knows this, tidelog does not; docs/expressions.md lists such cases."""


def too_deep(text: str) -> ExpressionError:
    """The error for an expression that Python would need too many calls for, one inside of the other."""
    return ExpressionError("the expression is nested too deeply; split it up", text=text, position=0)


_SHOWN = 400
"""Characters of a text that a message shows at most."""


def _marked(text: str, position: int | None) -> str:
    """The line of ``text`` around ``position`` with a caret below, to follow a message; of a long one, what is near."""
    if not text:
        return ""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)  # one for one, so that positions stay
    if position is None:
        return f"\n  {text}" if len(text) <= _SHOWN else f"\n  {text[:_SHOWN]}..."
    position = min(position, len(text))
    start = text.rfind("\n", 0, position) + 1
    line, column = text.count("\n", 0, position) + 1, position - start + 1
    end = text.find("\n", position)
    end = len(text) if end < 0 else end
    is_one = line == 1 and end == len(text)
    before = after = ""
    if position - start > _SHOWN // 2:
        start, before = position - _SHOWN // 2, "..."
    if end - position > _SHOWN // 2:
        end, after = position + _SHOWN // 2, "..."
    where = f"\nline {line}, column {column}:" if not is_one else ""
    return f"{where}\n  {before}{text[start:end]}{after}\n  {' ' * len(before)}{_blank(text[start:position])}^"


def _blank(text: str) -> str:
    """As much room as a terminal gives a text."""
    return "".join("\t" if each == "\t" else " " * _width(each) for each in text)


def _width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1

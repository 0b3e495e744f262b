"""What is wrong with a text of SQL, and where."""

from __future__ import annotations

import re
from typing import Final

from tidelog.expr.errors import ExpressionError

_PLACE: Final = re.compile(r"\n\nLINE (\d+): (.*)\n( *)\^", re.DOTALL)
_KIND: Final = re.compile(r"^[A-Z][A-Za-z ]* Error: ")


class SqlError(ExpressionError):
    """A statement cannot be understood, or is not allowed, or names what there is not.

    ``text`` is the statement and ``position`` the place in it, in characters from 0, where one is known.
    """


def of_engine(error: BaseException, text: str) -> SqlError:
    """What DuckDB says of a statement, with the place in the statement as it was given."""
    message = str(error)
    found = _PLACE.search(message)
    position = None
    if found is not None:
        position = _position(text, int(found[1]), found[2], len(found[3]) - len(f"LINE {found[1]}: "))
        message = message[: found.start()]
    return SqlError(_KIND.sub("", message).strip(), text=text, position=position)


def _position(text: str, line: int, shown: str, column: int) -> int | None:
    """Where a line that is shown, perhaps cut at both ends, is in a text; None if it is not there."""
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return None
    cut = shown.split("\n")[0]
    front = 3 if cut.startswith("...") else 0
    inner = cut[front:].removesuffix("...")
    at = lines[line - 1].find(inner)
    if at < 0:
        return None
    return sum(len(each) + 1 for each in lines[: line - 1]) + at + column - front

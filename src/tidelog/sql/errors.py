"""What is wrong with a text of SQL, and where."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tidelog.expr.errors import ExpressionError

_PLACE: Final = re.compile(r"\n\nLINE \d+: .*", re.DOTALL)
_KIND: Final = re.compile(r"^[A-Z][A-Za-z ]* Error: ")


class SqlError(ExpressionError):
    """A statement cannot be understood, or is not allowed, or names what there is not.

    ``text`` is the statement and ``position`` the place in it, in characters from 0, where one is known.
    """

    def __init__(self, message: str, *, text: str = "", position: int | None = None, column: str | None = None) -> None:
        super().__init__(message, text=text, position=position, column=column)
        self.message = message
        """What is said, without the place."""

    def moved(self, text: str, by: int, default: int) -> SqlError:
        """The same of a part of another text, which begins so many characters further on there."""
        position = default if self.position is None else max(default, self.position + by)
        return SqlError(self.message, text=text, position=min(position, len(text)), column=self.column)


def of_engine(error: BaseException, text: str, position: Callable[[str], int | None]) -> SqlError:
    """What DuckDB says of a statement; ``position`` finds in the statement as it was given what a message is about."""
    message = _PLACE.sub("", _KIND.sub("", str(error))).strip()
    return SqlError(message, text=text, position=position(message))

"""What is wrong with a text of SQL, and where."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tidelog.expr.errors import ExpressionError

_PLACE: Final = re.compile(r"\n\nLINE \d+: .*", re.DOTALL)
_KIND: Final = re.compile(r"^[A-Z][A-Za-z ]* Error: ")
_NO_MEMORY: Final = "Out of Memory Error: "
_NO_DISK: Final = re.compile(r"max_temp_directory_size|No space left|Disk quota")


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
    told = str(error)
    message = _PLACE.sub("", _KIND.sub("", told)).strip()
    if _NO_DISK.search(told):
        message = f"{_first_line(message)}; what is computed takes more than memory and half of what is free on disk"
        message += " for it: free space, give it more memory with sql_memory, or ask for less at once"
    elif told.startswith(_NO_MEMORY):
        message = f"{_first_line(message)}; what is computed takes more memory than it is given, and this part of it"
        message += " cannot be written to disk meanwhile: give it more with sql_memory, or ask for less at once"
    return SqlError(message, text=text, position=position(message))


def _first_line(message: str) -> str:
    return message.partition("\n")[0].rstrip(" .")

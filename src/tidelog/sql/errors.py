"""What is wrong with a text of SQL, and where."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.expr.database.binding import plain
from tidelog.expr.errors import ExpressionError
from tidelog.model.errors import did_you_mean

_PLACE: Final = re.compile(r"\n\nLINE \d+: .*", re.DOTALL)
_NO_MEMORY: Final = "Out of Memory Error: "
_SETTING: Final = re.compile(r"\n*Use \"?SET .*|, or SET .*")
"""Advice to change a setting, which nobody can."""
_ROWS: Final = re.compile(r'(?:[Tt]able )?"rows to insert"')
"""The table that INSERT fills before it is known to fit."""
_NO_COLUMN: Final = re.compile(r'does not have a column named "([^"]+)"|Column "([^"]+)" does not exist on')
_NO_TYPE: Final = re.compile(r'Type with name "?([^" ]+)"? does not exist!(?:\nDid you mean .*)?')
"""DuckDB suggests others by their looks in its catalogue, such as JSON."""
_TYPES: Final = (
    "BIGINT", "BLOB", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "INT", "INTEGER", "INTERVAL",
    "REAL", "SMALLINT", "TEXT", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP_S",
    "TINYINT", "UBIGINT", "UINTEGER", "USMALLINT", "UTINYINT", "VARCHAR",
)  # fmt: skip
_MOST_LINES: Final = 8
"""Of a message: overloads of operators are dozens."""
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


def of_engine(
    error: BaseException, text: str, position: Callable[[str], int | None], columns: Sequence[str] = ()
) -> SqlError:
    """What DuckDB says of a statement; ``position`` finds in the statement as it was given what a message is about.

    ``columns`` are those that may have been meant.
    """
    told = str(error)
    message = engine_message(error)
    if _NO_DISK.search(told):
        message = f"{_first_line(message)}; what is computed takes more than memory and half of what is free on disk"
        message += " for it: free space, give it more memory with sql_memory, or ask for less at once"
    elif told.startswith(_NO_MEMORY):
        message = f"{_first_line(message)}; what is computed takes more memory than it is given, and this part of it"
        message += " cannot be written to disk meanwhile: give it more with sql_memory, or ask for less at once"
    return SqlError(_clearer(message, columns), text=text, position=position(message))


def _clearer(message: str, columns: Sequence[str]) -> str:
    """A message without what does not help here, and with what does."""
    message = _SETTING.sub("", message).replace("Values list ", "table ").rstrip()
    message = _ROWS.sub("the stream", message)
    message = _NO_TYPE.sub(lambda found: f"there is no type {found[1]}; {did_you_mean(found[1], _TYPES)}", message)
    missing = _NO_COLUMN.search(message)
    if missing is not None and columns:
        return f"{message.removesuffix('!')}; {did_you_mean(missing[1] or missing[2], columns)}"
    lines = message.split("\n")
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"\t... and {len(lines) - _MOST_LINES} others"]
    return "\n".join(lines)


def engine_message(error: BaseException) -> str:
    """What DuckDB says, without the kind of the error and the text around its place."""
    return plain(_PLACE.sub("", str(error)))


def _first_line(message: str) -> str:
    return message.partition("\n")[0].rstrip(" .")

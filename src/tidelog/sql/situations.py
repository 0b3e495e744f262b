"""Situations by a call of their own: a text of their language, or its parts as arguments, as a statement of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidelog.model.arguments import text as checked_text
from tidelog.model.errors import InputError
from tidelog.sql.clauses.situations.standing_alone import stands_alone, table_of, with_bars
from tidelog.sql.clauses.situations.writing import clause_of, quoted
from tidelog.sql.errors import SqlError

TABLE = "input"
"""What the table is called where nobody gives it a name."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about situations."""

    statement: str
    """The statement that asks it."""
    table: str
    """The name by which the statement mentions what is asked."""
    written: str
    """As it was written; every place is the same."""

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Errors of the statement are errors of what was written."""
        try:
            yield
        except SqlError as error:
            raise SqlError(error.message, text=self.written, position=error.position, column=error.column) from None


def asked(text: str | None = None, table: str = TABLE, **parts: Any) -> Asked:
    """What a text of the language asks of whatever its FROM names, or arguments ask of a table.

    The arguments are those of :func:`~tidelog.sql.clauses.situations.writing.clause_of`. Raises :class:`InputError` for
    both, and for none.
    """
    given = {name: value for name, value in parts.items() if value is not None}
    if text is None:
        if "define" not in given:
            raise InputError(
                "found neither a query nor define; give a text FROM ... DEFINE ... PATTERN ... WITHIN ..., or "
                "define={name: condition}, pattern=... and within=..."
            )
        checked_text("the name of a table", table)
        statement = f"SELECT * FROM {quoted(table)} {clause_of(**given)}"
        return Asked(statement, table, statement)
    others = [
        name for name, value in given.items() if not (isinstance(value, str | tuple) and value == _DEFAULTS.get(name))
    ]
    if others:
        raise InputError(f"found a query and {others[0]}; say it in the query, or give all parts as arguments")
    checked_text("a query about situations", text)
    if not stands_alone(text):
        raise SqlError(
            "found no query about situations; expected FROM table [PARTITION BY ...] DEFINE ... PATTERN ... WITHIN ... "
            "[RETURN ...]",
            text=text,
            position=0,
        )
    return Asked(with_bars(text), table_of(text), text)


_DEFAULTS = {"mode": "completed", "dialect": "allen", "partition_by": ()}

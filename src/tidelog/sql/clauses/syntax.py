"""The event clauses of the dialect, and how a text with them is read."""

from __future__ import annotations

from typing import Final

from tidelog.sql.clauses.cutting import Cutting, Syntax
from tidelog.sql.clauses.joins import reading as joins
from tidelog.sql.clauses.merging import reading as merging
from tidelog.sql.clauses.pattern_windows.putting import put_pattern_windows
from tidelog.sql.clauses.row_pattern import clause as row_pattern
from tidelog.sql.clauses.situations import clause as situations
from tidelog.sql.clauses.situations.standing_alone import IN_PARENTHESES, read_query, stands_alone
from tidelog.sql.clauses.tables import reading as tables
from tidelog.sql.clauses.window_arguments import readable, shown
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tree import Node, Parser

SYNTAXES: Final[tuple[Syntax, ...]] = (
    joins.SYNTAX,
    merging.SYNTAX,
    *tables.SYNTAXES,
    row_pattern.SYNTAX,
    *situations.SYNTAXES,
    IN_PARENTHESES,
)
"""All clauses that stand in the place of a table."""


def parsed(parser: Parser, text: str) -> Node:
    """The tree of a statement, with its event clauses; all places are those of the text."""
    own = readable(text)
    try:
        cutting = Cutting(parser, own, SYNTAXES, put_pattern_windows)
        return cutting.tree_around(read_query) if stands_alone(own) else cutting.tree()
    except SqlError as error:
        if own == text:
            raise
        raise SqlError(shown(error.message), text=text, position=error.position, column=error.column) from None

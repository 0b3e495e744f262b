"""What is said of texts that are no clause, where it can be seen what was meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.sql.clauses.cutting import ClauseText
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import CLOSING, OPENING, Token

OTHER_ROWS: Final = (
    "rows are chosen in a query in parentheses that is the input, as in (SELECT * FROM t WHERE x > 5), and matches "
    "behind the clause"
)


def outside(inside: Sequence[Token]) -> list[Token]:
    """Those of some tokens that are in no parentheses, with these."""
    found: list[Token] = []
    depth = 0
    for token in inside:
        depth -= token.says(*CLOSING)
        if depth == 0:
            found.append(token)
        depth += token.says(*OPENING)
    return found


def comma_before(reader: ClauseText, name: Token) -> SqlError:
    """An error about a definition that no comma parts from the one before it."""
    return reader.wrong(f"found {name.text} AS without a comma before it; definitions are parted by commas", name.start)

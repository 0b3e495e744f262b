"""The language of situations by itself: ``FROM table PARTITION BY ... DEFINE ... PATTERN ... WITHIN ... RETURN ...``.

It is a statement that selects everything of the clause with the same parts; without ``PATTERN`` that is ``DERIVE``.
Alternatives of relations are parted by ``|``, as inside of SQL, where a semicolon ends a statement; or by ``;`` where
nothing but this language is read (:func:`with_bars`).
"""

from __future__ import annotations

from typing import Final

from tidelog.sql.clauses.cutting import CLAUSE, ClauseText, Syntax
from tidelog.sql.clauses.situations.clause import DERIVE, SITUATIONS, read_clause
from tidelog.sql.text.tokens import CLOSING, OPENING, Token, tokens
from tidelog.sql.text.tree import Node

_BEHIND: Final = ("PARTITION", "ORDER", "DEFINE")
"""What stands behind the table."""


def stands_alone(text: str) -> bool:
    """Whether a text is of this language."""
    found = tokens(text)
    return bool(found) and found[0].says("FROM") and _outside(found, "DEFINE") is not None


def read_query(reader: ClauseText) -> Node:
    """The clause that a text means, as a node. Raises :class:`SqlError` for what is none."""
    place = reader.offset(reader.place)
    reader.expect("FROM")
    clause: Node = {
        "type": CLAUSE,
        "alias": "",
        "column_name_alias": [],
        "sample": None,
        "query_location": place,
        "query_location_length": len(reader.text.encode()),
    }
    return {**clause, **_read(reader)}


def _read(reader: ClauseText) -> Node:
    """What is behind FROM: the members of a clause."""
    word = reader.word = SITUATIONS if reader.has("PATTERN") else DERIVE
    table = reader.relation("the name of a table", *_BEHIND)
    return {"word": word, "input": table, **read_clause(word, reader)}


IN_PARENTHESES: Final = Syntax("FROM", _read, starts=("DEFINE",), is_query=True)
"""The same as a query in parentheses."""


def with_bars(text: str) -> str:
    """A text whose alternatives are parted by ``;``, and that may end with one, without them; no place is another."""
    written = list(text)
    found = tokens(text)
    pattern = _outside(found, "PATTERN")
    for at, token in enumerate(found):
        if token.says(";") and at == len(found) - 1:
            written[token.start] = " "
        elif token.says(";") and pattern is not None and at > pattern:
            written[token.start] = "|"
    return "".join(written)


def table_of(text: str) -> str:
    """The name behind FROM of a text of this language; empty if it is none."""
    found = tokens(text)
    is_name = len(found) > 1 and found[1].kind in ("word", "name")
    return found[1].value if is_name and stands_alone(text) else ""


def _outside(found: tuple[Token, ...], word: str) -> int | None:
    """Where a word with another one behind it stands outside of parentheses, where a part of the language begins."""
    depth = 0
    for at, token in enumerate(found[:-1]):
        depth += token.says(*OPENING) - token.says(*CLOSING)
        if depth == 0 and token.says(word) and found[at + 1].kind in ("word", "name"):
            return at
    return None

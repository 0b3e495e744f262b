"""What may stand beside an AS-OF join beyond what DuckDB knows: ``NEAREST``, and ``TOLERANCE '1 s'`` behind it.

``a ASOF [NEAREST] [LEFT] JOIN b ON ... [NEAREST] [TOLERANCE length]``, or ``USING (...)`` instead of ``ON ...``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Final

from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import CLOSING, OPENING, Token, closing, tokens

_KINDS: Final = ("LEFT", "RIGHT", "INNER", "FULL", "OUTER", "SEMI", "ANTI")
_ENDS: Final = (
    *(",", ";", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT"),
    *("EXCEPT", "JOIN", "ASOF", "INNER", "FULL", "CROSS", "POSITIONAL", "NATURAL", "SEMI", "ANTI", "SELECT"),
)
"""What ends a join."""
_OPERATORS: Final = ("AND", "OR", "NOT", "ON", "BETWEEN", "IN", "LIKE", "ILIKE", "IS", "WHEN", "THEN", "ELSE", "CASE")
"""Words that a value may follow."""


@dataclass(slots=True)
class AsOfWords:
    """The words beside one join."""

    place: int
    """Where the join is."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Where they are."""
    nearest: bool = False
    tolerance: tuple[int, int] | None = None
    """Where the length is."""


def as_of_words(text: str, at: int, last: int) -> AsOfWords | None:
    """The words beside the AS-OF join that a token begins; None if there is none, or nothing is beside it."""
    found = tokens(text)
    if not found[at].says("ASOF"):
        return None
    join = AsOfWords(found[at].start)
    number = at + 1
    if number <= last and found[number].says("NEAREST"):
        _take_nearest(join, found[number])
        number += 1
    while number <= last and found[number].says(*_KINDS):
        number += 1
    if number > last or not found[number].says("JOIN"):
        return None
    members = _members(found, number + 1, last)
    # In front of the condition they are names.
    for member, token in dropwhile(lambda each: not each[1].says("ON", "USING"), members):
        if token.says("NEAREST", "TOLERANCE") and _follows_a_value(found[member - 1]):
            _take(join, text, member, last)
            break
    return join if join.spans else None


def _members(found: tuple[Token, ...], at: int, last: int) -> Iterator[tuple[int, Token]]:
    """The tokens of a join outside of parentheses, with their numbers."""
    depth = 0
    for number in range(at, last + 1):
        token = found[number]
        calls = number < last and found[number + 1].says("(")
        if depth == 0 and (token.says(*CLOSING, *_ENDS) or (token.says("LEFT", "RIGHT") and not calls)):
            return
        if depth == 0:
            yield number, token
        depth += token.says(*OPENING) - token.says(*CLOSING)


def _follows_a_value(before: Token) -> bool:
    """Whether what stands behind a token cannot be a column."""
    if before.kind == "word":
        return not before.says(*_OPERATORS)
    return before.kind in ("text", "number", "name") or before.says(")", "]", "?")


def _take_nearest(join: AsOfWords, token: Token) -> None:
    join.nearest = True
    join.spans.append((token.start, token.end))


def _take(join: AsOfWords, text: str, at: int, last: int) -> None:
    """Take the words from a token on."""
    found = tokens(text)
    if found[at].says("NEAREST"):
        _take_nearest(join, found[at])
        at += 1
        if at > last or not found[at].says("TOLERANCE"):
            return
    rest = [number for number, _ in _members(found, at + 1, last)]
    if not rest:
        raise SqlError("found TOLERANCE without a length", text=text, position=found[at].end)
    for number in rest[1:]:
        if found[number].says("NEAREST") and _follows_a_value(found[number - 1]):
            raise SqlError("found NEAREST behind TOLERANCE; it stands before", text=text, position=found[number].start)
    end = rest[-1]
    if found[end].says(*OPENING):  # what is inside is not among them
        end = closing(found, end, last) or end
    join.tolerance = (found[rest[0]].start, found[end].end)
    join.spans.append((found[at].start, found[end].end))

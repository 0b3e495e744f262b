"""The parts of ``SITUATIONS (...)`` and ``DERIVE (...)``, read in the order in which they stand.

::

    SITUATIONS (
        [PARTITION BY column, ...]
        [ORDER BY column]
        DEFINE name AS condition [AT LEAST length | AT MOST length | BETWEEN length AND length], ...
        PATTERN name relation [| relation ...] name [AND name relation ... name ...]
        WITHIN length
        [RETURN expression AS name, ...]
        [MODE COMPLETED | EARLY] [RELATIONS ALLEN | THESIS]
    )
    DERIVE (
        [PARTITION BY column, ...]
        [ORDER BY column]
        DEFINE ...
        [RETURN aggregate AS name, ...]
    )

What is read are nodes, so that whatever goes through the tree of a statement, for parameters and the names of streams,
goes through them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from tidelog.operators.situations.syntax import Mode
from tidelog.sql.clauses.cutting import ClauseText, Syntax
from tidelog.sql.clauses.situations.advice import OTHER_ROWS, comma_before, outside
from tidelog.sql.clauses.situations.lengths import is_length, length_at
from tidelog.sql.clauses.situations.pattern import read_pattern
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import CLOSING, OPENING, Token
from tidelog.sql.text.tree import Node

SITUATIONS: Final = "SITUATIONS"
DERIVE: Final = "DERIVE"
WORDS: Final = (SITUATIONS, DERIVE)

DIALECTS: Final = ("ALLEN", "THESIS")
"""Whose words relations are; they differ in what *finishes* is."""
_FIRST: Final = "PARTITION BY, ORDER BY or DEFINE"
_PARTS: Final = {
    SITUATIONS: "PARTITION BY, ORDER BY, DEFINE, PATTERN, WITHIN, RETURN, MODE, RELATIONS",
    DERIVE: "PARTITION BY, ORDER BY, DEFINE, RETURN",
}
_CONDITION: Final = "a condition"
_BEGINNINGS: Final = ("PARTITION", "ORDER", "DEFINE", "PATTERN", "WITHIN", "RETURN", "MODE", "RELATIONS")
"""What parts begin with."""
_OPERATORS: Final = (
    *("AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "SIMILAR", "GLOB", "BETWEEN", "COLLATE", "AT", "AS"),
    *("THEN", "ELSE", "END", "WHEN"),
)
"""Words that stand behind a column, which may be called as a part of the clause begins."""


def read_clause(word: str, reader: ClauseText) -> Node:
    """What is between the parentheses. Raises :class:`SqlError` for what is no such clause."""
    found: Node = {
        "partition": _keys(reader) if reader.accept("PARTITION", "BY") else [],
        "time": _time(reader) if reader.accept("ORDER", "BY") else None,
    }
    if not reader.accept("DEFINE"):
        raise _misplaced(reader, "DEFINE")
    found["definitions"] = _definitions(reader)
    if word == SITUATIONS:
        if not reader.accept("PATTERN"):
            raise _misplaced(reader, "PATTERN")
        found["constraints"] = read_pattern(reader)
        place = reader.offset(reader.place)
        if not reader.accept("WITHIN"):
            raise _misplaced(reader, "WITHIN")
        found["within"] = _length(reader, "how long a match may last")
        found["within_place"] = {"query_location": place}
    found["returned"] = _returned(reader) if reader.accept("RETURN") else []
    if word == SITUATIONS:
        _options(reader, found)
    if reader.peek() is not None:
        raise _misplaced(reader)
    return found


def _misplaced(reader: ClauseText, missing: str = "") -> Exception:
    wanted = f"; {missing} is missing here" if missing else ""
    return reader.error(
        f"found {reader.peek_text()}; expected the parts of {reader.word} in their order: {_PARTS[reader.word]}, of "
        f"which only {'DEFINE, PATTERN and WITHIN have' if reader.word == SITUATIONS else 'DEFINE has'} to be there"
        f"{wanted}"
    )


def _keys(reader: ClauseText) -> list[Node]:
    keys = [_expression(reader, "a column to partition by", ",")]
    while reader.accept(","):
        keys.append(_expression(reader, "a column to partition by", ","))
    return keys


def _time(reader: ClauseText) -> Node:
    time = _expression(reader, "the column of the time", ",", "ASC", "DESC", "NULLS")
    if reader.comes(",", "ASC", "DESC", "NULLS"):
        raise reader.error(
            f"found {reader.peek_text()} behind ORDER BY; expected the column of the time alone: time rises"
        )
    return time


# -- definitions ------------------------------------------------------------------------------------------------------


def _definitions(reader: ClauseText) -> list[Node]:
    found = [_definition(reader)]
    while reader.accept(","):
        found.append(_definition(reader))
    return found


def _definition(reader: ClauseText) -> Node:
    if _begins_part(reader):
        raise reader.error(f"found {reader.peek_text()}; expected a definition, as in A AS speed > 50")
    found: Node = {"query_location": reader.offset(reader.place), "least": None, "most": None}
    found["name"] = reader.name("the name of a situation")
    if not reader.accept("AS"):
        name = found["name"]
        raise reader.error(
            f"found {reader.peek_text()}; expected AS and the condition for {name}, as in {name} AS x > 5"
        )
    inside = _until(reader, _CONDITION, ",", "AT LEAST", "AT MOST")
    if reader.accept("AT", "LEAST"):
        found["least"] = _length(reader, "how long a situation lasts at least")
    elif reader.accept("AT", "MOST"):
        found["most"] = _length(reader, "how long a situation lasts at the most")
    else:
        inside = _between(reader, inside, found)
    again = reader.peek()
    if again is not None and again.says("AT", "BETWEEN"):
        raise reader.error(
            f"found {again.text} behind a bound of the length; expected one of AT LEAST, AT MOST and BETWEEN"
        )
    found["condition"] = _read(reader, inside, _CONDITION)
    return found


def _between(reader: ClauseText, inside: list[Token], found: Node) -> list[Token]:
    """What is left of a definition without ``BETWEEN length AND length`` at its end, which is read."""
    begin = _last(inside, "BETWEEN")
    if begin is None or begin == 0:
        return inside
    middle = _last(inside[begin:], "AND")
    if middle is None:
        return inside
    least, most = inside[begin + 1 : begin + middle], inside[begin + middle + 1 :]
    if not is_length(least) or not is_length(most):
        return inside  # a condition on values
    found["least"] = length_at(reader, least, "how long a situation lasts at least")
    found["most"] = length_at(reader, most, "how long a situation lasts at the most")
    return inside[:begin]


def _last(inside: list[Token], word: str) -> int | None:
    """The number of the last token outside of parentheses that is a word."""
    depth, found = 0, None
    for number, token in enumerate(inside):
        depth += token.says(*OPENING) - token.says(*CLOSING)
        if depth == 0 and token.says(word):
            found = number
    return found


# -- what is returned -------------------------------------------------------------------------------------------------


def _returned(reader: ClauseText) -> list[Node]:
    found = []
    while True:
        place = reader.offset(reader.place)
        inside = _until(reader, "what is returned", ",", "AS")
        value = _read(reader, inside, "what is returned")
        if inside[-1].says("*"):
            raise reader.wrong(
                "found * behind RETURN; expected columns one by one, as in max(A.speed) AS top: without RETURN the "
                "starts and the ends of situations come out",
                inside[-1].start,
            )
        if not reader.accept("AS"):
            raise reader.error("found what is returned without a name; expected AS and one")
        found.append({"expression": value, "name": reader.name("the name of a column"), "query_location": place})
        if not reader.accept(","):
            return found


def _options(reader: ClauseText, found: Node) -> None:
    """How matches come out, and whose words relations are, in whatever order."""
    options = {"mode": ("MODE", tuple(each.name for each in Mode)), "dialect": ("RELATIONS", DIALECTS)}
    found.update({name: values[0] for name, (_, values) in options.items()})
    seen: set[str] = set()
    while True:
        name = next((name for name, (word, _) in options.items() if reader.comes(word)), None)
        if name is None:
            return
        word, values = options[name]
        if name in seen:
            raise reader.error(f"found a second {word}; expected one")
        seen.add(name)
        reader.take()
        if not reader.comes(*values):
            token = reader.peek()
            raise reader.error(f"found {'the end' if token is None else token.text}; expected {' or '.join(values)}")
        found[name] = reader.take().text.upper()


# -- expressions ------------------------------------------------------------------------------------------------------


def _expression(reader: ClauseText, what: str, *stops: str) -> Node:
    return _read(reader, _until(reader, what, *stops), what)


def _read(reader: ClauseText, inside: list[Token], what: str) -> Node:
    """The expression that some tokens say."""
    try:
        return reader.expression_at(inside[0].start, inside[-1].end, what)
    except SqlError as error:
        raise _advised(reader, inside, what, error) from None


def _advised(reader: ClauseText, inside: Sequence[Token], what: str, error: SqlError) -> SqlError:
    """What to say of tokens that are no expression, where it can be seen what was meant."""
    for token, following in pairwise(outside(inside)):
        if following.says("AS") and token.kind in ("word", "name") and what == _CONDITION:
            return comma_before(reader, token)
        if token.says("PATTERN") and following.says("(", "NOT"):
            return reader.wrong(
                f"found {following.text} in a pattern; expected constraints without parentheses and NOT, joined by "
                "AND: A before B AND B meets C",
                following.start,
            )
        if following.says("FOR", "LASTS", "LASTING", "DURING"):
            return reader.wrong(
                f"found {following.text} behind a condition; how long it holds is said by AT LEAST 5s, AT MOST 9s or "
                "BETWEEN 5s AND 9s",
                following.start,
            )
        if following.says("WHERE"):
            return reader.wrong(f"found WHERE; {OTHER_ROWS}", following.start)
    return error


def _length(reader: ClauseText, what: str) -> Node:
    """A length, which no column is part of, so that words of the clause are always those."""
    return length_at(reader, _until(reader, what, ",", "AT LEAST", "AT MOST", "BETWEEN", *_BEGINNINGS), what)


def _until(reader: ClauseText, what: str, *stops: str) -> list[Token]:
    """The tokens up to one of some words, or to what begins the next part of the clause."""
    inside: list[Token] = []
    depth = 0
    while (token := reader.peek()) is not None:
        if depth == 0 and (any(reader.comes_all(*each.split()) for each in stops) or _begins_part(reader)):
            break
        depth += token.says(*OPENING) - token.says(*CLOSING)
        inside.append(reader.take())
    if not inside:
        raise reader.error(f"found {'the end' if token is None else token.text}; expected {what}")
    return inside


def _begins_part(reader: ClauseText) -> bool:
    following = reader.peek(1)
    if not reader.comes(*_BEGINNINGS) or following is None or following.says(*_OPERATORS, *_BEGINNINGS):
        return False
    if reader.comes("WITHIN") and following.says("GROUP"):  # of an aggregate that takes its rows in an order
        return False
    return following.kind != "sign" or (reader.comes("WITHIN", "RETURN") and following.says("(", "?", "$", "-"))


SYNTAXES: Final = tuple(
    Syntax(
        word,
        partial(read_clause, word),
        is_behind=True,
        starts=_BEGINNINGS,
        first=_FIRST,
        advice="; a semicolon ends the statement, alternatives of relations are parted by |",
    )
    for word in WORDS
)

"""What could stand where somebody is typing: names of streams and columns, functions and words of SQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.cli.shell.commands import COMMANDS, FORMS
from tidelog.cli.shell.inputs import MARK
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import Token, tokens

_BEFORE_STREAMS: Final = ("FROM", "JOIN", "INTO", "STREAM", "DESCRIBE", "DESC", "SUMMARIZE", "TABLE")
_MOST_STREAMS: Final = 100
"""Streams whose columns are offered before one is mentioned: each has to be looked at."""
_WORD: Final = re.compile(r"[\w$]*$")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

KEYWORDS: Final = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "QUALIFY", "LIMIT", "OFFSET", "WITH", "RECURSIVE"),
    *("AS", "ON", "USING", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "ASOF", "SEMI", "ANTI"),
    *("UNION", "INTERSECT", "EXCEPT", "ALL", "DISTINCT", "ASC", "DESC", "NULLS FIRST", "NULLS LAST", "OVER"),
    *("PARTITION BY", "ROWS", "RANGE", "BETWEEN", "PRECEDING", "FOLLOWING", "UNBOUNDED", "CURRENT ROW", "FILTER"),
    *("AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "ILIKE", "EXISTS", "CASE", "WHEN", "THEN", "ELSE", "END"),
    *("CAST", "TRY_CAST", "INTERVAL", "TIMESTAMP", "DATE", "TRUE", "FALSE", "VALUES", "EXCLUDE", "REPLACE", "AT"),
    *("VERSION", "EXPLAIN", "ANALYZE", "DESCRIBE", "SUMMARIZE", "SHOW STREAMS", "SHOW OPTIONS FROM", "PIVOT"),
    *("UNPIVOT", "CREATE STREAM", "ALTER STREAM", "DROP STREAM", "INSERT INTO", "DELETE FROM", "BY NAME", "IF"),
    *("ADD COLUMN", "ADD AGGREGATE", "DROP AGGREGATE", "RENAME", "TO", "SET", "TYPE", "BIGINT", "BOOLEAN", "DOUBLE"),
    *("INTEGER", "VARCHAR", "TIMESTAMPTZ", "BLOB", "DECIMAL"),
)


class Names(Protocol):
    """What names there are."""

    def streams(self) -> Sequence[str]:
        """All streams."""

    def columns(self, stream: str) -> Sequence[str]:
        """The columns of a stream."""

    def functions(self) -> Iterable[str]:
        """The functions that statements may call."""

    def reserved(self) -> Collection[str]:
        """Words that are names only in quotes, in lower case."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Texts that could stand in the place of the last characters before the cursor: of so many."""

    replaced: int
    texts: Sequence[str]


def offer(before: str, behind: str, names: Names) -> Offer:
    """What could complete the word between two parts of a text, the likely first."""
    if before.lstrip().startswith(MARK):
        return _of_command(before.lstrip(), names)
    try:
        read = tokens(before)
        typed = _WORD.search(before)[0]  # type: ignore[index]  # it finds at least nothing
        quote = ""
    except SqlError as error:
        place = len(before) if error.position is None else error.position
        if before[place : place + 1] != '"':
            return Offer(0, ())  # inside of a text or a comment
        read, typed, quote = tokens(before[:place]), before[place + 1 :], '"'
    if not quote and _is_in_comment(before):
        return Offer(0, ())
    if typed and not quote and read and read[-1].end == len(before):
        if not read[-1].text.endswith(typed) or read[-1].kind not in ("word", "number"):
            return Offer(0, ())
        read = read[:-1]
    found = _names(read, _tokens(behind), names, bool(typed or quote))
    if not quote:
        found = [_named(name, names) for name in found]
        if typed and not (read and read[-1].says(".", *_BEFORE_STREAMS)):
            found += [*sorted(names.functions()), *_words(typed)]
    else:
        found = [_quoted(name) for name in found]
    begin = (quote + typed).lower()
    # What is plain may be quoted too, and what is typed without quotes may need them.
    fits = [text for text in found if text.lower().startswith(begin) or text.lower().startswith('"' + begin)]
    return Offer(len(quote + typed), list(dict.fromkeys(fits)))


def _names(read: Sequence[Token], behind: Sequence[Token], names: Names, is_begun: bool) -> list[str]:
    """Streams and columns that could come next."""
    streams = list(names.streams())
    last = read[-1] if read else None
    if last is not None and last.says(*_BEFORE_STREAMS):
        return streams
    mentioned = _mentioned([*read, *behind], streams)
    if last is not None and last.says("."):
        owner = read[-2].value.lower() if len(read) > 1 else ""
        return list(names.columns(mentioned[owner])) if owner in mentioned else []
    if not is_begun:
        return []
    of = list(dict.fromkeys(mentioned.values())) or streams[:_MOST_STREAMS]
    return [*dict.fromkeys(column for stream in of for column in names.columns(stream)), *streams]


def _mentioned(read: Sequence[Token], streams: Sequence[str]) -> dict[str, str]:
    """The streams that are mentioned, by their names in lower case and by the names they are given."""
    known = {name.lower(): name for name in streams}
    found: dict[str, str] = {}
    for index, token in enumerate(read):
        before = read[index - 1] if index else None
        if token.kind not in ("word", "name") or token.value.lower() not in known:
            continue
        if before is None or not before.says(*_BEFORE_STREAMS, ","):
            continue
        stream = found[token.value.lower()] = known[token.value.lower()]
        rest = [each for each in read[index + 1 : index + 3] if not each.says("AS")]
        if rest and (rest[0].kind == "name" or (rest[0].kind == "word" and rest[0].text.upper() not in _FIRSTS)):
            found[rest[0].value.lower()] = stream
    return found


_FIRSTS: Final = frozenset(words.split()[0] for words in KEYWORDS)


def _words(typed: str) -> list[str]:
    """Keywords in the case in which somebody types."""
    return [word.lower() for word in KEYWORDS] if typed.islower() else list(KEYWORDS)


def _named(name: str, names: Names) -> str:
    is_plain = _PLAIN.fullmatch(name) and name.lower() not in names.reserved()
    return name if is_plain else _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tokens(text: str) -> Sequence[Token]:
    try:
        return tokens(text)
    except SqlError:
        return []


def _is_in_comment(before: str) -> bool:
    """Whether a text ends within a comment up to the end of its line: a word behind it would not be read."""
    return len(_tokens(before)) == len(_tokens(before + " x"))


def _of_command(before: str, names: Names) -> Offer:
    name, space, argument = before.removeprefix(MARK).partition(" ")
    if not space:
        return Offer(len(before), [MARK + each for each in COMMANDS if each.startswith(name)])
    known: Sequence[str] = ()
    if name == "d":
        known = names.streams()
    elif name == "format":
        known = FORMS
    elif name == "timing":
        known = ("on", "off")
    typed = argument.lstrip()
    return Offer(len(typed), [str(each) for each in known if each.lower().startswith(typed.lower())])

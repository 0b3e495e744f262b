"""Texts of SQL as tokens: enough to tell statements apart and to read those of tidelog's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.sql.errors import SqlError

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<text>[eE]?'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<name>"(?:[^"]|"")*")
    |(?P<word>[^\W\d][\w$]*)
    |(?P<number>\d[\w.]*)
    |(?P<sign>=>|::|[<>!=]=|<>|.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A part of a statement: a ``word``, a quoted ``name``, a ``text``, a ``number`` or a ``sign``."""

    kind: str
    text: str
    start: int
    end: int

    def says(self, *words: str) -> bool:
        """Whether it is one of some words, or signs, in whatever case."""
        return self.kind in ("word", "sign") and self.text.upper() in words

    @property
    def value(self) -> str:
        """What it means: a name or a text without its quotes."""
        if self.kind == "name":
            return self.text[1:-1].replace('""', '"')
        if self.kind == "text" and self.text.startswith("'"):
            return self.text[1:-1].replace("''", "'")
        return self.text


def tokens(text: str) -> list[Token]:
    """The tokens of a text, without spaces and comments. Raises :class:`SqlError` for a quote that is not closed."""
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "tag" else "text"
        if kind is None or kind == "space":
            continue
        if kind == "sign" and match[0] in "'\"":
            raise SqlError(f"found {match[0]} that is not closed", text=text, position=match.start())
        if text.startswith("/*", match.start()) and kind == "sign":
            raise SqlError("found a comment that is not closed", text=text, position=match.start())
        found.append(Token(kind, match[0], match.start(), match.end()))
    return found


def statements(text: str) -> list[tuple[str, int]]:
    """The statements of a text, which semicolons end, each with the place where it begins."""
    found = []
    start = None
    end = 0
    for token in tokens(text):
        if token.says(";"):
            if start is not None:
                found.append((text[start:end], start))
            start = None
            continue
        start = token.start if start is None else start
        end = token.end
    if start is not None:
        found.append((text[start:end], start))
    return found


class Reader:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens: Sequence[Token] = tokens(text)
        self._next = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """A token that was not read yet; None at the end."""
        at = self._next + ahead
        return self._tokens[at] if at < len(self._tokens) else None

    def take(self) -> Token:
        """The next token."""
        token = self.peek()
        if token is None:
            raise self.error("the statement ends here; expected more")
        self._next += 1
        return token

    def accept(self, *words: str) -> bool:
        """Read words if they are next, all of them."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token is None or not token.says(word):
                return False
        self._next += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Read words. Raises :class:`SqlError` if others are next."""
        for word in words:
            if not self.accept(word):
                token = self.peek()
                raise self.error(f"found {token.text if token else 'the end'}; expected {word}")

    def name(self, what: str) -> str:
        """A name, quoted or not."""
        token = self.peek()
        if token is None or token.kind not in ("word", "name", "text"):
            raise self.error(f"found {token.text if token else 'the end'}; expected {what}")
        return self.take().value

    def rest(self) -> str:
        """The text of all that was not read yet."""
        token = self.peek()
        return "" if token is None else self.text[token.start :]

    def ends(self) -> None:
        """Raise if something is left."""
        token = self.peek()
        if token is not None:
            raise self.error(f"found {token.text}; expected the end of the statement")

    def error(self, message: str) -> SqlError:
        """An error at the next token."""
        token = self.peek()
        return SqlError(message, text=self.text, position=len(self.text) if token is None else token.start)

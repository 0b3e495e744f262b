"""Texts of SQL as tokens: enough to tell statements apart and to read those of tidelog's own."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.sql.errors import SqlError

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
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
        """Whether it is one of some words, or signs, in whatever case; letters that only look alike are others."""
        return self.kind in ("word", "sign") and self.text.isascii() and self.text.upper() in words

    @property
    def value(self) -> str:
        """What it means: a name or a text without its quotes."""
        if self.kind == "name":
            return self.text[1:-1].replace('""', '"')
        if self.kind == "text" and self.text.startswith("'"):
            return self.text[1:-1].replace("''", "'")
        return self.text


@functools.lru_cache(maxsize=16)  # a text is read for its statements, for its parameters and for what it says
def tokens(text: str) -> tuple[Token, ...]:
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
    return tuple(found)


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


OPENING: Final = ("(", "[", "{")
CLOSING: Final = (")", "]", "}")


def closing(found: Sequence[Token], at: int, last: int) -> int | None:
    """The number of the token that closes a parenthesis, which is a token too; None if none up to the last one does."""
    depth = 0
    for number in range(at, last + 1):
        depth += found[number].says(*OPENING) - found[number].says(*CLOSING)
        if depth == 0:
            return number
    return None


def pattern_places(found: Sequence[Token]) -> frozenset[int]:
    """Where tokens inside of ``PATTERN (...)`` begin, in which ``?`` and ``$`` are no parameters."""
    if not any(token.says("MATCH_RECOGNIZE", "OVER", "WINDOW") for token in found):
        return frozenset()
    places: set[int] = set()
    for at, token in enumerate(found[:-1]):
        if token.says("PATTERN") and found[at + 1].says("("):
            last = closing(found, at + 1, len(found) - 1)
            places.update(each.start for each in found[at : last or at])
    return frozenset(places)


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
        if not self.comes_all(*words):
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
        if token is None or token.kind not in ("word", "name"):
            raise self.error(f"found {token.text if token else 'the end'}; expected {what}")
        return self.take().value

    def until(self, what: str, *stops: str) -> tuple[int, int]:
        """Where what comes next is, up to one of some words or signs, or to what closes parentheses around it.

        Raises :class:`SqlError` if there is nothing.
        """
        start, depth = self.peek(), 0
        end = None
        while (token := self.peek()) is not None:
            if depth == 0 and token.says(*stops, *CLOSING):
                break
            depth += token.says(*OPENING) - token.says(*CLOSING)
            end = self.take().end
        if start is None or end is None:
            raise self.error(f"found {start.text if start else 'the end'}; expected {what}")
        return start.start, end

    def comes(self, *words: str) -> bool:
        """Whether one of some words, or signs, is next."""
        token = self.peek()
        return token is not None and token.says(*words)

    def comes_all(self, *words: str) -> bool:
        """Whether some words are next, one after the other."""
        found = [self.peek(ahead) for ahead in range(len(words))]
        return all(token is not None and token.says(word) for token, word in zip(found, words, strict=True))

    @property
    def place(self) -> int:
        """Where the next token begins."""
        token = self.peek()
        return len(self.text) if token is None else token.start

    def ends(self) -> None:
        """Raise if something is left."""
        token = self.peek()
        if token is not None:
            raise self.error(f"found {token.text}; expected the end of the statement")

    def error(self, message: str) -> SqlError:
        """An error at the next token."""
        return SqlError(message, text=self.text, position=self.place)

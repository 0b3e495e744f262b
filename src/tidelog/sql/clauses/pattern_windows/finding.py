"""Windows with row patterns, found among the tokens of a text, and what is computed over them.

DuckDB reads neither a pattern nor ``measure OVER w``. So what follows the keys of such a window becomes a frame that
names the window, by which calls of functions over it are known in the tree, and ``measure OVER w`` becomes the name of
a column. Names of windows count inside of one SELECT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.sql.text.tokens import CLOSING, OPENING, Token, closing

MARK: Final = "\1"
"""What names begin with that stand for parts of the text: no name that somebody gives does."""
_QUERIES: Final = ("SELECT", "WITH", "FROM")
_UNITING: Final = ("UNION", "INTERSECT", "EXCEPT")
_UNITS: Final = ("ROWS", "RANGE", "GROUPS")


@dataclass(slots=True)
class Window:
    """A window that was defined, by a name or where it is used."""

    name: str
    """In lower case; empty if it has none."""
    scope: int
    """The number of the token with which the SELECT begins that it counts in."""
    open: int
    last: int
    """The numbers of its parentheses."""
    tail: int | None
    """The number of the token behind its keys; None if it has no pattern."""


@dataclass(slots=True)
class Use:
    """``measure OVER w``."""

    measure: int
    """The number of the measure's token."""
    last: int
    """The number of its last token."""
    window: Window


@dataclass(slots=True)
class PatternWindows:
    """All of a text, or of a part of one."""

    windows: list[Window] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)

    @property
    def patterns(self) -> list[Window]:
        """Those with a pattern."""
        return [each for each in self.windows if each.tail is not None]

    def base(self, window: Window, name: str) -> Window | None:
        """The window of a name in the scope of another one."""
        return _known(self.windows, window.scope, name)

    def pieces(self, found: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
        """Parts of the text, and what stands in their place while DuckDB reads it."""
        for number, use in enumerate(self.uses):
            yield found[use.measure].start, found[use.last].end, f'"{MARK}m{number}"'
        inside = [range(use.measure, use.last + 1) for use in self.uses]
        for number, window in enumerate(self.patterns):
            if window.tail is not None and not any(window.open in each for each in inside):
                yield found[window.tail].start, found[window.last].start, f'ROWS "{MARK}w{number}" PRECEDING'


def pattern_windows(
    found: Sequence[Token], first: int, last: int, outside: Sequence[tuple[int, int]]
) -> PatternWindows:
    """Windows among some tokens, but for those between some places; without any if none of them has a pattern."""
    own = PatternWindows()
    numbers = [at for at in range(first, last) if not any(low <= found[at].start < high for low, high in outside)]
    for at in numbers:
        if found[at].says("OVER") and found[at + 1].says("("):
            close = closing(found, at + 1, last)
            if close is not None and (tail := _tail(found, at + 1, close)) is not None:
                own.windows.append(Window("", _scope(found, at, first), at + 1, close, tail))
        elif found[at].says("WINDOW"):
            own.windows += _defined(found, at, first, last)
    if not own.patterns:
        return PatternWindows()
    for at in numbers:
        if found[at].says("OVER") and at > first and found[at - 1].kind in ("word", "name"):
            own.uses += _use(found, at, first, own.windows)
    return own


def begins_frame(found: Sequence[Token | None]) -> bool:
    """Whether tokens are the beginning of a frame; of a frame there are at least four."""
    one, two, three, four = found
    if one is None or two is None or not one.says(*_UNITS):
        return False
    if two.says("CURRENT", "UNBOUNDED"):
        return True
    if three is None or not two.says("BETWEEN"):
        return False
    return three.says("CURRENT", "UNBOUNDED") or (four is not None and four.says("PRECEDING", "FOLLOWING"))


def _defined(found: Sequence[Token], at: int, first: int, last: int) -> Iterator[Window]:
    """The windows behind the word WINDOW."""
    scope = _scope(found, at, first)
    while at + 3 <= last and found[at + 1].kind in ("word", "name") and found[at + 2].says("AS"):
        close = closing(found, at + 3, last) if found[at + 3].says("(") else None
        if close is None:
            return
        yield Window(found[at + 1].value.lower(), scope, at + 3, close, _tail(found, at + 3, close))
        if close + 1 > last or not found[close + 1].says(","):
            return
        at = close + 1


def _tail(found: Sequence[Token], at: int, close: int) -> int | None:
    """Where the keys of a window end; None if it has no pattern."""
    tail, depth, has_pattern = None, 0, False
    for number in range(at + 1, close):
        token = found[number]
        if depth == 0:
            ahead = [found[each] if each < close else None for each in range(number, number + 4)]
            has_pattern |= token.says("PATTERN") and found[number + 1].says("(")
            is_column = found[number - 1].says("BY", ",", ".")
            begins = token.says("MEASURES", "AFTER", "INITIAL", "SEEK") and not is_column
            begins |= token.says("PATTERN") or begins_frame(ahead)
            tail = number if begins and tail is None else tail
        depth += token.says(*OPENING) - token.says(*CLOSING)
    return tail if has_pattern else None


def _use(found: Sequence[Token], at: int, first: int, windows: Sequence[Window]) -> Iterator[Use]:
    """What is computed over a window with a pattern by the word OVER, if that is a measure."""
    if found[at - 1].says("NULLS"):
        return
    if found[at + 1].says("("):
        own = next((each for each in windows if each.open == at + 1), None)
    else:
        own = _known(windows, _scope(found, at, first), found[at + 1].value.lower())
    if own is not None and own.tail is not None:
        yield Use(at - 1, at + 1 if own.name else own.last, own)


def _known(windows: Sequence[Window], scope: int, name: str) -> Window | None:
    return next((each for each in windows if each.scope == scope and each.name == name.lower() and name), None)


def _scope(found: Sequence[Token], at: int, first: int) -> int:
    """The number of the token with which the SELECT begins that a token is in."""
    depth = 0
    while at > first:
        token = found[at - 1]
        if token.says(*CLOSING):
            depth += 1
        elif token.says(*OPENING) and depth:
            depth -= 1
        elif (token.says(*OPENING) and found[at].says(*_QUERIES)) or (token.says(*_UNITING) and not depth):
            return at
        at -= 1
    return first

"""Whether a quote of a CSV input is still open, and in which line it was opened.

A quote that is never closed makes one value of all that follows, which the parser takes without a word.
"""

from __future__ import annotations

from typing import Final

import numpy as np

_QUOTE: Final = ord('"')
_NEWLINE: Final = ord("\n")
_RETURN: Final = ord("\r")


class QuoteWatch:
    """Follows the content of an input piece by piece, by the rules of the parser.

    A quote at the beginning of a value opens it. The next one closes it, but two of them stand for one. Quotes anywhere
    else mean themselves.
    """

    def __init__(self, delimiter: str) -> None:
        self._before_values = (ord(delimiter), _NEWLINE, _RETURN)
        self._last = _NEWLINE
        self._has_closed = False
        """Whether the last byte closed a value."""
        self._lines = 1
        self.is_open = False
        self.line = 0
        """The line, counted from 1, in which the value began that is open."""

    def feed(self, data: bytes) -> None:
        """Follow the next bytes of the input."""
        if self._lines == 1 and self._last == _NEWLINE:
            data = data.removeprefix(b"\xef\xbb\xbf")
        if not data:
            return
        if b'"' in data:
            self._follow(data)
        else:
            self._has_closed = False
        self._lines += data.count(b"\n")
        self._last = data[-1]

    def _follow(self, data: bytes) -> None:
        values = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(values == _QUOTE)
        before = values[quotes - 1]
        if quotes[0] == 0:
            before[0] = self._last if self._last != _QUOTE or self._has_closed else 0
        # If each quote that would open a value, were they to open and close in turn, may do so, they do.
        opens = (np.arange(len(quotes)) + self.is_open) % 2 == 0
        begins = np.isin(before, self._before_values)
        if not np.all(begins[opens] | (before[opens] == _QUOTE)):
            self._follow_slowly(data, quotes.tolist(), before.tolist())
            return
        self.is_open = bool(opens[-1])
        self._has_closed = not self.is_open and int(quotes[-1]) == len(data) - 1
        if self.is_open or self._has_closed:  # and would be open again if one more followed
            beginnings = quotes[opens & begins]
            if len(beginnings):  # else it was opened before, and all that came since are two for one
                self._begin(data, int(beginnings[-1]))

    def _follow_slowly(self, data: bytes, quotes: list[int], before: list[int]) -> None:
        closed_at = -1 if self._has_closed else -2
        began_at = None
        for place, sign in zip(quotes, before, strict=True):
            if self.is_open:
                self.is_open, closed_at = False, place
            elif sign in self._before_values:
                self.is_open, began_at = True, place
            elif sign == _QUOTE and closed_at == place - 1:
                self.is_open = True
        self._has_closed = closed_at == len(data) - 1 and not self.is_open
        if (self.is_open or self._has_closed) and began_at is not None:
            self._begin(data, began_at)

    def _begin(self, data: bytes, place: int) -> None:
        self.line = self._lines + data.count(b"\n", 0, place)

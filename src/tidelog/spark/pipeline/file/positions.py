"""Where the keys and values of a TOML text stand.

The standard library reads TOML without saying where anything was, and libraries that keep the text do not tell lines
either. This is one pass over a text that :mod:`tomllib` has accepted, so it need not look for mistakes: it follows the
keys, steps over the values, and notes where each begins and ends.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value from the top; elements of arrays are counted from 0."""

_BLANK: Final = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACES: Final = re.compile(r"[ \t]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")
_BASIC: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL: Final = re.compile(r"'[^'\n]*'")
# A closing delimiter takes all quotes there are: one or two before it belong to the text.
_LONG_BASIC: Final = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL)
_LONG_LITERAL: Final = re.compile(r"'''(?:[^']|'(?!''))*'{3,5}", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """Offsets into the text; for a table that has a header, ``value`` and ``end`` are those of the header."""

    key: int
    value: int
    end: int
    """Behind the last character of the value."""


def positions(text: str) -> Mapping[KeyPath, Entry]:
    """Where every table, key and element of a valid TOML text stands; lines end in ``\\n`` alone.

    Tables that exist only as a part of longer names (``[a.b]`` makes ``a``) stand where they are first named.
    """
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[KeyPath, Entry] = {}
        self._lengths: dict[KeyPath, int] = {}
        """Of arrays of tables, how many there have been."""

    def scan(self) -> dict[KeyPath, Entry]:
        table: KeyPath = ()
        while self._go(_BLANK).is_ahead():
            table = self._header() if self._text[self._at] == "[" else self._pair(table)
        return self._found

    def is_ahead(self) -> bool:
        return self._at < len(self._text)

    def _go(self, pattern: re.Pattern[str]) -> _Scanner:
        match = pattern.match(self._text, self._at)
        assert match is not None, f"no valid TOML at offset {self._at}"
        self._at = match.end()
        return self

    def _header(self) -> KeyPath:
        start = self._at
        is_array = self._text.startswith("[[", start)
        self._at += 2 if is_array else 1
        keys = self._keys()
        self._at += 2 if is_array else 1
        entry = Entry(start, start, self._at)
        path: KeyPath = ()
        for depth, key in enumerate(keys, start=1):
            path = (*path, key)
            self._found.setdefault(path, entry)
            if is_array and depth == len(keys):
                self._lengths[path] = self._lengths.get(path, 0) + 1
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)
                self._found.setdefault(path, entry)
        return path

    def _pair(self, table: KeyPath) -> KeyPath:
        """A key with its value below ``table``; returns ``table``, which goes on behind it."""
        start = self._at
        keys = self._keys()
        self._at += 1  # the equals sign
        self._go(_SPACES)
        path = table
        for key in keys[:-1]:
            path = (*path, key)
            self._found.setdefault(path, Entry(start, start, self._at))
        self._value((*path, keys[-1]), start)
        return table

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._go(_SPACES)
            start, sign = self._at, self._text[self._at]
            self._go(_BASIC if sign == '"' else _LITERAL if sign == "'" else _BARE_KEY)
            written = self._text[start : self._at]
            keys.append(next(iter(tomllib.loads(f"{written}=0"))) if sign in "\"'" else written)
            self._go(_SPACES)
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _value(self, path: KeyPath, key: int) -> None:
        start, sign = self._at, self._text[self._at]
        if sign == "[":
            self._elements(path, "]")
        elif sign == "{":
            self._elements(path, "}")
        elif sign == '"':
            self._go(_LONG_BASIC if self._text.startswith('"""', start) else _BASIC)
        elif sign == "'":
            self._go(_LONG_LITERAL if self._text.startswith("'''", start) else _LITERAL)
        else:
            self._go(_SCALAR)
            self._at -= len(self._text[start : self._at]) - len(self._text[start : self._at].rstrip())
        self._found[path] = Entry(key, start, self._at)
        self._go(_SPACES)

    def _elements(self, path: KeyPath, closing: str) -> None:
        self._at += 1
        index = 0
        while self._text[self._go(_BLANK)._at] != closing:
            if closing == "]":
                self._value((*path, index), self._at)
                index += 1
            else:
                self._pair(path)
            if self._text[self._go(_BLANK)._at] == ",":
                self._at += 1
        self._at += 1

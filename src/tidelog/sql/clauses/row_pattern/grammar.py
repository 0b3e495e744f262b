"""``PATTERN (...)``: a regular expression over variables, from tokens to what it means.

::

    pattern     alternatives of sequences, parted by |
    sequence    parts one after the other
    part        primary, perhaps with * + ? {n} {n,} {,m} {n,m} {,}, and perhaps a further ? that makes it reluctant
    primary     variable  |  ( pattern )  |  ()  |  ^  |  $  |  {- pattern -}  |  PERMUTE ( pattern, ... )
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tidelog.operators.rowpattern.syntax import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Variable,
)
from tidelog.sql.clauses.cutting import ClauseText
from tidelog.sql.errors import SqlError
from tidelog.sql.text.tokens import Token

Part: TypeAlias = dict[str, Any]
"""A part of a pattern as it was read: its ``kind``, what that has, and where it stands in the text."""

_MOST: Final = 1_000_000
"""What a quantifier may count to."""
_MOST_PERMUTED: Final = 7
"""Parts that come in any order, of which there are more than steps of a program with more."""
_DEEPEST: Final = 200
"""Groups inside of each other."""
_ELSEWHERE: Final = {
    ",": "what comes next stands behind a space, as in A B",
    "-": "what comes next stands behind a space, as in A B",
    "!": "rows that are not like A are a variable, as in DEFINE B AS NOT ...",
    "~": "rows that are not like A are a variable, as in DEFINE B AS NOT ...",
    "&": "what holds of one row is one condition, as in DEFINE A AS ... AND ...",
    ".": "any row is a variable without a condition",
    "[": "one of several is (A | B)",
    "AND": "what comes next stands behind a space, as in A B",
    "OR": "one of several is A | B",
    "NOT": "rows that are not like A are a variable, as in DEFINE B AS NOT ...",
}
"""What other languages of patterns write, and what that is here. Words are variables in quotes."""


def read_pattern(reader: ClauseText) -> Part:
    """Read a pattern with the parentheses around it. Raises :class:`SqlError` for what is none."""
    return _PatternReader(reader).whole()


@dataclass(slots=True)
class _PatternReader:
    reader: ClauseText
    pending: Part | None = None
    """An end that was written right behind a name, as in ``B$``."""
    depth: int = 0

    def whole(self) -> Part:
        self.reader.expect("(")
        found = self._alternatives()
        self._close()
        return found

    def _close(self) -> None:
        if self.reader.comes(","):
            raise self._foreign()
        self.reader.expect(")")

    def _foreign(self) -> SqlError:
        """An error about what stands in no pattern."""
        text = self._next()
        told = _ELSEWHERE.get(text.upper(), "expected a variable, a group, ^, $, {- or PERMUTE")
        return self.reader.error(f"found {text} in a pattern; {told}")

    def _alternatives(self) -> Part:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.reader.error(f"found groups more than {_DEEPEST} deep in a pattern; expected less")
        parts = [self._sequence()]
        while self.reader.accept("|"):
            parts.append(self._sequence())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else {"kind": "alternation", "parts": parts}

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while not self._is_end():
            parts.append(self._quantified(self._primary()))
            if self.pending is not None:
                parts.append(self.pending)
                self.pending = None
        if not parts:
            if self._is_empty_group():
                return {"kind": "empty"}
            raise self.reader.error(f"found {self._next()}; expected a variable, or () for no row")
        return parts[0] if len(parts) == 1 else {"kind": "concatenation", "parts": parts}

    def _is_empty_group(self) -> bool:
        before = self.reader.peek(-1)
        return self.reader.comes(")") and before is not None and before.says("(")

    def _is_end(self) -> bool:
        reader = self.reader
        return reader.peek() is None or reader.comes("|", ")", ",") or reader.comes_all("-", "}")

    def _primary(self) -> Part:
        reader = self.reader
        token = reader.peek()
        assert token is not None
        if reader.accept("("):
            found = self._alternatives()
            self._close()
            return {"kind": "group", "part": found}
        if reader.accept("^"):
            return {"kind": "anchor", "is_start": True, "query_location": self.reader.offset(token.start)}
        if reader.accept("$"):
            return {"kind": "anchor", "is_start": False, "query_location": self.reader.offset(token.start)}
        if reader.accept("{", "-"):
            found = self._alternatives()
            reader.expect("-", "}")
            return {"kind": "exclusion", "part": found, "query_location": self.reader.offset(token.start)}
        if reader.comes("PERMUTE"):
            return self._permutation()
        if token.kind in ("word", "name") and not token.says("AND", "OR", "NOT"):
            return self._variable(reader.take())
        raise self._foreign()

    def _permutation(self) -> Part:
        reader, token = self.reader, self.reader.take()
        if not reader.accept("("):
            raise reader.wrong("found PERMUTE without parts; expected PERMUTE(A, B)", token.start)
        if reader.comes(")"):
            raise reader.wrong("found PERMUTE of no parts; expected some, as in PERMUTE(A, B)", token.start)
        parts = [self._alternatives()]
        while reader.accept(","):
            parts.append(self._alternatives())
        reader.expect(")")
        if len(parts) > _MOST_PERMUTED:
            raise reader.wrong(
                f"found PERMUTE of {len(parts)} parts; expected {_MOST_PERMUTED} at the most, as all orders count",
                token.start,
            )
        return parts[0] if len(parts) == 1 else {"kind": "permutation", "parts": parts}

    def _variable(self, token: Token) -> Part:
        name = token.value
        if token.kind == "word" and name.endswith("$"):  # names may end so, but nobody means it here
            name = name.rstrip("$")
            self.pending = {"kind": "anchor", "is_start": False, "query_location": self.reader.offset(token.end - 1)}
        place = self.reader.offset(token.start)
        return {"kind": "variable", "name": name, "is_quoted": token.kind == "name", "query_location": place}

    def _quantified(self, part: Part) -> Part:
        reader = self.reader
        token = reader.peek()
        if self.pending is not None or token is None:
            return part
        bounds: tuple[int, int | None]
        if reader.accept("*"):
            bounds = 0, None
        elif reader.accept("+"):
            bounds = 1, None
        elif reader.accept("?"):
            bounds = 0, 1
        elif reader.comes("{") and not reader.comes_all("{", "-"):
            reader.take()
            bounds = self._bounds(token)
        else:
            return part
        reluctant = reader.accept("?")
        again = reader.peek()
        if again is not None and (again.says("*", "+", "?") or (again.says("{") and not reader.comes_all("{", "-"))):
            raise reader.error(f"found {again.text} behind a quantifier; expected parentheses around what is repeated")
        least, most = bounds
        return {"kind": "quantified", "part": part, "least": least, "most": most, "is_greedy": not reluctant}

    def _bounds(self, brace: Token) -> tuple[int, int | None]:
        reader = self.reader
        least = None if reader.comes(",") else self._number()
        most: int | None = least
        if reader.accept(","):
            most = None if reader.comes("}") else self._number()
        reader.expect("}")
        low = least or 0
        if most is not None and (most < 1 or most < low):
            raise reader.wrong(
                f"found a quantifier of {low} to {most} times; expected at least once at the most, and not less than "
                "at the least",
                brace.start,
            )
        return low, most

    def _number(self) -> int:
        token = self.reader.take()
        if token.kind != "number" or not token.text.isascii() or not token.text.isdigit():
            raise self.reader.wrong(f"found {token.text}; expected a number of times", token.start)
        if len(token.text) > len(str(_MOST)) or int(token.text) > _MOST:
            raise self.reader.wrong(f"found {token.text} times; at most {_MOST:,} are counted", token.start)
        return int(token.text)

    def _next(self) -> str:
        token = self.reader.peek()
        return "the end" if token is None else token.text


def pattern_of(part: Part, names: Mapping[str, str]) -> Pattern:
    """What was read as a pattern; ``names`` has the names of variables by what they are in upper case."""
    match part["kind"]:
        case "variable":
            return Variable(names[part["name"].upper()])
        case "empty":
            return Empty()
        case "anchor":
            return Anchor(part["is_start"])
        case "group":
            return pattern_of(part["part"], names)
        case "exclusion":
            return Exclusion(pattern_of(part["part"], names))
        case "quantified":
            return Quantified(pattern_of(part["part"], names), part["least"], part["most"], part["is_greedy"])
        case "concatenation":
            return Concatenation(_all(part, names))
        case "alternation":
            return Alternation(_all(part, names))
        case "permutation":
            return Permutation(_all(part, names))
    raise AssertionError(part["kind"])


def _all(part: Part, names: Mapping[str, str]) -> tuple[Pattern, ...]:
    return tuple(pattern_of(each, names) for each in part["parts"])


def parts_of(part: Part) -> list[Part]:
    """A part and all parts inside of it, in the order of the text."""
    inner = [part["part"]] if "part" in part else part.get("parts", [])
    return [part, *(each for one in inner for each in parts_of(one))]

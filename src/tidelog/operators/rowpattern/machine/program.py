"""Patterns as programs: lists of instructions with preferences, and what can be said of them before they run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.operators.rowpattern.errors import PatternError
from tidelog.operators.rowpattern.opcodes import ACCEPT, END, FAIL, MATCH, SPLIT, START
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

MOST_INSTRUCTIONS: Final = 1 << 16
MOST_STATES: Final = 1 << 12

Ints32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Program:
    """Instructions, see :mod:`tidelog.operators.rowpattern.opcodes`; there is no way round without taking a row."""

    variables: tuple[str, ...]
    operations: Ints32
    first: Ints32
    second: Ints32
    excluded: npt.NDArray[np.bool_]
    """Which instructions match rows that do not come out."""
    entry: int
    least: int
    """How many rows a match has at least."""
    most: int | None
    """How many at the most; None for any number."""
    has_start: bool = False
    has_end: bool = False

    @property
    def is_nullable(self) -> bool:
        """Whether a match may have no rows."""
        return self.least == 0

    @cached_property
    def firsts(self) -> frozenset[str]:
        """The variables that the first row of a match may be bound to."""
        found = self._closure([self.entry], passes=True)
        return frozenset(self.variables[self.second[pc]] for pc in found)

    @cached_property
    def seconds(self) -> dict[int, frozenset[int]]:
        """For each variable that the first row may be bound to those of the row behind it, if there is always one."""
        found: dict[int, frozenset[int]] = {}
        for pc in self._closure([self.entry], passes=True):
            following = self._closure([int(self.first[pc])], passes=False)
            variable = int(self.second[pc])
            found[variable] = found.get(variable, frozenset()) | {int(self.second[each]) for each in following}
        return found

    @cached_property
    def marks(self) -> Ints32:
        """A number for each instruction that takes a row; -1 for others."""
        numbers = np.full(len(self.operations), -1, np.int32)
        takes = self.operations == MATCH
        numbers[takes] = np.arange(takes.sum())
        return numbers

    def peeked(self, tested: npt.NDArray[np.bool_]) -> tuple[Ints32, Ints32]:
        """Of both ways of each split the variable that takes a row at once, if rows are tested for it; else -1."""
        found = []
        for ways in (self.first, self.second):
            variables = self.second[ways]
            known = (self.operations == SPLIT) & (self.operations[ways] == MATCH)
            known &= tested[np.where(known, variables, 0)] if len(tested) else False
            found.append(np.where(known, variables, -1).astype(np.int32))
        return found[0], found[1]

    @cached_property
    def continuations(self) -> Ints32:
        """What may come next, by what came: for each state and variable the next state, or -1.

        State 0 is that of no rows within a partition, state 1 that at its beginning.
        """
        starts = [self._closure([self.entry], passes=False), self._closure([self.entry], passes=True)]
        numbers: dict[frozenset[int], int] = {}
        table: list[list[int]] = [[], []]
        waiting: list[tuple[int, frozenset[int]]] = [(0, starts[0]), (1, starts[1])]
        while waiting:
            number, state = waiting.pop()
            row = [-1] * len(self.variables)
            for variable in range(len(self.variables)):
                taken = [int(self.first[pc]) for pc in state if self.second[pc] == variable]
                if not taken:
                    continue
                following = self._closure(taken, passes=False)
                if following not in numbers:
                    if len(table) >= MOST_STATES:
                        raise PatternError(
                            f"found a pattern with more than {MOST_STATES:,} ways of going on for SKIP TILL NEXT; "
                            "expected a simpler one: fewer alternatives that begin in the same way"
                        )
                    numbers[following] = len(table)
                    table.append([])
                    waiting.append((numbers[following], following))
                row[variable] = numbers[following]
            table[number] = row
        return np.array(table, np.int32).reshape(len(table), len(self.variables))

    def _closure(self, entries: Iterable[int], *, passes: bool) -> frozenset[int]:
        """The instructions that take a row next; ``passes`` tells whether it is at the beginning of a partition."""
        found: set[int] = set()
        known: set[int] = set()
        waiting = list(entries)
        while waiting:
            pc = waiting.pop()
            if pc in known:
                continue
            known.add(pc)
            operation = self.operations[pc]
            if operation == MATCH:
                found.add(pc)
            elif operation == SPLIT:
                waiting += [int(self.first[pc]), int(self.second[pc])]
            elif operation == START and passes:
                waiting.append(int(self.first[pc]))
        return frozenset(found)


def compiled(pattern: Pattern, variables: tuple[str, ...], *, reluctant: bool = False) -> Program:
    """The program of a pattern; ``reluctant`` makes all quantifiers so.

    Raises :class:`PatternError` for one that is too large.
    """
    writer = _Writer({name: place for place, name in enumerate(variables)}, reluctant)
    accept = writer.add(ACCEPT)
    try:
        entry = writer.plain(pattern, accept, excluded=False)
    except RecursionError:
        raise PatternError("found a pattern that is nested too deeply; expected fewer groups in one another") from None
    least, most = _lengths(pattern)
    return Program(
        variables,
        np.array(writer.operations, np.int32),
        np.array(writer.first, np.int32),
        np.array(writer.second, np.int32),
        np.array(writer.excluded, np.bool_),
        entry,
        least,
        most,
        START in writer.operations,
        END in writer.operations,
    )


@dataclass
class _Writer:
    """Writes programs from their ends on: each part is told where to go on behind it."""

    places: dict[str, int]
    reluctant: bool
    operations: list[int] = field(default_factory=lambda: [FAIL])
    first: list[int] = field(default_factory=lambda: [0])
    second: list[int] = field(default_factory=lambda: [0])
    excluded: list[bool] = field(default_factory=lambda: [False])

    def add(self, operation: int, first: int = 0, second: int = 0, *, excluded: bool = False) -> int:
        """Add an instruction; its place."""
        if len(self.operations) >= MOST_INSTRUCTIONS:
            raise PatternError(
                f"found a pattern of more than {MOST_INSTRUCTIONS:,} steps; expected fewer: quantifiers count as if "
                "they were written out, and PERMUTE as all its orders"
            )
        self.operations.append(operation)
        self.first.append(first)
        self.second.append(second)
        self.excluded.append(excluded)
        return len(self.operations) - 1

    def split(self, preferred: int, other: int) -> int:
        """One of two ways; a failure is none."""
        if preferred == 0 or other == 0 or preferred == other:
            return preferred or other
        return self.add(SPLIT, preferred, other)

    def plain(self, pattern: Pattern, behind: int, *, excluded: bool) -> int:
        """A part of the pattern; the place of its first instruction."""
        return self.fresh(pattern, behind, behind, excluded=excluded)

    def fresh(self, pattern: Pattern, empty: int, taken: int, *, excluded: bool) -> int:
        """The same, where it matters whether the part takes a row: ``empty`` follows if not, ``taken`` if it does."""
        match pattern:
            case Variable(name):
                return self.add(MATCH, taken, self.places[name], excluded=excluded)
            case Empty():
                return empty
            case Anchor(is_start):
                return self.add(START if is_start else END, empty) if empty else 0
            case Exclusion(part):
                return self.fresh(part, empty, taken, excluded=True)
            case Concatenation(parts):
                for part in reversed(parts):
                    empty, taken = self._both(part, empty, taken, excluded=excluded)
                return empty
            case Alternation(parts):
                entries = [self.fresh(part, empty, taken, excluded=excluded) for part in parts]
                entry = 0
                for each in reversed(entries):
                    entry = self.split(each, entry)
                return entry
            case Permutation(parts):
                if len(parts) * math.factorial(len(parts)) > MOST_INSTRUCTIONS:
                    raise PatternError(f"found PERMUTE of {len(parts)} parts; expected 7 at the most")
                orders = tuple(Concatenation(order) for order in permutations(parts))
                whole: Pattern = Alternation(orders) if len(orders) > 1 else parts[0]
                return self.fresh(whole, empty, taken, excluded=excluded)
            case Quantified():
                return self._quantified(pattern, empty, taken, excluded=excluded)

    def _both(self, part: Pattern, empty: int, taken: int, *, excluded: bool) -> tuple[int, int]:
        """A part where nothing has been taken before it, and where something has."""
        fresh = self.fresh(part, empty, taken, excluded=excluded)
        return fresh, fresh if empty == taken else self.plain(part, taken, excluded=excluded)

    def _quantified(self, quantified: Quantified, empty: int, taken: int, *, excluded: bool) -> int:
        part, least, most = quantified.part, quantified.least, quantified.most
        is_greedy = quantified.is_greedy and not self.reluctant
        no_row, after_row = empty, taken
        if most is None:
            loop = self.add(SPLIT)
            body = self.fresh(part, FAIL, loop, excluded=excluded)
            self.first[loop], self.second[loop] = (body, taken) if is_greedy else (taken, body)
            if body == FAIL:  # iterations would take no rows
                self.first[loop] = self.second[loop] = taken
            after_row = loop
            no_row = loop if empty == taken else self._choice(body, empty, is_greedy)
        for _ in range(0 if most is None else most - least):
            one, other = self._both(part, no_row, after_row, excluded=excluded)
            no_row, after_row = self._choice(one, empty, is_greedy), self._choice(other, taken, is_greedy)
            if empty == taken:
                after_row = no_row
        for _ in range(least):
            no_row, after_row = self._both(part, no_row, after_row, excluded=excluded)
        return no_row

    def _choice(self, more: int, enough: int, is_greedy: bool) -> int:
        return self.split(more, enough) if is_greedy else self.split(enough, more)


def _lengths(pattern: Pattern) -> tuple[int, int | None]:
    """How many rows a part takes at least, and at the most."""
    match pattern:
        case Variable():
            return 1, 1
        case Empty() | Anchor():
            return 0, 0
        case Exclusion(part):
            return _lengths(part)
        case Concatenation(parts) | Permutation(parts):
            found = [_lengths(part) for part in parts]
            mosts = [most for _, most in found if most is not None]
            return sum(least for least, _ in found), sum(mosts) if len(mosts) == len(found) else None
        case Alternation(parts):
            found = [_lengths(part) for part in parts]
            mosts = [most for _, most in found if most is not None]
            return min(least for least, _ in found), max(mosts) if len(mosts) == len(found) else None
        case Quantified(part, low, high):
            least, most = _lengths(part)
            if most == 0:
                return 0, 0
            return low * least, None if most is None or high is None else high * most

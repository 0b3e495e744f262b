"""Row patterns by their definition: all candidates of a start row in the order of preference, the first one that fits.

Nothing is clever here, and nothing is taken from the matcher but the values that patterns are written in. A candidate
is a list of rows, each bound to a variable. Candidates are enumerated in the standard's order: of an alternation the
first part before the second, of a greedy quantifier more before fewer, of PERMUTE the orders as they come in the
lexicographic order of places; each choice on the left counts before those right of it. Where the strategy lets rows be
skipped, fewer are skipped before more. A candidate fits if the condition of every row holds, given the rows before it
and itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.operators.rowpattern.syntax import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Pattern,
    Permutation,
    Quantified,
    Rows,
    Skip,
    Strategy,
    Variable,
)

Row = Mapping[str, Any]
Bound = tuple[int, str, bool]
"""The number of a row, its variable, and whether it is excluded."""


class TooMuch(Exception):
    """There are too many candidates to look at."""


@dataclass(frozen=True)
class View:
    """What an expression sees: rows of the partition, those bound so far, and all of the match if that is known."""

    rows: Sequence[Row]
    bound: Sequence[Bound]
    whole: Sequence[Bound]
    number: int | None
    """None for a partial match."""
    is_contiguous: bool

    def chosen(self, variables: frozenset[str] | None, is_final: bool) -> list[Bound]:
        """The rows of some variables."""
        of = self.whole if is_final else self.bound
        return [each for each in of if variables is None or each[1] in variables]

    def row(
        self, variables: frozenset[str] | None, is_last: bool, logical: int, physical: int, is_final: bool
    ) -> tuple[int, str | None] | None:
        """The row that a navigation finds, with its variable."""
        found = self.chosen(variables, is_final)
        if logical >= len(found):
            return None
        at = found[-1 - logical] if is_last else found[logical]
        if physical == 0:
            return at[:2]
        if not self.is_contiguous:
            place = [each[0] for each in self.whole].index(at[0]) + physical
            return self.whole[place][:2] if 0 <= place < len(self.whole) else None
        place = at[0] + physical
        if not 0 <= place < len(self.rows):
            return None
        return place, next((variable for row, variable, _ in self.whole if row == place), None)


@dataclass(frozen=True)
class Query:
    """A row pattern whose expressions are functions."""

    pattern: Pattern
    defines: Mapping[str, Callable[[View], Any]]
    measures: Sequence[tuple[str, Callable[[View], Any]]]
    rows: Rows = Rows.ONE
    skip: Skip = Skip.PAST_LAST_ROW
    skip_to: frozenset[str] = frozenset()
    within: tuple[str, int] | None = None
    """A column, and how much it may differ."""
    strategy: Strategy = Strategy.CONTIGUOUS
    is_all_matches: bool = False
    with_timeouts: bool = False
    """Whether partial matches that timed out come out, and a measure more tells that."""


class SkipError(Exception):
    """There is no row to skip to, or it is the first one of the match."""


@dataclass
class Oracle:
    """Looks for a pattern in the rows of one partition, which are in order."""

    query: Query
    rows: Sequence[Row]
    patience: int = 20_000
    _steps: int = field(default=0, init=False)
    _number: int | None = field(default=1, init=False)
    timed_out: tuple[Bound, ...] = field(default=(), init=False)
    """The preferred partial match that has waited for a row in vain, of the last start row."""
    _is_late: bool = field(default=False, init=False)
    """Whether the last rows that might have been next have come to the end of the window, or of all rows."""

    # -- candidates -----------------------------------------------------------------------------------------------

    def matches(self, start: int) -> Iterator[tuple[Bound, ...]]:
        """All matches that begin at a row, preferred ones first; one may come several times."""
        self.timed_out = ()
        return self._walk(self.query.pattern, start, (), False)

    def _walk(self, part: Pattern, start: int, bound: tuple[Bound, ...], out: bool) -> Iterator[tuple[Bound, ...]]:
        self._steps += 1
        if self._steps > self.patience:
            raise TooMuch
        match part:
            case Variable(name):
                for row in self._next_rows(start, bound):
                    candidate = (*bound, (row, name, out))
                    if self._holds(candidate):
                        yield candidate
                if bound and self._is_late and not self.timed_out:
                    self.timed_out = bound
            case Empty():
                yield bound
            case Anchor(is_start):
                at = start if not bound else bound[-1][0] + 1
                if at == (0 if is_start else len(self.rows)):
                    yield bound
            case Concatenation(parts):
                yield from self._sequence(parts, start, bound, out)
            case Alternation(parts):
                for each in parts:
                    yield from self._walk(each, start, bound, out)
            case Permutation(parts):
                for order in itertools.permutations(range(len(parts))):
                    yield from self._sequence([parts[at] for at in order], start, bound, out)
            case Exclusion(inner):
                yield from self._walk(inner, start, bound, True)
            case Quantified():
                yield from self._repeated(part, 0, start, bound, out)

    def _sequence(
        self, parts: Sequence[Pattern], start: int, bound: tuple[Bound, ...], out: bool
    ) -> Iterator[tuple[Bound, ...]]:
        if not parts:
            yield bound
            return
        for each in self._walk(parts[0], start, bound, out):
            yield from self._sequence(parts[1:], start, each, out)

    def _repeated(
        self, part: Quantified, done: int, start: int, bound: tuple[Bound, ...], out: bool
    ) -> Iterator[tuple[Bound, ...]]:
        may_stop = done >= part.least
        if may_stop and not part.is_greedy:
            yield bound
        if part.most is None or done < part.most:
            for each in self._walk(part.part, start, bound, out):
                if part.most is not None or not may_stop or len(each) > len(bound):  # else it would go on for ever
                    yield from self._repeated(part, done + 1, start, each, out)
        if may_stop and part.is_greedy:
            yield bound

    def _next_rows(self, start: int, bound: tuple[Bound, ...]) -> Iterator[int]:
        """The rows that may be next, those with fewer rows skipped first."""
        if not bound:
            yield from range(start, min(start + 1, len(self.rows)))
            return
        following = [row for row in range(bound[-1][0] + 1, len(self.rows)) if self._is_near(row, bound[0][0])]
        is_stopped = False
        match self.query.strategy:
            case Strategy.CONTIGUOUS:
                is_stopped = bool(following)
                yield from following[:1]
            case Strategy.SKIP_TILL_ANY:
                yield from following
            case Strategy.SKIP_TILL_NEXT:
                names = self._continuations(start, bound)
                for row in following:
                    yield row
                    is_stopped = any(self._holds((*bound, (row, name, False))) for name in names)
                    if is_stopped:
                        break
        self._is_late = not is_stopped

    def _continuations(self, start: int, bound: tuple[Bound, ...]) -> set[str]:
        """The variables that may come next after rows that are bound to variables."""
        word = [name for _, name, _ in bound]
        return {name for name in names(self.query.pattern) if self._is_prefix([*word, name], start, bound)}

    def _is_prefix(self, word: Sequence[str], start: int, bound: tuple[Bound, ...]) -> bool:
        return any(len(rest) >= len(word) for rest in self._prefixes(self.query.pattern, word, 0, start, bound))

    def _prefixes(
        self, part: Pattern, word: Sequence[str], at: int, start: int, bound: tuple[Bound, ...]
    ) -> Iterator[range]:
        """How many variables of a word a part may take, from a place on; a part may be cut off at the word's end."""
        ends = _ends(part, tuple(word), frozenset([at]), start, tuple(row for row, _, _ in bound), len(self.rows))
        for end in ends:
            yield range(end)

    def _holds(self, candidate: tuple[Bound, ...]) -> bool:
        if not self._is_near(candidate[-1][0], candidate[0][0]):
            return False
        condition = self.query.defines.get(candidate[-1][1])
        if condition is None:
            return True
        return condition(self._view(candidate, candidate)) is True

    def _is_near(self, row: int, first: int) -> bool:
        """Whether a row is within the window of a first one."""
        if self.query.within is None:
            return True
        column, most = self.query.within
        one, other = self.rows[row][column], self.rows[first][column]
        if one is None or other is None:
            return one is other
        return bool(abs(one - other) <= most)

    def _view(self, bound: Sequence[Bound], whole: Sequence[Bound]) -> View:
        return View(self.rows, bound, whole, self._number, self.query.strategy is Strategy.CONTIGUOUS)

    # -- output ---------------------------------------------------------------------------------------------------

    def output(self) -> list[tuple[Any, ...]]:
        """The rows that come out: number of the row or None, and the measures."""
        return list(self._all() if self.query.is_all_matches else self._one_by_one())

    def _all(self) -> Iterator[tuple[Any, ...]]:
        for start in range(len(self.rows)):
            by_rows: dict[tuple[int, ...], tuple[Bound, ...]] = {}
            for each in self.matches(start):
                if each:
                    by_rows.setdefault(tuple(row for row, _, _ in each), each)
            chosen = list(by_rows.values())
            if self.query.strategy is Strategy.SKIP_TILL_NEXT and chosen:
                forward = Oracle(_forward(self.query), self.rows, self.patience)
                forward._number = self._number
                rows = next(tuple(row for row, _, _ in each) for each in forward.matches(start) if each)
                chosen = [by_rows[rows]]
            partial = self.timed_out
            if self.query.strategy is Strategy.SKIP_TILL_NEXT and not chosen:
                forward = Oracle(_forward(self.query), self.rows, self.patience)
                forward._number = self._number
                assert not any(forward.matches(start))
                partial = forward.timed_out
            if not chosen:
                yield from self._told_of_timeout(partial, start)
            for each in chosen:
                yield from self._told(each, start)
                assert self._number is not None
                self._number += 1

    def _one_by_one(self) -> Iterator[tuple[Any, ...]]:
        start = 0
        matched: set[int] = set()
        out: list[tuple[int, tuple[Any, ...]]] = []
        while start < len(self.rows):
            found = next(self.matches(start), None)
            if found is None:
                out += [(start, each) for each in self._told_of_timeout(self.timed_out, start)]
                start += 1
                continue
            matched.update(row for row, _, _ in found)
            if not found:
                matched.add(start)
            out += [(start, each) for each in self._told(found, start)]
            assert self._number is not None
            self._number += 1
            start = self._skipped(found, start)
        if self.query.rows is Rows.WITH_UNMATCHED:
            nulls = (None,) * len(self.query.measures)
            out += [(row, (row, *nulls)) for row in range(len(self.rows)) if row not in matched]
        return (each for _, each in sorted(out, key=lambda pair: pair[0]))

    def _skipped(self, found: tuple[Bound, ...], start: int) -> int:
        if not found or self.query.skip is Skip.TO_NEXT_ROW:
            return start + 1
        if self.query.skip is Skip.PAST_LAST_ROW:
            return found[-1][0] + 1
        rows = [row for row, name, _ in found if name in self.query.skip_to]
        if not rows:
            raise SkipError("no row")
        target = rows[0] if self.query.skip is Skip.TO_FIRST else rows[-1]
        if target == start:
            raise SkipError("first row")
        return target

    def _told_of_timeout(self, partial: tuple[Bound, ...], start: int) -> list[tuple[Any, ...]]:
        if not partial or not self.query.with_timeouts:
            return []
        number, self._number = self._number, None
        found = list(self._told(partial, start))
        self._number = number
        return found

    def _told(self, found: tuple[Bound, ...], start: int) -> Iterator[tuple[Any, ...]]:
        if self.query.rows is Rows.ONE:
            yield (None, *self._measured(found, found))
        elif not found:
            if self.query.rows is not Rows.OMIT_EMPTY:
                yield (start, *self._measured((), ()))
        else:
            for count, (row, _, is_out) in enumerate(found, 1):
                if not is_out:
                    yield (row, *self._measured(found[:count], found))

    def _measured(self, bound: Sequence[Bound], whole: Sequence[Bound]) -> list[Any]:
        view = self._view(bound, whole)
        told = [measure(view) for _, measure in self.query.measures]
        return [*told, self._number is None] if self.query.with_timeouts else told


def names(pattern: Pattern) -> list[str]:
    """The variables of a pattern."""
    match pattern:
        case Variable(name):
            return [name]
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return list(dict.fromkeys(name for part in parts for name in names(part)))
        case Quantified(part) | Exclusion(part):
            return names(part)
        case _:
            return []


def _ends(
    part: Pattern, word: tuple[str, ...], starts: frozenset[int], first: int, rows: tuple[int, ...], count: int
) -> frozenset[int]:
    """The places in a word up to which a part may reach from some places; its end, if the part may go on there."""
    end = len(word)

    def after(inner: Pattern, from_: frozenset[int]) -> frozenset[int]:
        return _ends(inner, word, from_, first, rows, count)

    match part:
        case Variable(name):
            return frozenset(at + 1 for at in starts if at < end and word[at] == name) | (starts & {end})
        case Empty():
            return starts
        case Anchor(is_start):
            rows_at = {at: first if at == 0 else rows[at - 1] + 1 for at in starts if at <= len(rows)}
            return frozenset(at for at in starts if at == end or rows_at.get(at) == (0 if is_start else count))
        case Concatenation(parts):
            for each in parts:
                starts = after(each, starts)
            return starts
        case Alternation(parts):
            return frozenset().union(*(after(each, starts) for each in parts))
        case Permutation(parts):
            found: frozenset[int] = frozenset()
            for order in itertools.permutations(parts):
                found |= after(Concatenation(tuple(order)), starts)
            return found
        case Exclusion(inner):
            return after(inner, starts)
        case Quantified(inner, least, most):
            for _ in range(least):
                starts = after(inner, starts)
            found = starts
            for _ in range(len(word) + 1 if most is None else most - least):
                starts = after(inner, starts)
                found |= starts
            return found
    raise AssertionError(part)


def _forward(query: Query) -> Query:
    """The same with every quantifier reluctant: what follows comes before once more."""

    def turned(part: Pattern) -> Pattern:
        match part:
            case Quantified(inner, least, most):
                return Quantified(turned(inner), least, most, is_greedy=False)
            case Concatenation(parts):
                return Concatenation(tuple(map(turned, parts)))
            case Alternation(parts):
                return Alternation(tuple(map(turned, parts)))
            case Permutation(parts):
                return Permutation(tuple(map(turned, parts)))
            case Exclusion(inner):
                return Exclusion(turned(inner))
            case _:
                return part

    return Query(
        turned(query.pattern),
        query.defines,
        query.measures,
        within=query.within,
        strategy=query.strategy,
        is_all_matches=True,
    )

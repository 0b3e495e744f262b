"""What a row pattern query says: what the grammar of the clause gives, and what the matcher takes.

Nothing here has a reference to a text: names are resolved, columns exist, rules were checked. Expressions of ``DEFINE``
and ``MEASURES`` are taken apart: what depends on a match (a column of some row of it, an aggregate over rows of it, its
number) is a *term*, and the expression around the terms is ordinary SQL over columns ``#0``, ``#1`` and so on, their
values. So where a term is known for many rows at once, everything around it is computed for whole columns.

**Which match is preferred.** A pattern is followed from the left, and of two matches with the same first row that one
is preferred which takes the better way where they first part: the earlier part of an alternation, another iteration
(greedy) or none (reluctant), and, where rows may be skipped, the nearer row. Quantifiers with a limit are as if they
were written out, ``X{1,3}`` is ``X (X X?)?``; an unlimited one makes no iteration beyond the least that takes no row.

**Skipping.** Under ``SKIP TILL NEXT`` a row between two rows of a match is one that no continuation accepts: no
variable that could come next in some match of the pattern whose rows so far are bound to the same variables. The first
row of a match is where the search is. A match without rows skips nothing.

**All matches.** Every row is a first row, in order; of one first row matches come in the order of preference, and a
sequence of rows once, with its preferred binding. Matches without rows do not count. Under ``SKIP TILL NEXT`` the rows
are those that would be preferred if all quantifiers were reluctant, and their binding is the preferred one of the
pattern as it is.

**Timed out.** A partial match is one or more rows that are bound as the beginning of a match and wait for another row.
It times out if the row behind them, or behind those that the strategy lets it skip, is later than ``WITHIN`` allows, or
if there is none. Where a row begins no match and partial matches of it time out, the preferred one of these comes out
if that is wanted; it has no number, and the search goes on with the next row. Under ``ALL MATCHES`` with ``SKIP TILL
NEXT`` it is the one that would be preferred if all quantifiers were reluctant.

**Frames.** In a window each row has a frame, itself and rows behind it, and looks for a match in it: rows outside of
the frame are as if there were none, for conditions and measures too. Rows that ``AFTER MATCH`` skips look for none.

**Behind a match** without rows the search goes on with the next row, whatever ``AFTER MATCH`` says.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

CLASSIFIER_COLUMN: Final = "#classifier"
"""In arguments of terms: the variable that a row is bound to, in the case in which the pattern first names it."""
MATCH_NUMBER_COLUMN: Final = "#match_number"
"""In arguments of terms: the number of the match, from 1 on in each partition."""
TIMED_OUT_COLUMN: Final = "timed_out"
"""What tells partial matches that timed out from matches, where both come out."""

# -- patterns ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """One row for which the condition of the variable holds."""

    name: str


@dataclass(frozen=True, slots=True)
class Empty:
    """No row: ``()``."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """No row either: the beginning (``^``) or the end (``$``) of the partition."""

    is_start: bool


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Parts one after the other; at least two."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of some parts, the first preferred to the second and so on; at least two."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Permutation:
    """``PERMUTE``: all parts in any order; orders are preferred as they come in the lexicographic order of places."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Quantified:
    """A part so often; ``most`` None for any number. Greedy prefers more, reluctant fewer."""

    part: Pattern
    least: int
    most: int | None
    is_greedy: bool = True


@dataclass(frozen=True, slots=True)
class Exclusion:
    """``{- ... -}``: rows that are matched, and left out of what ``ALL ROWS PER MATCH`` gives."""

    part: Pattern


Pattern: TypeAlias = Variable | Empty | Anchor | Concatenation | Alternation | Permutation | Quantified | Exclusion

# -- terms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Navigation:
    """The value of an expression at one row: ``PREV(LAST(A.price * 2, 1), 3)`` and everything shorter.

    The row is found in two steps. First among the rows of the match so far (``is_final``: of the whole match) that are
    bound to one of ``variables``: the last one, or the first, and from it ``logical`` such rows back, or forward from
    the first. Then ``physical`` rows from there: below zero before it, above behind it; these are neighbours in the
    ordered partition, in the match or not (in the match, where the strategy skips rows). NULL where there is none.

    ``price`` alone is the last row of all variables: in DEFINE the row that is looked at. In DEFINE that row counts as
    bound to the variable whose condition it is.
    """

    expression: str
    """SQL over the input's columns, :data:`MATCH_NUMBER_COLUMN`, and :data:`CLASSIFIER_COLUMN`, which is NULL for rows
    outside of the match."""
    variables: frozenset[str] | None = None
    """Primary variables; None for all of them, that is any row of the match."""
    is_last: bool = True
    logical: int = 0
    physical: int = 0
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over rows of the match so far (``is_final``: of all of it) that are bound to some variables."""

    call: str
    """SQL of the whole call, over the input's columns, :data:`CLASSIFIER_COLUMN` and :data:`MATCH_NUMBER_COLUMN`, such
    as ``sum("price" * 2) FILTER ("volume" > 3)`` or ``count(*)``."""
    variables: frozenset[str] | None = None
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class MatchNumber:
    """The number of the match, from 1 on in each partition."""


Term: TypeAlias = Navigation | Aggregate | MatchNumber


@dataclass(frozen=True, slots=True)
class Expression:
    """SQL over columns ``#0``, ``#1``, ..., the values of the terms, each of the type it has in ``types``."""

    text: str
    terms: tuple[Term, ...] = ()
    types: tuple[pa.DataType, ...] = ()
    conjuncts: tuple[str, ...] = ()
    """Of a condition, what must all hold, each over the same columns; none told if it is one thing."""


def counts_matches(expression: Expression) -> bool:
    """Whether the value of an expression depends on the number of the match."""
    return any(isinstance(term, MatchNumber) or MATCH_NUMBER_COLUMN in str(term) for term in expression.terms)


# -- the clause -------------------------------------------------------------------------------------------------------


class Rows(enum.Enum):
    """Which rows come out."""

    ONE = "ONE ROW PER MATCH"
    SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class Strategy(enum.Enum):
    """Which rows may lie between the rows of a match."""

    CONTIGUOUS = "CONTIGUOUS"
    SKIP_TILL_NEXT = "SKIP TILL NEXT"
    SKIP_TILL_ANY = "SKIP TILL ANY"


class Skip(enum.Enum):
    """Where the search goes on after a match."""

    PAST_LAST_ROW = "SKIP PAST LAST ROW"
    TO_NEXT_ROW = "SKIP TO NEXT ROW"
    TO_FIRST = "SKIP TO FIRST"
    TO_LAST = "SKIP TO LAST"


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A column that rows of a partition are ordered by."""

    column: str
    is_descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """A column that comes out."""

    name: str
    value: Expression
    type: pa.DataType
    is_function: bool = False
    """Whether it has a value, that of no rows, where there is no match, and is not NULL there."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows in which a row of a window looks for its match: itself, and some behind it."""

    following: int | None = None
    """How many behind it; None for all of the partition."""
    column: str | None = None
    """A column that says how many, instead."""
    is_seeking: bool = False
    """Whether the match may begin behind the row, if none begins with it."""

    @property
    def is_whole(self) -> bool:
        """Whether all frames end with their partition."""
        return self.following is None and self.column is None


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends in an error instead of in the memory's exhaustion."""

    states: int = 1 << 22
    """Partial matches, or steps back that are remembered, at once."""
    match_rows: int = 1 << 26
    """Rows of one match, and of a partial one; those that it skips count."""


@dataclass(frozen=True, slots=True)
class RowPattern:
    """A whole clause over rows of some schema."""

    schema: pa.Schema
    """The input's columns."""
    pattern: Pattern
    defines: Mapping[str, Expression] = field(default_factory=dict)
    """Conditions of variables; one without a condition is true for every row."""
    measures: tuple[Measure, ...] = ()
    partition: tuple[str, ...] = ()
    order: tuple[OrderKey, ...] = ()
    rows: Rows = Rows.ONE
    skip: Skip = Skip.PAST_LAST_ROW
    skip_to: frozenset[str] = frozenset()
    """The primary variables of ``TO_FIRST`` and ``TO_LAST``."""
    skip_name: str = ""
    """How the variable of those is called."""
    within: int | None = None
    """How much the first key of the order may differ between the first and the last row of a match, at the most."""
    strategy: Strategy = Strategy.CONTIGUOUS
    is_all_matches: bool = False
    limits: Limits = Limits()
    with_timeouts: bool = False
    """Whether partial matches come out that timed out; needs ``within``, and not ``WITH UNMATCHED ROWS``."""
    frame: Frame | None = None
    """What each row looks for its match in, if it is a window's: then all rows come out as they are, each with the
    measures of its match, and ``rows`` says nothing."""
    hidden: frozenset[str] = frozenset()
    """Columns of the input that are there for expressions alone, and do not come out with the others of a row."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The primary variables, in the order in which the pattern names them."""
        return tuple(dict.fromkeys(_variables(self.pattern)))

    @property
    def output(self) -> pa.Schema:
        """The columns that come out: of one row, the partition's and the measures; of all rows, the partition's, the
        order's, the measures and all others of the input; of a window, the input's and the measures. Behind the
        measures is :data:`TIMED_OUT_COLUMN`, if that is wanted."""
        measures = [pa.field(each.name, each.type) for each in self.measures]
        if self.frame is not None:
            return pa.schema([*self.schema, *measures])
        if self.with_timeouts:
            measures.append(pa.field(TIMED_OUT_COLUMN, pa.bool_()))
        first = [self.schema.field(name) for name in self.partition]
        if self.rows is Rows.ONE:
            return pa.schema([*first, *measures])
        keys = [each.column for each in self.order if each.column not in self.partition]
        order = [self.schema.field(name) for name in dict.fromkeys(keys)]
        known = {*self.partition, *keys, *self.hidden}
        return pa.schema([*first, *order, *measures, *(each for each in self.schema if each.name not in known)])


def _variables(pattern: Pattern) -> list[str]:
    match pattern:
        case Variable(name):
            return [name]
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return [name for part in parts for name in _variables(part)]
        case Quantified(part) | Exclusion(part):
            return _variables(part)
        case _:
            return []


def longest(pattern: Pattern) -> int | None:
    """How many rows a match may have at the most; None for any number."""
    match pattern:
        case Variable():
            return 1
        case Concatenation(parts) | Permutation(parts):
            found = [longest(part) for part in parts]
            known = [each for each in found if each is not None]
            return sum(known) if len(known) == len(found) else None
        case Alternation(parts):
            found = [longest(part) for part in parts]
            known = [each for each in found if each is not None]
            return max(known) if len(known) == len(found) else None
        case Quantified(part, _, most):
            each = longest(part)
            if each == 0:
                return 0
            return None if each is None or most is None else each * most
        case Exclusion(part):
            return longest(part)
        case _:
            return 0

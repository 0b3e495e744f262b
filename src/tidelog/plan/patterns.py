"""The times in which matches of a row pattern may lie, told from the entries of a stream's trees.

A match has rows of all mandatory variables, in the order of the pattern, and no two of its rows are further apart than
``WITHIN``. Entries tell which leaves may have a row for a variable. So a leaf that may have a row for the first of them
counts only if rows for the others may follow near enough, and around it lie all rows that its matches may have. These
times are replayed and no others, each by itself: the matcher never sees rows as neighbours that are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from tidelog.expr import ExpressionError, Predicate, all_of, predicate
from tidelog.expr.values.types import sql_type
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import integers
from tidelog.model.times.clock import INT64_MAX
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.operators.base import Ints
from tidelog.operators.rowpattern.compiling import RowPatternQuery
from tidelog.operators.rowpattern.conditions.conditions import is_of_row
from tidelog.operators.rowpattern.evaluate import Piece, evaluate_pieces
from tidelog.operators.rowpattern.rows import expression_over
from tidelog.operators.rowpattern.syntax import (
    Alternation,
    Concatenation,
    Empty,
    Exclusion,
    Navigation,
    OrderKey,
    Pattern,
    Quantified,
    RowPattern,
    Rows,
    Variable,
    counts_matches,
)
from tidelog.plan.reading import EVER, Reading, counted
from tidelog.plan.stretches import BUCKETS, WORTH, NotPruned, estimate_all, plus, stretches, united
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.windows import scan_end

_MOST_REPEATED: Final = 4
"""How often a part that has to come several times is looked for."""
_TERM: Final = re.compile(r"""'(?:[^']|'')*'|"#(\d+)\"""")


@dataclass(frozen=True)
class PatternPlan:
    """A row pattern over those times of a stream in which its matches lie."""

    query: RowPatternQuery
    snapshot: Snapshot
    numbers: SeqSet | None
    times: Intervals
    share: float
    """About which share of the rows that is."""
    counters: ReadCounters = field(default_factory=ReadCounters)
    """What was read to find the times."""

    def batches(self, note: Callable[[Reading], None]) -> Iterator[pa.RecordBatch]:
        """What comes out of the query; ``note`` is told of the reading."""
        reading = Reading(self.query.input.names, None, self.times, None)
        note(reading)
        return evaluate_pieces(self.query, (self._piece(span, reading) for span in self.times.spans))

    def read_times(self) -> Intervals:
        """The times that have all rows which matter: those of matches, and those beside them that conditions look at.

        A search of these rows as one sequence finds the same matches. A match has rows of all mandatory variables near
        enough, so that all of its rows are in one span of ``times``, with whatever lies between; and what stands beside
        a span is there.
        """
        conditions, time = self.query.conditions, self.snapshot.layout.schema.time
        reading = Reading([time], None, self.times, None)
        found = []
        for span in self.times.spans:
            before = self._beside(Intervals.of(None, span.start), conditions.behind, reading, newest_first=True)
            after = self._beside(Intervals.of(span.end, None), conditions.ahead, reading, newest_first=False)
            start = span.start if before is None else int(integers(before.column(time))[0])
            end = span.end if after is None else int(integers(after.column(time))[-1]) + 1
            found.append(Interval(start, end))
        return Intervals(tuple(found))

    def _piece(self, span: Interval, reading: Reading) -> Piece:
        conditions = self.query.conditions
        before = self._beside(Intervals.of(None, span.start), conditions.behind, reading, newest_first=True)
        after = self._beside(Intervals.of(span.end, None), conditions.ahead, reading, newest_first=False)
        is_end = span.end is None or (after.num_rows if after is not None else 0) < conditions.ahead
        rows = scan(self.snapshot, Intervals((span,)), reading.columns, None, self.numbers, reading.counters)
        return Piece(before, counted(reading, rows), after, is_end)

    def _beside(self, times: Intervals, count: int, reading: Reading, *, newest_first: bool) -> pa.RecordBatch | None:
        """The rows next to a piece that conditions look at; None if there are none."""
        bounds = times.bounds
        if not count or (bounds.start is None and bounds.end is None):
            return None
        batches = list(
            scan_end(
                self.snapshot,
                times,
                reading.columns,
                None,
                self.numbers,
                reading.counters,
                limit=count,
                newest_first=newest_first,
            )
        )
        if not batches:
            return None
        rows = pa.concat_batches(batches)
        return rows.take(pa.array(np.arange(rows.num_rows)[::-1])) if newest_first else rows


def plan_pattern(query: RowPatternQuery, snapshot: Snapshot, numbers: SeqSet | None) -> PatternPlan:
    """Find the times of a stream, whose columns the query's are, that need to be replayed.

    Raises :class:`NotPruned` where that would be wrong, or as good as everything.
    """
    pattern = query.pattern
    _refuse(query, snapshot)
    items = _mandatory(pattern.pattern)
    conditions = {name: _relaxed(pattern, name) for name in pattern.variables}
    wanted = [(at, _any(item, conditions)) for at, item in enumerate(items) if item is not None]
    looked_for = [(at, each) for at, each in wanted if each]
    if not looked_for:
        raise NotPruned("no variable that every match has is confined by values of its own row")
    assert pattern.within is not None
    look = _Look(
        snapshot,
        numbers,
        [each for _, each in looked_for],
        pattern.within,
        begins=looked_for[0][0] == 0,
        ends=looked_for[-1][0] == len(items) - 1,
    )
    rows = sum(part.rows for part in snapshot.parts)
    times = look.times(EVER, max(rows // BUCKETS, 1))
    if times:
        times = look.times(times, 1)
    share = estimate_all(snapshot, times) / max(rows, 1)
    if share > WORTH:
        raise NotPruned(f"about {share:.0%} of the rows are near enough to rows of all variables")
    return PatternPlan(query, snapshot, numbers, times, share, look.counters)


def _refuse(query: RowPatternQuery, snapshot: Snapshot) -> None:
    """Raise where matches, or what comes out besides, may depend on all rows."""
    pattern, program, time = query.pattern, query.search.program, snapshot.layout.schema.time
    reaches = query.conditions.behind or query.conditions.ahead
    reasons = {
        "it has no WITHIN": pattern.within is None,
        "the order is not that of time": pattern.order[:1] != (OrderKey(time),),
        "unmatched rows come out, too": pattern.rows is Rows.WITH_UNMATCHED,
        "partial matches come out, too": pattern.with_timeouts,
        "a match may have no rows": program.is_nullable,
        "the pattern has an anchor": program.has_start or program.has_end,
        "a condition asks for MATCH_NUMBER": any(map(counts_matches, pattern.defines.values())),
        "matches of partitions are numbered": bool(pattern.partition)
        and any(counts_matches(each.value) for each in pattern.measures),
        "PREV or NEXT of partitions leaves the match": bool(pattern.partition) and bool(reaches),
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise NotPruned(reason)


# -- the pattern, relaxed ---------------------------------------------------------------------------------------------


def _mandatory(pattern: Pattern) -> list[frozenset[str] | None]:
    """What rows every match has, in order: one of some variables, or None for any number of rows."""
    match pattern:
        case Variable(name):
            return [frozenset({name})]
        case Concatenation(parts):
            return [each for part in parts for each in _mandatory(part)]
        case Alternation(parts) if all(isinstance(part, Variable) for part in parts):
            return [frozenset(part.name for part in parts if isinstance(part, Variable))]
        case Quantified(part, least, most) if least:
            inner = _mandatory(part) * min(least, _MOST_REPEATED)
            return inner if most == least <= _MOST_REPEATED else [*inner, None]
        case Exclusion(part):
            return _mandatory(part)
        case Empty():
            return []
        case _:
            return [None]


def _relaxed(query: RowPattern, variable: str) -> Predicate | None:
    """What the condition of a variable says of values of the row itself; None if that is nothing that confines them."""
    expression = query.defines.get(variable)
    if expression is None:
        return None
    own: dict[int, str] = {}
    fields = list(query.schema)
    for place, (term, type_) in enumerate(zip(expression.terms, expression.types, strict=True)):
        is_own = False
        if isinstance(term, Navigation) and not term.physical and is_of_row(term, variable, query):
            known_as = expression_over(term.expression, query.schema)
            is_own = known_as is not None and known_as.type == type_
            own[place] = f"({term.expression})"
        if not is_own:
            own[place] = f'"#{place}"'
            fields.append(pa.field(f"#{place}", type_))
    schema = pa.schema([each for each in fields if sql_type(each.type) is not None])
    known: list[Predicate] = []
    for conjunct in expression.conjuncts or [expression.text]:
        text = _TERM.sub(lambda found: own[int(found[1])] if found[1] else found[0], conjunct)
        try:
            parts = predicate(text, schema).conjuncts
        except ExpressionError:  # which DuckDB alone computes
            continue
        known += [each for each in parts if each.prunes and set(each.columns) <= set(query.schema.names)]
    return all_of(known) if known else None


def _any(item: frozenset[str], conditions: dict[str, Predicate | None]) -> list[Predicate]:
    """Conditions one of which holds for a row of one of some variables; empty if any row may be."""
    found = [conditions[name] for name in item]
    return [] if None in found else [each for each in found if each is not None]


# -- where matches may be ---------------------------------------------------------------------------------------------


class _Look:
    """Looks for the times of matches of some conditions one behind the other."""

    def __init__(
        self,
        snapshot: Snapshot,
        numbers: SeqSet | None,
        conditions: Sequence[Sequence[Predicate]],
        within: int,
        *,
        begins: bool,
        ends: bool,
    ) -> None:
        self._snapshot = snapshot
        self._numbers = numbers
        self._conditions = conditions
        self._within = within
        self._begins = begins
        """Whether matches begin with a row of the first condition."""
        self._ends = ends
        self.counters = ReadCounters()

    def times(self, among: Intervals, most_rows: int) -> Intervals:
        """The times of matches, told by subtrees of so many rows."""
        firsts, lasts = self._near(self._conditions[0], among, most_rows)
        at = firsts
        for each in self._conditions[1:]:
            at = _next(at, *united(*self._near(each, among, most_rows)))
        # Rows of the last condition are not before `at`, those of the first not behind `lasts`.
        near = (at < INT64_MAX) & (plus(lasts, self._within) >= at)
        firsts, lasts, at = firsts[near], lasts[near], at[near]
        low = plus(at, -self._within)
        high = plus(lasts, self._within)
        if self._begins:
            low = np.maximum(low, firsts)
        if self._ends:
            high = _before(high, *united(*self._near(self._conditions[-1], among, most_rows)))
        spans = [Interval(first, last + 1) for first, last in zip(low.tolist(), high.tolist(), strict=True)]
        return Intervals(tuple(spans)) & among

    def _near(self, conditions: Sequence[Predicate], among: Intervals, most_rows: int) -> tuple[Ints, Ints]:
        return stretches(self._snapshot, self._numbers, conditions, among, most_rows, self.counters)


def _next(times: Ints, firsts: Ints, lasts: Ints) -> Ints:
    """For each time the first one from it on that is in a stretch; the last time of all if there is none."""
    if not len(firsts):
        return np.full(len(times), INT64_MAX)
    places = np.searchsorted(lasts, times)
    inside = np.minimum(places, len(firsts) - 1)
    return np.where(places < len(firsts), np.maximum(times, firsts[inside]), INT64_MAX)


def _before(times: Ints, firsts: Ints, lasts: Ints) -> Ints:
    """For each time the last one up to it that is in a stretch, of which there is one."""
    places = np.searchsorted(firsts, times, "right") - 1
    return np.minimum(times, lasts[places])

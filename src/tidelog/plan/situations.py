"""What has to be read of a stream to find its situations, told from the entries of its trees.

Entries tell, leaf by leaf, whether a condition may hold there and whether it may fail.

* Without keys, rows between which no condition changes say the same: the first of them is read, and aggregates over
  the others are taken from entries. The others are read only where entries do not know an aggregate, or where an early
  match waits for a situation to last long enough.
* All situations of a match lie within the window. So only times are looked at within which each of them may hold, and,
  unless matches come early, end. The last row before each stretch of such times is read as well: what holds there has
  begun before the stretch, and is in no match. What goes on at the end of a stretch may then seem to end with that row,
  or to go on, and is in no match either: else what lies between would be no gap.
* With keys, nobody knows which of them rows that are not read belong to. If the times in which matches lie are few,
  all their rows are read, and of each key that begins with a row for which a condition holds the last row before: what
  holds there has begun before, and is in no match. Else rows are left out only where no condition holds, and only
  while no situation of any key goes on.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

import pyarrow as pa

from tidelog.aggregates.contract import Fold
from tidelog.expr import Predicate
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.arrays import integers
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.operators.base import Batches, Shape
from tidelog.operators.keys import Keys
from tidelog.operators.situations.conditions import waiting
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.syntax import Derivation, Mode, Situations
from tidelog.plan.last_rows import LastRows
from tidelog.plan.reading import EVER, Reading, condition_of, counted, estimate
from tidelog.plan.stretches import (
    BUCKETS,
    WORTH,
    NotPruned,
    bounds,
    estimate_all,
    intervals,
    plus,
    stretches,
    without,
)
from tidelog.plan.totals import Totals, is_kept
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.scan import scan
from tidelog.store.read.snapshot import Snapshot
from tidelog.store.read.windows import scan_end

Query: TypeAlias = Situations | Derivation
Situated: TypeAlias = SituationsOperator | DeriveOperator

_FEW: Final = 4096
"""Rows, at the most, that are about as soon read as left out."""
_FEW_OF: Final = 4
"""The part of all rows that may be looked at to find out what has to be read."""
_MOST_SINGLE: Final = 1 << 10
"""Rows that are looked up one by one for others who read."""
_LONGEST: Final = 1 << 62
"""Ticks of a window before whose begin there is no time left."""


class Part(enum.Enum):
    """What is read of a span of time."""

    ALL = enum.auto()
    FIRST = enum.auto()
    """Its first row: the others say the same."""
    SUMMED = enum.auto()
    """Its first row, and from entries the aggregates over all of them."""
    UNTIL_OVER = enum.auto()
    """As long as situations go on, which no row of it prolongs."""
    LAST = enum.auto()
    """Its last row: what goes on there has begun too early to be in a match behind it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A span of time, and what is read of it."""

    part: Part
    span: Interval


@dataclass(frozen=True)
class SituationPlan:
    """A query about situations over those times of a stream that it depends on."""

    make: Callable[[], Situated]
    snapshot: Snapshot
    numbers: SeqSet | None
    steps: tuple[Step, ...]
    share: float
    """About which share of the rows is read."""
    is_early: bool = False
    """Whether what comes out at an instant is about the rows until then, and not about all of a span."""
    counters: ReadCounters = field(default_factory=ReadCounters)
    """What was read to find the times."""

    @property
    def times(self) -> Intervals:
        """The times all rows of which are read."""
        return Intervals(tuple(each.span for each in self.steps if each.part is Part.ALL))

    @property
    def explained(self) -> str:
        """What is read, in words."""
        whole, firsts, summed = (
            sum(each.part is part for each in self.steps) for part in (Part.ALL, Part.FIRST, Part.SUMMED)
        )
        told = f"{whole:,} stretches of time, {self.share:.2%} of the rows"
        if firsts + summed:
            told += f", and one row of {firsts + summed:,} in which nothing changes"
        return f"{told}, aggregates of {summed:,} of them from the index" if summed else told

    def batches(self, note: Callable[[Reading], None]) -> Iterator[pa.RecordBatch]:
        """What comes out of the query; ``note`` is told of the reading."""
        operator = self.make()
        reading = Reading(operator.inputs[0].schema.names, None, self.times, None)
        note(reading)
        return self._found(operator, reading)

    def read_times(self) -> Intervals | None:
        """The times that have all rows which matter, for those who read them as one sequence; None if not known.

        With keys that depends on what is read; and rows that stand for many are looked up here, if they are few. Of
        rows that aggregates are over all are read.
        """
        single = [each for each in self.steps if each.part in (Part.FIRST, Part.LAST)]
        if len(single) > _MOST_SINGLE or any(each.part is Part.UNTIL_OVER for each in self.steps):
            return None
        time = self.snapshot.layout.schema.time
        reading = Reading([time], None, self.times, None)
        found = [int(integers(batch.column(time))[0]) for each in single for batch in self._rows(each, reading)]
        summed = [each.span for each in self.steps if each.part is Part.SUMMED]
        return Intervals((*self.times.spans, *summed, *(Interval(at, at + 1) for at in found)))

    def _found(self, operator: Situated, reading: Reading) -> Iterator[pa.RecordBatch]:
        summed = any(each.part is Part.SUMMED for each in self.steps)
        folds = [fold for own in operator.folds for fold in own] if summed else []
        totals = Totals(folds, self.snapshot, self.numbers)
        for step in self.steps:
            if step.part is Part.SUMMED:
                found = self._summed(step, operator, totals, reading)
                if found is not None:
                    yield from found
                    continue
                step = Step(Part.ALL, step.span)
            if step.part is Part.UNTIL_OVER:
                assert step.span.start is not None
                yield from operator.advance(step.span.start)
                if not operator.goes_on:
                    continue
            for batch in self._rows(step, reading):
                for first in range(0, batch.num_rows, operator.most_rows or batch.num_rows):
                    rows = batch.slice(first, operator.most_rows)
                    yield from operator.push(0, rows)
                    yield from operator.advance(int(operator.inputs[0].times(rows)[-1]))
                if step.part is Part.UNTIL_OVER and not operator.goes_on:
                    break
        yield from operator.finish()

    def _summed(self, step: Step, operator: Situated, totals: Totals, reading: Reading) -> Batches | None:
        """What comes out by rows that are all alike, of which the ends are read; None if entries do not tell enough."""
        times = Intervals((step.span,))
        first = next(self._end(times, reading, newest_first=False), None)
        if first is None:
            return []
        last = next(self._end(times, reading, newest_first=True)) if totals.needs_last else None
        states = totals.of(step.span, first, last, reading.counters)
        if states is None:
            return None
        cuts = [0, *accumulate(map(len, operator.folds))]
        rows = self._instant(first, reading) if self.is_early else first
        return operator.stand_for(rows, [states[low:high] for low, high in pairwise(cuts)])

    def _instant(self, row: pa.RecordBatch, reading: Reading) -> pa.RecordBatch:
        """All rows of the time of one."""
        time = int(integers(row.column(self.snapshot.layout.schema.time))[0])
        return pa.concat_batches(list(self._rows(Step(Part.ALL, Interval(time, time + 1)), reading)))

    def _rows(self, step: Step, reading: Reading) -> Iterator[pa.RecordBatch]:
        times = Intervals((step.span,))
        if step.part in (Part.FIRST, Part.LAST):
            return self._end(times, reading, newest_first=step.part is Part.LAST)
        if step.part is Part.UNTIL_OVER:
            rows = scan_end(self.snapshot, times, reading.columns, None, self.numbers, reading.counters)
        else:
            rows = scan(self.snapshot, times, reading.columns, None, self.numbers, reading.counters)
        return counted(reading, rows)

    def _end(self, times: Intervals, reading: Reading, *, newest_first: bool) -> Iterator[pa.RecordBatch]:
        """The first or the last row of some times."""
        counters = reading.counters
        rows = scan_end(
            self.snapshot,
            times,
            reading.columns,
            None,
            self.numbers,
            counters,
            limit=1,
            newest_first=newest_first,
        )
        return counted(reading, (batch for batch in rows if batch.num_rows))


def plan_situations(query: Query, shape: Shape, snapshot: Snapshot, numbers: SeqSet | None) -> SituationPlan:
    """Find out what of a stream, whose rows have the shape, has to be read to answer a query.

    Raises :class:`NotPruned` where that would be everything, or nearly so, or is not known.
    """

    def make() -> Situated:
        return SituationsOperator(shape, query) if isinstance(query, Situations) else DeriveOperator(shape, query)

    folds = make().folds
    look = _Look(query, folds, snapshot, numbers)
    if isinstance(query, Situations) and query.within >= _LONGEST:
        raise NotPruned("the window is as long as time")
    times = look.window(query) if isinstance(query, Situations) else EVER
    if times:
        if query.partition:
            steps = look.by_window(times, shape, query.partition) or look.keyed(times)
        else:
            steps = look.constant(times, is_windowed=isinstance(query, Situations))
    else:
        steps = []
    rows = sum(part.rows for part in snapshot.parts)
    whole = Intervals(tuple(each.span for each in steps if each.part is Part.ALL))
    share = estimate_all(snapshot, whole) / max(rows, 1)
    if share > WORTH:
        raise NotPruned(f"about {share:.0%} of the rows may be part of situations that matter")
    is_early = isinstance(query, Situations) and query.mode is Mode.EARLY
    return SituationPlan(make, snapshot, numbers, tuple(steps), share, is_early, look.counters)


@dataclass(frozen=True, slots=True)
class _Known:
    """A definition, and where its condition may hold or fail."""

    may_hold: Predicate
    may_fail: Predicate
    reads_rows: bool
    """Whether each of its rows is read, and not only the first and the one behind the last."""
    has_aggregates: bool


class _Look:
    """Looks up where conditions may hold or fail."""

    def __init__(
        self, query: Query, folds: Sequence[Sequence[Fold]], snapshot: Snapshot, numbers: SeqSet | None
    ) -> None:
        self._snapshot, self._numbers = snapshot, numbers
        self.counters = ReadCounters()
        self._rows = sum(part.rows for part in snapshot.parts)
        stored = snapshot.layout.stored
        self._known = [
            _Known(
                condition_of(each.condition, stored),
                condition_of(f"({each.condition}) IS NOT TRUE", stored),
                waits or not all(is_kept(fold, snapshot) for fold in own),
                bool(own),
            )
            for each, waits, own in zip(query.definitions, waiting(query), folds, strict=True)
        ]
        if not any(each.may_hold.prunes or each.may_fail.prunes for each in self._known):
            raise NotPruned("no condition can be told from the least and the greatest values of leaves")

    def window(self, query: Situations) -> Intervals:
        """The times in which matches lie, from the first start to the last end."""
        times = EVER
        for most_rows in (max(self._rows // BUCKETS, 1), 1):
            times = self._window(query, times, most_rows)
            if not times:
                break
        return times

    def _window(self, query: Situations, among: Intervals, most_rows: int) -> Intervals:
        held = [self._times(each.may_hold, among, most_rows) for each in self._known]
        near = list(held)
        if query.mode is Mode.COMPLETED:  # each has ended by then
            near += [self._times(each.may_fail, among, most_rows) for each in self._known]
        # A match begins where some condition holds, with all of this not farther ahead than the window is long.
        begins = reduce(lambda one, other: one & other, [_widened(each, -query.within, 0) for each in near])
        return _widened(begins & _together(held), 0, query.within)

    def _times(self, condition: Predicate, among: Intervals, most_rows: int) -> Intervals:
        if not condition.prunes:
            return among
        return intervals(*stretches(self._snapshot, self._numbers, [condition], among, most_rows, self.counters))

    def by_window(self, times: Intervals, shape: Shape, partition: Sequence[str]) -> list[Step]:
        """What is read if there are keys, and matches lie in few times: nothing if these are not few."""
        few = self._rows // _FEW_OF
        if times.bounds.start is None or estimate_all(self._snapshot, times) > few:
            return []
        coarse = max(self._rows // BUCKETS, 1)
        since = _together([self._times(each.may_hold, EVER, coarse) for each in self._known]).bounds.start
        conditions = [each.may_hold for each in self._known]
        rows = LastRows(Keys(shape, partition), conditions, self._snapshot, self._numbers, few, self.counters)
        before: list[int] = []
        for span in times.spans:
            own = rows.times(span, since)
            if own is None:
                return []
            before += own
        wanted = _together([times, Intervals(tuple(Interval(at, at + 1) for at in before))])
        return [Step(Part.ALL, each) for each in self._with_short_gaps(wanted).spans]

    def keyed(self, times: Intervals) -> list[Step]:
        """What is read if there are keys: all rows for which a condition may hold, up to the last one that matters."""
        ever = Intervals.of(None, times.bounds.end)
        held = _together([self._times(each.may_hold, ever, 1) for each in self._known]) & ever
        if not held:
            return []
        held = self._with_short_gaps(held)
        ends = [*(each.start for each in held.spans[1:]), times.bounds.end]
        steps = []
        for span, end in zip(held.spans, ends, strict=True):
            steps.append(Step(Part.ALL, span))
            if span.end is not None and (end is None or span.end < end):
                steps.append(Step(Part.UNTIL_OVER, Interval(span.end, end)))
        return steps

    def constant(self, times: Intervals, *, is_windowed: bool) -> list[Step]:
        """What is read if there are no keys: all rows where conditions may change, the first where they do not."""
        held = [self._times(each.may_hold, times, 1) for each in self._known]
        failed = [self._times(each.may_fail, times, 1) for each in self._known]
        mixed = _together(
            [
                own if each.reads_rows else own & other
                for each, own, other in zip(self._known, held, failed, strict=True)
            ]
        )
        summed = _together([own for each, own in zip(self._known, held, strict=True) if each.has_aggregates])
        steps: list[Step] = []
        for span in times.spans:
            if is_windowed and span.start is not None:
                steps.append(Step(Part.LAST, Interval(None, span.start)))
            whole = self._with_short_gaps(mixed & span, span)
            own = [Step(Part.ALL, each) for each in whole.spans]
            for gap in without(Intervals((span,)), whole).spans:
                pieces = _unchanged(gap, held, failed)
                own += [Step(Part.SUMMED if summed & each else Part.FIRST, each) for each in pieces]
            own.sort(key=lambda step: INT64_MIN if step.span.start is None else step.span.start)
            steps += own
        return steps

    def _with_short_gaps(self, times: Intervals, among: Interval | None = None) -> Intervals:
        """Times, and what is between them where that is not much."""
        own = Intervals((among,)) if among is not None else EVER
        gaps = [
            each
            for each in without(own, times).spans
            if each.start is not None
            and each.end is not None
            and estimate(self._snapshot, Intervals((each,)), None) < min(self._rows // BUCKETS // 4, _FEW)
        ]
        return _together([times, Intervals(tuple(gaps))])


def _together(times: Sequence[Intervals]) -> Intervals:
    """The instants in one of some sets."""
    return Intervals(tuple(span for each in times for span in each.spans))


def _widened(times: Intervals, before: int, after: int) -> Intervals:
    """Instants, and those so far before (below zero) or after them."""
    firsts, lasts = bounds(times)
    return intervals(plus(firsts, before), plus(lasts, after))


def _unchanged(gap: Interval, held: Sequence[Intervals], failed: Sequence[Intervals]) -> list[Interval]:
    """A span of time in which a condition never both may hold and may fail, cut where one changes."""
    told: list[tuple[int, int, bool]] = []
    low, high = (INT64_MIN if gap.start is None else gap.start), (INT64_MAX if gap.end is None else gap.end - 1)
    for number, both in enumerate(zip(failed, held, strict=True)):
        for is_held, times in enumerate(both):
            for span in times.reaching(low, high).spans:
                start = INT64_MIN if span.start is None else span.start
                told.append((max(start, low), number, bool(is_held)))
    told.sort()
    last: dict[int, bool] = {}
    cuts: list[int | None] = [gap.start]
    for start, number, is_held in told:
        if last.get(number, is_held) is not is_held and start != cuts[-1]:
            cuts.append(start)
        last[number] = is_held
    return [Interval(start, end) for start, end in zip(cuts, [*cuts[1:], gap.end], strict=True)]

"""Aggregates of a time range: from the entries of trees where they know the answer, from the events otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from tidelog.aggregates.contract import Total
from tidelog.expr import AggregateCall, Predicate, UserCall
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.times.clock import INT64_MAX, INT64_MIN
from tidelog.model.times.interval import Interval
from tidelog.model.times.intervals import Intervals
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.aggregates.entry_aggregates import EntryQuestion
from tidelog.store.read.aggregates.entry_fold import EntryFold
from tidelog.store.read.aggregates.sources import Source, reading
from tidelog.store.read.aggregates.state_aggregates import FROM_EVENTS, FROM_INDEX, FROM_MASKED, Known, StateQuestion
from tidelog.store.read.scan import count, scan
from tidelog.store.read.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Answers:
    """The values of aggregate calls, in their order, and how they came about."""

    values: list[Any]
    sources: list[str]
    """Where each value comes from: ``the index``, ``events``, or both."""
    counters: ReadCounters


@final
class Question:
    """Aggregate calls of a stream with a certain layout, prepared to be asked again and again."""

    def __init__(self, layout: Layout, calls: Sequence[AggregateCall | UserCall]) -> None:
        self.calls = tuple(calls)
        self.readings = tuple(reading(layout, call) for call in self.calls)
        """How each is answered, and what is read for it."""
        entries: dict[int, EntryFold] = {}
        states: dict[int, UserCall] = {}
        for position, each in enumerate(self.readings):
            if isinstance(each.fold, EntryFold):
                entries[position] = each.fold
            elif each.source is Source.STATES and isinstance(each.fold, UserCall):
                states[position] = each.fold
        self.of_entries = EntryQuestion(layout, entries)
        usual = [position for position in states if isinstance(self.calls[position], AggregateCall)]
        self.of_states = StateQuestion(layout, states, usual)

    @property
    def is_indexed(self) -> bool:
        """Whether indexes can answer all of it: with all states kept, and where bounds and sums are known."""
        return all(each.source is not Source.ROWS for each in self.readings)


def aggregate(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    question: Question,
    where: Predicate | None = None,
    numbers: SeqSet | None = None,
) -> Answers:
    """The aggregates of the rows with ``start <= time < end`` that satisfy ``where``.

    Sums, counts, extremes and averages of plain columns come from the entries of the trees
    (:mod:`tidelog.store.read.aggregates.entry_aggregates`), user-defined aggregates from those that keep their states
    (:mod:`tidelog.store.read.aggregates.state_aggregates`). Everything else is computed from the events.
    """
    counters = ReadCounters()
    known: Mapping[int, Known] = {}
    if where is None and snapshot.has_all(start, end, numbers):
        living = snapshot.living
        source = FROM_MASKED if living is not snapshot and snapshot.deletions(start, end) else FROM_INDEX
        found = question.of_entries.ask(living, start, end, counters)
        calls = len(question.calls)
        if len(found) == calls:
            return Answers([found[position] for position in range(calls)], [source] * calls, counters)
        known = _from_index(found, source)
        if question.of_states:
            known = {**known, **question.of_states.ask(living, start, end, counters)}
    return _completed(snapshot, start, end, question, where, numbers, known, counters)


def _from_index(answers: Mapping[int, Any], source: str = FROM_INDEX) -> dict[int, Known]:
    return {position: Known(value, source) for position, value in answers.items()}


def aggregate_all(
    snapshot: Snapshot,
    ranges: Sequence[Interval],
    question: Question,
    where: Predicate | None = None,
    numbers: SeqSet | None = None,
) -> list[Answers]:
    """:func:`aggregate` of many time ranges; what entries know is asked for in one pass.

    All answers have the same counters.
    """
    counters = ReadCounters()
    found: list[Mapping[int, Any]] = [{} for _ in ranges]
    living = snapshot.living if where is None and snapshot.has_all(None, None, numbers) else None
    if living is not None:
        # An end beyond the last instant is none that an array can hold.
        bounded = [i for i, each in enumerate(ranges) if each.end is not None and each.end <= INT64_MAX]
        starts = np.array([INT64_MIN if (at := ranges[i].start) is None else at for i in bounded], np.int64)
        ends = np.array([ranges[i].end for i in bounded], np.int64)
        for i, some in zip(bounded, question.of_entries.ask_all(living, starts, ends, counters), strict=True):
            found[i] = some
        for i in set(range(len(ranges))).difference(bounded):
            found[i] = question.of_entries.ask(living, ranges[i].start, None, counters)
    positions = range(len(question.calls))
    answers = []
    for each, some in zip(ranges, found, strict=True):
        if len(some) == len(positions):
            answers.append(Answers([some[position] for position in positions], [FROM_INDEX] * len(positions), counters))
            continue
        known = _from_index(some)
        if question.of_states and living is not None:
            known |= question.of_states.ask(living, each.start, each.end, counters)
        answers.append(_completed(snapshot, each.start, each.end, question, where, numbers, known, counters))
    return answers


def _completed(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    question: Question,
    where: Predicate | None,
    numbers: SeqSet | None,
    known: Mapping[int, Known],
    counters: ReadCounters,
) -> Answers:
    """What is known of a range, and the rest computed from its events."""
    calls = question.calls
    rest = [index for index in range(len(calls)) if index not in known]
    values = [known[index].value if index in known else None for index in range(len(calls))]
    if where is not None and numbers is None and all(question.readings[index].counts_rows for index in rest):
        counted = count(snapshot, start, end, where, counters)
        if counted is not None:
            return Answers([counted] * len(calls), [FROM_EVENTS] * len(calls), counters)
    if rest:
        names = dict.fromkeys(name for index in rest for name in calls[index].columns)
        totals = {index: Total(calls[index]) for index in rest}
        # Something must be read to count rows: what is looked at anyway, or times, which compress best.
        looked_at = () if where is None else where.columns
        columns = list(names) or list(looked_at[:1]) or [snapshot.layout.schema.time]
        for batch in scan(snapshot, Intervals.of(start, end), columns, where, numbers, counters):
            for total in totals.values():
                total.add(batch)
        for index, total in totals.items():
            values[index] = total.value()
    sources = [known[index].source if index in known else FROM_EVENTS for index in range(len(calls))]
    return Answers(values, sources, counters)

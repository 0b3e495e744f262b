"""Aggregates of a time range: from the entries of trees where they know the answer, from the events otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from tidelog.expr import AggregateCall, Predicate
from tidelog.index.layout import Layout
from tidelog.index.tabtree.counters import ReadCounters
from tidelog.model.interval import Interval
from tidelog.model.time import INT64_MAX, INT64_MIN
from tidelog.store.fromentries import EntryQuestion, plain
from tidelog.store.scan import count, scan
from tidelog.store.seqset import SeqSet
from tidelog.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Answers:
    """The values of aggregate calls, in their order, and how they came about."""

    values: list[Any]
    from_events: list[bool]
    counters: ReadCounters


@final
class Question:
    """Aggregate calls of a stream with a certain layout, prepared to be asked again and again."""

    def __init__(self, layout: Layout, calls: Sequence[AggregateCall]) -> None:
        self.calls = tuple(calls)
        self.of_entries = EntryQuestion(layout, self.calls)


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
    (:mod:`tidelog.store.fromentries`). Everything else is computed from the events.
    """
    counters = ReadCounters()
    known: Mapping[int, Any] = {}
    if where is None and snapshot.is_whole(start, end, numbers):
        known = question.of_entries.ask(snapshot, start, end, counters)
    return _completed(snapshot, start, end, question, where, numbers, known, counters)


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
    known: list[Mapping[int, Any]] = [{} for _ in ranges]
    if where is None and snapshot.is_whole(None, None, numbers):
        # An end beyond the last instant is none that an array can hold.
        bounded = [i for i, each in enumerate(ranges) if each.end is not None and each.end <= INT64_MAX]
        starts = np.array([INT64_MIN if (at := ranges[i].start) is None else at for i in bounded], np.int64)
        ends = np.array([ranges[i].end for i in bounded], np.int64)
        for i, some in zip(bounded, question.of_entries.ask_all(snapshot, starts, ends, counters), strict=True):
            known[i] = some
        for i in set(range(len(ranges))).difference(bounded):
            known[i] = question.of_entries.ask(snapshot, ranges[i].start, None, counters)
    return [
        _completed(snapshot, each.start, each.end, question, where, numbers, some, counters)
        for each, some in zip(ranges, known, strict=True)
    ]


def _completed(
    snapshot: Snapshot,
    start: int | None,
    end: int | None,
    question: Question,
    where: Predicate | None,
    numbers: SeqSet | None,
    known: Mapping[int, Any],
    counters: ReadCounters,
) -> Answers:
    """What is known of a range, and the rest computed from its events."""
    calls = question.calls
    rest = [index for index in range(len(calls)) if index not in known]
    values = [known.get(index) for index in range(len(calls))]
    if where is not None and numbers is None and all(_counts_rows(calls[index]) for index in rest):
        counted = count(snapshot, start, end, where, counters)
        if counted is not None:
            return Answers([counted] * len(calls), [True] * len(calls), counters)
    if rest:
        names = dict.fromkeys(name for index in rest for name in calls[index].columns)
        states = {index: calls[index].start() for index in rest}
        # Something must be read to count rows: what is looked at anyway, or times, which compress best.
        looked_at = () if where is None else where.columns
        columns = list(names) or list(looked_at[:1]) or [snapshot.layout.schema.time]
        for batch in scan(snapshot, start, end, columns, where, numbers, counters):
            for index in rest:
                states[index] = calls[index].add(states[index], batch)
        for index in rest:
            values[index] = plain(calls[index].result(states[index]))
    return Answers(values, [index not in known for index in range(len(calls))], counters)


def _counts_rows(call: AggregateCall) -> bool:
    """Whether it is ``count(*)``."""
    return call.function == "count" and call.argument is None and call.where is None

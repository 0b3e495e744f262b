"""Aggregates that the index answers: what can be asked, and the answers for ranges of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.aggregates import find
from tidelog.expr import parse_aggregate
from tidelog.model.times.interval import Interval
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet
from tidelog.store.read.aggregation import Question, aggregate, aggregate_all
from tidelog.store.read.snapshot import Snapshot


def question_of(snapshot: Snapshot, options: StreamOptions, texts: Sequence[str]) -> Question | None:
    """Aggregates, given by their texts, if the index can answer all of them. Raises as their parsing does."""
    layout = snapshot.layout
    absent = {each.id.rpartition(":")[2]: each.id for each in options.user_aggregates if find(each.id) is None}
    question = Question(layout, [parse_aggregate(text, layout.stored, layout.schema.time, absent) for text in texts])
    return question if question.is_indexed else None


def answers(
    snapshot: Snapshot, numbers: SeqSet | None, ranges: Sequence[Interval], question: Question
) -> list[list[Any]]:
    """The values of aggregates for each of some ranges of time."""
    if len(ranges) == 1:
        return [aggregate(snapshot, ranges[0].start, ranges[0].end, question, None, numbers).values]
    return [each.values for each in aggregate_all(snapshot, ranges, question, None, numbers)]


def bounds(snapshot: Snapshot, options: StreamOptions, interval: Interval) -> tuple[int, int, int] | None:
    """The first and the last time of the events in an interval, in ticks, and how many there are; None if none."""
    schema = snapshot.layout.schema
    name = schema.time.replace('"', '""')
    question = question_of(snapshot, options, ["count(*)", f'min("{name}")', f'max("{name}")'])
    if question is None:
        return None
    rows, first, last = aggregate(snapshot, interval.start, interval.end, question).values
    return (schema.clock.instant(first), schema.clock.instant(last), rows) if rows else None

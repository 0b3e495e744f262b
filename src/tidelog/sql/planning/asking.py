"""Calls that a stream is asked for: by its index, by the events at the ends of ranges, or by all of its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tidelog.expr import Predicate
from tidelog.expr.errors import ExpressionError
from tidelog.model.errors import GrainError
from tidelog.model.times.interval import Interval
from tidelog.plan.answers import answers, at_ends, question_of
from tidelog.sql.planning.blocks import NotSo
from tidelog.sql.planning.calls import Call
from tidelog.sql.reading.sources import StreamAt
from tidelog.store.read.aggregates.aggregation import Question

Values: TypeAlias = dict[tuple[str, Interval], list[Any] | pa.Array]
"""Values of calls, by their keys, for each of some ranges."""

_NOTHING: Final = Interval(0, 0)


@dataclass(frozen=True, slots=True)
class Asked:
    """Calls with the same filter, and how they are answered."""

    within: Interval
    calls: tuple[Call, ...]
    question: Question | None
    """None for values at the ends of ranges."""
    where: Predicate | None


def questions(stream: StreamAt, calls: Sequence[Call], where: Predicate | None, *, reads_ends: bool) -> list[Asked]:
    """How calls are answered. Raises :class:`NotSo` if the index does not keep what they ask for."""
    found = []
    for within in dict.fromkeys(call.within for call in calls):
        own = [call for call in calls if call.within == within]
        ends = tuple(call for call in own if call.end is not None) if reads_ends else ()
        if ends:
            found.append(Asked(within, ends, None, None))
        others = tuple(call for call in own if call not in ends)
        if others:
            try:
                question = question_of(stream.snapshot, stream.options, [call.asked for call in others])
            except ExpressionError as error:
                raise NotSo(f"{error}") from None
            if not question.is_indexed and not any(call.own for call in calls):
                raise NotSo(f"the index does not keep all of {', '.join(call.text for call in others)}")
            found.append(Asked(within, others, question, where))
    return found


def values(stream: StreamAt, asked: Sequence[Asked], ranges: Sequence[Interval]) -> tuple[Values, int]:
    """The values of calls for ranges of time, and how many leaves of events were read for them."""
    found: Values = {}
    leaves = 0
    for each in asked:
        meant = [each.within.intersect(one) for one in ranges]
        meant = [_NOTHING if one.is_empty else one for one in meant]
        if each.question is not None:
            rows, counters = answers(stream.snapshot, stream.numbers, meant, each.question, each.where)
            found |= {call.key: [row[at] for row in rows] for at, call in enumerate(each.calls)}
        else:
            wanted = [call.end for call in each.calls if call.end is not None]
            try:
                at_end = at_ends(stream.snapshot, stream.options, meant, wanted)
            except GrainError as error:
                if any(call.own for one in asked for call in one.calls):
                    raise
                raise NotSo(f"{error}") from None
            if at_end is None:
                raise NotSo("too many buckets begin or end with nulls")
            arrays, counters = at_end
            found |= {call.key: array for call, array in zip(each.calls, arrays, strict=True)}
        leaves += counters.leaves
    return found, leaves

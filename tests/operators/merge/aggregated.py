"""Copies of a stream whose revisions are real: those of a count of open intervals over arrivals that are out of order.

What comes out is a function of time that is constant in steps: each step is an event whose payload is the count, and an
interval that comes late splits steps, or gives them other ends.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeAlias

from tidelog.operators.merge.codes import BEFORE, NEVER
from tidelog.operators.merge.elements import Element, adjust, insert, stable
from tidelog.operators.merge.table import Event

Interval: TypeAlias = tuple[int, int, int]
"""A group, a start and an end."""


def intervals(dice: random.Random, count: int, groups: int) -> list[Interval]:
    """What is counted, in the order of starts."""
    found, time = [], 0
    for _ in range(count):
        time += dice.randint(0, 4)
        found.append((dice.randrange(groups), time, time + dice.randint(1, 20)))
    return found


def steps(own: Sequence[Interval]) -> dict[int, tuple[int, int]]:
    """The count and the end of each step by its start, where something is open."""
    changes: dict[int, int] = {}
    for _, start, end in own:
        changes[start] = changes.get(start, 0) + 1
        changes[end] = changes.get(end, 0) - 1
    times = sorted(time for time, change in changes.items() if change)
    found, level = {}, 0
    for time, until in zip(times, [*times[1:], NEVER], strict=True):
        level += changes[time]
        if level:
            found[time] = (level, until)
    return found


def whole(own: Sequence[Interval], groups: int) -> list[Event]:
    """The steps of all groups in the end; a payload does not tell its group."""
    found: list[Event] = []
    for group in range(groups):
        for start, (level, end) in steps([each for each in own if each[0] == group]).items():
            found.append((level, start, end))
    return found


def copy(
    dice: random.Random, own: Sequence[Interval], groups: int, *, disorder: float = 0.5, join: int = BEFORE
) -> list[Element]:
    """One copy: a share of the arrivals is late. With a join time only events that end at it or later."""
    order = sorted(own, key=lambda each: each[1] + (dice.random() * 14 if dice.random() < disorder else 0))
    limits, limit = [], NEVER
    for each in reversed(order):
        limit = min(limit, each[1])
        limits.append(limit)
    limits.reverse()
    known: list[list[Interval]] = [[] for _ in range(groups)]
    told: list[dict[int, tuple[int, int]]] = [{} for _ in range(groups)]
    found: list[Element] = []
    last = BEFORE
    for (group, start, end), bound in zip(order, limits, strict=True):
        if bound > last and dice.random() < 0.2:
            last = bound
            found.append(stable(bound))
        known[group].append((group, start, end))
        fresh = steps(known[group])
        found += _changes(told[group], fresh)
        told[group] = fresh
    found.append(stable(NEVER))
    return found if join == BEFORE else _from(found, join)


def _changes(before: dict[int, tuple[int, int]], after: dict[int, tuple[int, int]]) -> list[Element]:
    """Elements by which steps become others."""
    found = []
    for start, (level, end) in before.items():
        if after.get(start, (None, 0))[0] != level:
            found.append(adjust(level, start, end, start))
        elif after[start][1] != end:
            found.append(adjust(level, start, end, after[start][1]))
    for start, (level, end) in after.items():
        if before.get(start, (None, 0))[0] != level:
            found.append(insert(level, start, end))
    return found


def _from(elements: Sequence[Element], join: int) -> list[Element]:
    """What an input gives that may leave out what ends before a time, but for stables that say nothing new."""
    return [each for each in elements if each.kind == 2 or each.end >= join or each.old >= join]

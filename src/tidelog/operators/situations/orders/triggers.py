"""At which starts and ends of situations a match can become certain; at all others nothing has to be searched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.operators.situations.relations import (
    AFTER,
    ANY,
    BEFORE,
    BOTH_START,
    CONTAINS,
    DURING,
    EQUALS,
    FINISHED_BY,
    FINISHES,
    FIRST_STARTS,
    MEETS,
    MET_BY,
    OVERLAPPED_BY,
    OVERLAPS,
    SECOND_STARTS,
    STARTED_BY,
    STARTS,
    each_of,
)
from tidelog.operators.situations.syntax import Definition, Mode

_MOST_STEPS: Final = 20_000_000
"""Steps that are taken to go through the ways to choose one relation for each constraint; if it were more, all instants
count at which a constraint alone can become certain."""
_AT_ONCE: Final = 500
"""Ways that are gone through together."""

_START, _END, _SEEN = range(3)
"""The instants of a situation: the last is the one from which on it counts."""

_NOT_BEHIND, _BEFORE = 1, 2
"""What is known of two instants: the first is not behind the second, or is before it; 0 if nothing is."""

# The endpoints of two intervals in the order of a relation, those of one instant together: A starts, A ends, B starts,
# B ends.
_A, _AE, _B, _BE = range(4)
_ORDERS: Final = {
    BEFORE: ((_A,), (_AE,), (_B,), (_BE,)),
    MEETS: ((_A,), (_AE, _B), (_BE,)),
    STARTS: ((_A, _B), (_AE,), (_BE,)),
    EQUALS: ((_A, _B), (_AE, _BE)),
    STARTED_BY: ((_A, _B), (_BE,), (_AE,)),
    OVERLAPS: ((_A,), (_B,), (_AE,), (_BE,)),
    FINISHED_BY: ((_A,), (_B,), (_AE, _BE)),
    CONTAINS: ((_A,), (_B,), (_BE,), (_AE,)),
    AFTER: ((_B,), (_BE,), (_A,), (_AE,)),
    MET_BY: ((_B,), (_BE, _A), (_AE,)),
    OVERLAPPED_BY: ((_B,), (_A,), (_BE,), (_AE,)),
    FINISHES: ((_B,), (_A,), (_AE, _BE)),
    DURING: ((_B,), (_A,), (_AE,), (_BE,)),
}
_CERTAIN: Final = {
    BEFORE: (_B,),
    MEETS: (_B,),
    STARTS: (_AE,),
    EQUALS: (_AE, _BE),
    STARTED_BY: (_BE,),
    OVERLAPS: (_AE,),
    FINISHED_BY: (_AE, _BE),
    CONTAINS: (_BE,),
    AFTER: (_A,),
    MET_BY: (_A,),
    OVERLAPPED_BY: (_BE,),
    FINISHES: (_AE, _BE),
    DURING: (_AE,),
}
"""When a relation alone is certain."""
_GROUPS: Final = ((FIRST_STARTS, (_B,)), (BOTH_START, (_A, _B)), (SECOND_STARTS, (_A,)))
"""Relations that are certain together, before it is known which of them it will be."""


@lru_cache(64)  # operators are made anew for each restart
def triggers(
    relations: tuple[tuple[int, ...], ...], definitions: tuple[Definition, ...], mode: Mode
) -> npt.NDArray[np.uint8]:
    """For each situation whether a match can become known when it is first seen, and when it ends.

    One that is to be complete becomes known by the end that is the last; those of which a situation can have the last
    end have both.
    """
    pairs = [
        (one, other, mask)
        for one, row in enumerate(relations)
        for other, mask in enumerate(row)
        if one < other and mask != ANY
    ]
    choices = [each_of(mask) for _, _, mask in pairs]
    if prod(map(len, choices)) * (3 * len(definitions)) ** 3 > _MOST_STEPS:
        found = {
            instant
            for one, other, mask in pairs
            for relation in each_of(mask)
            for instant in _decisive(one, other, mask, relation, mode)
        }
    else:
        found = _last_of_all(pairs, choices, definitions, mode)
    table = np.zeros((len(definitions), 2), np.uint8)
    for situation, instant in found:
        table[situation, int(instant == _END)] = 1
    for number, each in enumerate(definitions):
        if each.most is not None or mode is Mode.COMPLETED:  # it is seen when it ends
            table[number, 1] = table[number, 0] = table[number].max()
    table.flags.writeable = False
    return table


def _instant(one: int, other: int, endpoint: int) -> tuple[int, int]:
    return (one if endpoint in (_A, _AE) else other, _START if endpoint in (_A, _B) else _END)


def _decisive(one: int, other: int, mask: int, relation: int, mode: Mode) -> set[tuple[int, int]]:
    """The instants at which a constraint can become known by a relation of it."""
    if mode is Mode.COMPLETED:
        return {(one, _END), (other, _END)}
    endpoints = _CERTAIN[relation]
    for group, certain in _GROUPS:
        if relation & group and mask & group == group:
            endpoints = certain
    return {_instant(one, other, each) for each in endpoints} | {(one, _SEEN), (other, _SEEN)}


def _last_of_all(
    pairs: Sequence[tuple[int, int, int]],
    choices: Sequence[Sequence[int]],
    definitions: Sequence[Definition],
    mode: Mode,
) -> set[tuple[int, int]]:
    """The instants that may be the last of the decisive ones, for some choice of relations that is possible."""
    count = 3 * len(definitions)
    orders, decisive = [], []
    for (one, other, mask), relations in zip(pairs, choices, strict=True):
        orders.append(np.stack([_order(count, one, other, each) for each in relations]))
        flags = np.zeros((len(relations), count), np.bool_)
        for place, relation in enumerate(relations):
            for situation, instant in _decisive(one, other, mask, relation, mode):
                flags[place, 3 * situation + instant] = True
        decisive.append(flags)
    found = np.zeros(count, np.bool_)
    total = prod(map(len, choices))
    for first in range(0, total, _AT_ONCE):
        numbers = np.arange(first, min(first + _AT_ONCE, total))
        known = np.repeat(_known(definitions)[None], len(numbers), axis=0)
        flags = np.zeros((len(numbers), count), np.bool_)
        for order, own in zip(orders, decisive, strict=True):
            numbers, chosen = np.divmod(numbers, len(order))
            np.maximum(known, order[chosen], out=known)
            flags |= own[chosen]
        for middle in range(count):
            to, behind = known[:, :, middle, None], known[:, None, middle, :]
            np.maximum(known, np.where((to > 0) & (behind > 0), np.maximum(to, behind), 0), out=known)
        is_possible = ~(np.diagonal(known, axis1=1, axis2=2) == _BEFORE).any(axis=1)
        is_last = flags & ~((known == _BEFORE) & flags[:, None, :]).any(axis=2)
        found |= is_last[is_possible].any(axis=0)
    return {divmod(int(node), 3) for node in np.flatnonzero(found)}


def _known(definitions: Sequence[Definition]) -> npt.NDArray[np.int8]:
    """What is known of the order of instants without any relation."""
    known = np.eye(3 * len(definitions), dtype=np.int8) * _NOT_BEHIND
    for number, each in enumerate(definitions):
        start, end, seen = (3 * number + instant for instant in (_START, _END, _SEEN))
        known[start, end] = _BEFORE
        known[start, seen] = known[seen, end] = _NOT_BEHIND
        if each.most is not None:
            known[end, seen] = _NOT_BEHIND
        elif not each.least:
            known[seen, start] = _NOT_BEHIND
    return known


def _order(count: int, one: int, other: int, relation: int) -> npt.NDArray[np.int8]:
    """What a relation of two situations tells about the order of their instants."""
    known = np.zeros((count, count), np.int8)
    groups = [[_node(one, other, each) for each in group] for group in _ORDERS[relation]]
    for group in groups:
        for left, right in product(group, repeat=2):
            known[left, right] = _NOT_BEHIND
    for before, after in pairwise(groups):
        for left, right in product(before, after):
            known[left, right] = _BEFORE
    return known


def _node(one: int, other: int, endpoint: int) -> int:
    situation, instant = _instant(one, other, endpoint)
    return 3 * situation + instant

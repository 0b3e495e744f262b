"""At which starts and ends of situations a match can become certain; at all others nothing has to be searched."""

from __future__ import annotations

from collections.abc import Sequence
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
from tidelog.operators.situations.syntax import Definition

_MOST_CHOICES: Final = 3_000
"""Ways to choose one relation for each constraint that are gone through; of more, all endpoints count."""

_START, _END, _SEEN = range(3)
"""The instants of a situation: the last is the one from which on it counts."""

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


def triggers(relations: Sequence[Sequence[int]], definitions: Sequence[Definition]) -> npt.NDArray[np.uint8]:
    """For each situation whether a match can become certain when it is first seen, and when it ends."""
    pairs = [
        (one, other, mask)
        for one, row in enumerate(relations)
        for other, mask in enumerate(row)
        if one < other and mask != ANY
    ]
    found: set[tuple[int, int]] = set()
    if prod(len(each_of(mask)) for _, _, mask in pairs) > _MOST_CHOICES:
        for one, other, mask in pairs:
            for relation in each_of(mask):
                found |= _decisive(one, other, mask, relation)
    else:
        for choice in product(*(each_of(mask) for _, _, mask in pairs)):
            found |= _last(pairs, choice, definitions)
    table = np.zeros((len(definitions), 2), np.uint8)
    for situation, instant in found:
        table[situation, int(instant == _END)] = 1
    for number, each in enumerate(definitions):
        if each.most is not None:  # it is seen when it ends
            table[number, 1] = table[number, 0] = table[number].max()
    return table


def _instant(one: int, other: int, endpoint: int) -> tuple[int, int]:
    return (one if endpoint in (_A, _AE) else other, _START if endpoint in (_A, _B) else _END)


def _decisive(one: int, other: int, mask: int, relation: int) -> set[tuple[int, int]]:
    """The instants at which a constraint can become certain by a relation of it."""
    endpoints = _CERTAIN[relation]
    for group, certain in _GROUPS:
        if relation & group and mask & group == group:
            endpoints = certain
    return {_instant(one, other, each) for each in endpoints} | {(one, _SEEN), (other, _SEEN)}


def _last(
    pairs: Sequence[tuple[int, int, int]], choice: Sequence[int], definitions: Sequence[Definition]
) -> set[tuple[int, int]]:
    """The instants that may be the last of the decisive ones if these relations hold; none if they cannot."""
    count = 3 * len(definitions)
    # 2: the first is before the second; 1: it is not behind it; 0: nothing is known.
    known = np.zeros((count, count), np.int8)
    np.fill_diagonal(known, 1)
    for number, each in enumerate(definitions):
        start, end, seen = (3 * number + instant for instant in (_START, _END, _SEEN))
        known[start, end] = 2
        known[start, seen] = known[seen, end] = 1
        if each.most is not None:
            known[end, seen] = 1
        elif not each.least:
            known[seen, start] = 1
    for (one, other, _), relation in zip(pairs, choice, strict=True):
        groups = [[_node(one, other, each) for each in group] for group in _ORDERS[relation]]
        for group in groups:
            for left, right in product(group, repeat=2):
                known[left, right] = max(known[left, right], 1)
        for before, after in pairwise(groups):
            for left, right in product(before, after):
                known[left, right] = 2
    for middle in range(count):
        to, behind = known[:, middle, None], known[None, middle, :]
        known = np.maximum(known, np.where((to > 0) & (behind > 0), np.maximum(to, behind), 0))
    if (np.diagonal(known) == 2).any():
        return set()
    decisive: set[tuple[int, int]] = set()
    for (one, other, mask), relation in zip(pairs, choice, strict=True):
        decisive |= _decisive(one, other, mask, relation)
    nodes = [3 * situation + instant for situation, instant in decisive]
    return {divmod(node, 3) for node in nodes if not (known[node, nodes] == 2).any()}


def _node(one: int, other: int, endpoint: int) -> int:
    situation, instant = _instant(one, other, endpoint)
    return 3 * situation + instant

"""The thirteen relations between two intervals, in Allen's words.

A set of relations is a mask of bits. Intervals are half open and never empty; exactly one relation holds between two.
"""

from __future__ import annotations

from typing import Final

BEFORE: Final = 1 << 0
MEETS: Final = 1 << 1
STARTS: Final = 1 << 2
EQUALS: Final = 1 << 3
STARTED_BY: Final = 1 << 4
OVERLAPS: Final = 1 << 5
FINISHED_BY: Final = 1 << 6
CONTAINS: Final = 1 << 7
AFTER: Final = 1 << 8
MET_BY: Final = 1 << 9
OVERLAPPED_BY: Final = 1 << 10
FINISHES: Final = 1 << 11
DURING: Final = 1 << 12

ANY: Final = (1 << 13) - 1
"""All of them: what is known of two situations that no constraint is about."""

FIRST_STARTS: Final = OVERLAPS | FINISHED_BY | CONTAINS
"""What may hold between two that are both going on, of which the first has started first."""
BOTH_START: Final = STARTS | EQUALS | STARTED_BY
SECOND_STARTS: Final = OVERLAPPED_BY | FINISHES | DURING

NAMES: Final = {
    "before": BEFORE,
    "after": AFTER,
    "meets": MEETS,
    "met by": MET_BY,
    "overlaps": OVERLAPS,
    "overlapped by": OVERLAPPED_BY,
    "starts": STARTS,
    "started by": STARTED_BY,
    "during": DURING,
    "contains": CONTAINS,
    "finishes": FINISHES,
    "finished by": FINISHED_BY,
    "equals": EQUALS,
}
"""The relations by what they are called."""

SELECTIVITIES: Final = {
    BEFORE: 0.445,
    AFTER: 0.445,
    MEETS: 0.0049,
    MET_BY: 0.0049,
    STARTS: 0.0049,
    STARTED_BY: 0.0049,
    EQUALS: 0.0006,
    OVERLAPS: 0.01,
    OVERLAPPED_BY: 0.01,
    FINISHES: 0.0049,
    FINISHED_BY: 0.0049,
    CONTAINS: 0.03,
    DURING: 0.03,
}
"""The share of pairs for which each is expected to hold before anything has been seen; together one."""

_INVERSES: Final = {
    BEFORE: AFTER,
    MEETS: MET_BY,
    STARTS: STARTED_BY,
    EQUALS: EQUALS,
    OVERLAPS: OVERLAPPED_BY,
    FINISHED_BY: FINISHES,
    CONTAINS: DURING,
}
_INVERSE: Final = {**_INVERSES, **{other: one for one, other in _INVERSES.items()}}


def each_of(mask: int) -> list[int]:
    """The relations of a mask."""
    return [1 << place for place in range(13) if mask >> place & 1]


def inverse(mask: int) -> int:
    """The relations of the second to the first."""
    found = 0
    for relation in each_of(mask):
        found |= _INVERSE[relation]
    return found


def mask_of(names: list[str]) -> int:
    """The mask of relations that are called so."""
    found = 0
    for name in names:
        found |= NAMES[name]
    return found


def told(mask: int) -> str:
    """A mask in words."""
    return " | ".join(name for name, relation in NAMES.items() if relation & mask)


def relation_of(first: tuple[int, int], second: tuple[int, int]) -> int:
    """The relation between two intervals."""
    (start, end), (other_start, other_end) = first, second
    if end <= other_start:
        return BEFORE if end < other_start else MEETS
    if other_end <= start:
        return AFTER if other_end < start else MET_BY
    by_start = (start > other_start) - (start < other_start)
    by_end = (end > other_end) - (end < other_end)
    return _OVERLAPPING[by_start, by_end]


_OVERLAPPING: Final = {
    (-1, -1): OVERLAPS,
    (-1, 0): FINISHED_BY,
    (-1, 1): CONTAINS,
    (0, -1): STARTS,
    (0, 0): EQUALS,
    (0, 1): STARTED_BY,
    (1, -1): DURING,
    (1, 0): FINISHES,
    (1, 1): OVERLAPPED_BY,
}

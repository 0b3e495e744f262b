"""Situations, matches and instants of detection, straight from the definitions, one row and one pair at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

RELATIONS = {
    "before": lambda a, b, c, d: b < c,
    "meets": lambda a, b, c, d: b == c,
    "overlaps": lambda a, b, c, d: a < c < b < d,
    "starts": lambda a, b, c, d: a == c and b < d,
    "during": lambda a, b, c, d: c < a and b < d,
    "finishes": lambda a, b, c, d: c < a and b == d,
    "equals": lambda a, b, c, d: a == c and b == d,
    "after": lambda a, b, c, d: d < a,
    "met by": lambda a, b, c, d: d == a,
    "overlapped by": lambda a, b, c, d: c < a < d < b,
    "started by": lambda a, b, c, d: a == c and d < b,
    "contains": lambda a, b, c, d: a < c and d < b,
    "finished by": lambda a, b, c, d: a < c and b == d,
}
"""Whether [a, b) is in a relation to [c, d)."""

GROUPS = (
    {"overlaps", "finished by", "contains"},
    {"starts", "equals", "started by"},
    {"overlapped by", "finishes", "during"},
)


@dataclass(frozen=True)
class Situation:
    start: int
    end: int
    seen: int
    """From when on it counts while it lasts."""


@dataclass(frozen=True)
class Kind:
    """A definition: how long its situations last."""

    least: int = 0
    most: int | None = None


def relation(one: Situation, other: Situation) -> str:
    (found,) = [name for name, holds in RELATIONS.items() if holds(one.start, one.end, other.start, other.end)]
    return found


def situations(times: Sequence[int], holds: Sequence[bool], kind: Kind) -> list[Situation]:
    """The situations of rows in order."""
    found = []
    start: int | None = None
    for time, is_on in zip(times, holds, strict=True):
        if is_on and start is None:
            start = time
        elif not is_on and start is not None:
            length = time - start
            if length > 0 and length >= kind.least and (kind.most is None or length <= kind.most):
                seen = time if kind.most is not None else min([t for t in times if t >= start + kind.least] + [time])
                found.append(Situation(start, time, min(seen, time)))
            start = None
    return found


def configurations(
    streams: Sequence[Sequence[Situation]], constraints: dict[tuple[int, int], set[str]]
) -> Iterator[tuple[Situation, ...]]:
    """One situation of each stream, such that all constraints are fulfilled."""

    def grown(chosen: tuple[Situation, ...]) -> Iterator[tuple[Situation, ...]]:
        number = len(chosen)
        if number == len(streams):
            yield chosen
            return
        for each in streams[number]:
            if all(
                relation(chosen[other], each) in constraints[other, number]
                for other in range(number)
                if (other, number) in constraints
            ):
                yield from grown((*chosen, each))

    return grown(())


def completed(
    streams: Sequence[Sequence[Situation]], constraints: dict[tuple[int, int], set[str]], within: int
) -> list[tuple[tuple[Situation, ...], int]]:
    """All matches, each with its time."""
    return [
        (found, max(each.end for each in found))
        for found in configurations(streams, constraints)
        if max(each.end for each in found) - min(each.start for each in found) <= within
    ]


def certain(one: Situation, other: Situation, allowed: set[str]) -> int:
    """The first instant at which it is certain that one of some relations holds, of which one does."""
    name = relation(one, other)
    third = sorted([one.start, one.end, other.start, other.end])[2]
    if name in ("before", "after", "meets", "met by") or any(name in group and group <= allowed for group in GROUPS):
        third = max(one.start, other.start)
    return max(third, one.seen, other.seen)


def early(
    streams: Sequence[Sequence[Situation]], constraints: dict[tuple[int, int], set[str]], within: int
) -> list[tuple[tuple[Situation, ...], int]]:
    """All matches, each with the first instant at which it is certain."""
    found = []
    for each in configurations(streams, constraints):
        instant = max(certain(each[one], each[other], allowed) for (one, other), allowed in constraints.items())
        if instant - min(own.start for own in each) <= within:
            found.append((each, instant))
    return found

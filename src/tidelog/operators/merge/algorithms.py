"""The algorithms by name: what they need of inputs, and what runs them on batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.model.errors import InputError, did_you_mean
from tidelog.operators.merge import codes
from tidelog.operators.merge.batches.counting.engine import Counted
from tidelog.operators.merge.batches.engine import BatchMerge, Disordered, Keyed, Ordered, Policy

LAZY: Final = Policy()


@dataclass(frozen=True)
class Algorithm:
    """What an algorithm needs, and how it is made."""

    name: str
    text: str
    """For whom it is, in words."""
    make: Callable[[Policy], BatchMerge]
    is_ordered: bool = False
    """Whether the starts of an input must not fall; it gives inserts in that order then."""
    is_strict: bool = False
    """Whether they have to rise."""
    takes_adjusts: bool = False
    is_keyed: bool = False
    """Whether payload and start are a key, so that repeats are one event."""
    compares: bool = True
    """Whether payloads are compared at all."""
    has_policies: bool = False
    """Whether it may tell an event other than once and at once."""


ALGORITHMS: Final[Mapping[str, Algorithm]] = {
    each.name: each
    for each in (
        Algorithm(
            "R0", "inserts whose starts rise strictly", lambda _: Ordered(codes.ONE),
            is_ordered=True, is_strict=True, is_keyed=True, compares=False,
        ),
        Algorithm(
            "R1", "inserts in order, those of one start in the same order on every input",
            lambda _: Ordered(codes.SAME_ORDER), is_ordered=True, compares=False,
        ),
        Algorithm(
            "R2", "inserts in order, with a key", lambda _: Ordered(codes.DISTINCT), is_ordered=True, is_keyed=True,
        ),
        Algorithm(
            "R2dup", "inserts in order, equal ones counted", lambda _: Ordered(codes.COUNTED), is_ordered=True,
        ),
        Algorithm("R2d", "inserts in any order, with a key", lambda _: Disordered(), is_keyed=True),
        Algorithm("R2ddup", "inserts in any order, equal ones counted", lambda _: Disordered(counted=True)),
        Algorithm(
            "R3", "all elements, with a key", Keyed, takes_adjusts=True, is_keyed=True, has_policies=True,
        ),
        Algorithm(
            "R4", "all elements, equal events counted", Counted, takes_adjusts=True, has_policies=True,
        ),
    )
}  # fmt: skip
"""From the cheapest to the most general one."""


def algorithm_of(name: str, policy: Policy = LAZY) -> Algorithm:
    """The algorithm of a name; raises :class:`InputError` if there is none, or if it does not have the policy."""
    found = ALGORITHMS.get(name)
    if found is None:
        raise InputError(f"there is no algorithm {name!r}; {did_you_mean(name, ALGORITHMS)}")
    if policy.code != codes.LAZY and not found.has_policies:
        raise InputError(
            f"the algorithm {name} ({found.text}) tells every event once and at once; choose R3 or R4 for other "
            "policies"
        )
    return found

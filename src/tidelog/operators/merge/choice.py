"""Which algorithm a merge needs, by what is known of its inputs, and why."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.operators.merge import codes
from tidelog.operators.merge.algorithms import ALGORITHMS, LAZY, Algorithm
from tidelog.operators.merge.batches.engine import Policy
from tidelog.operators.properties import Order, Properties


@dataclass(frozen=True)
class Choice:
    """An algorithm, and why it is that one."""

    algorithm: str
    reasons: tuple[str, ...]
    keeps_repeats: bool
    """Whether an event that an input sends twice counts as two."""

    def __str__(self) -> str:
        return "\n".join(self.reasons)


def choose(properties: Properties, policy: Policy = LAZY) -> Choice:
    """The cheapest algorithm that has the policy and is right for inputs that all have some properties."""
    reasons = []
    for name, algorithm in ALGORITHMS.items():
        lacking = _lacking(algorithm, properties)
        if lacking is None and policy.code != codes.LAZY and not algorithm.has_policies:
            lacking = "it tells every event once and at once, whatever the policy"
        if lacking is None:
            reasons.append(f"{name}, for {algorithm.text}: chosen, the cheapest that is right")
            return Choice(name, tuple(reasons), keeps_repeats=not algorithm.is_keyed)
        reasons.append(f"{name}, for {algorithm.text}: not, {lacking}")
    raise AssertionError("the last algorithm is right for all inputs, and has all policies")


def _lacking(algorithm: Algorithm, properties: Properties) -> str | None:
    """What an algorithm needs that inputs do not have."""
    if not algorithm.takes_adjusts and not properties.inserts_only:
        return "events may be revised"
    if algorithm.is_strict and properties.order < Order.STRICT:
        return "several events may have one start, or come out of order"
    if algorithm.is_ordered and properties.order < Order.RISING:
        return "events may come out of order"
    has_key = properties.key is not None or properties.order == Order.STRICT
    if algorithm.is_keyed and not has_key:
        return "there is no key"
    if not algorithm.is_keyed and properties.key is not None:
        return "events that are sent again would count as others, though there is a key"
    if not algorithm.is_keyed and not algorithm.compares and not properties.same_ties:
        return "events of one start may come in another order on each input"
    return None

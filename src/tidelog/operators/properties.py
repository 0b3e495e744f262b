"""What is known of a stream of which there may be copies: declared for sources, and passed on through operators.

A logical merge picks its algorithm by it (:mod:`tidelog.operators.merge.choice`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Order(IntEnum):
    """The order in which the starts of events come."""

    NONE = 0
    RISING = 1
    """None is before the one before it."""
    STRICT = 2
    """Each is behind the one before it."""


@dataclass(frozen=True)
class Properties:
    """Promises of a stream, that hold for every copy of it."""

    order: Order = Order.NONE
    inserts_only: bool = False
    """Whether events are never revised."""
    same_ties: bool = False
    """Whether events of one start come in the same order on every copy."""
    key: tuple[str, ...] | None = None
    """Columns of which no two events of one start have the same values; None if there are none."""

    @property
    def is_determined(self) -> bool:
        """Whether every copy is the same sequence of events."""
        return self.inserts_only and (self.order == Order.STRICT or (self.order == Order.RISING and self.same_ties))


EVENTS = Properties(inserts_only=True)
"""Plain events of which nothing else is known."""


def weakest(properties: Sequence[Properties]) -> Properties:
    """What holds for all of some streams."""
    keys = [each.key for each in properties]
    key: tuple[str, ...] | None = ()
    for each in keys:
        key = None if key is None or each is None else tuple(dict.fromkeys([*key, *each]))
    return Properties(
        min((each.order for each in properties), default=Order.NONE),
        all(each.inserts_only for each in properties),
        all(each.same_ties for each in properties),
        key if keys else None,
    )

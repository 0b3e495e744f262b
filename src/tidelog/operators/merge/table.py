"""What a prefix of a stream means: the events that are there, and whether its elements keep their promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from tidelog.model.errors import InputError
from tidelog.operators.merge.codes import ADJUST, BEFORE, INSERT, STABLE
from tidelog.operators.merge.elements import Element

Event: TypeAlias = tuple[object, int, int]
"""Payload, start and end."""


class Violation(InputError):
    """An element that breaks a promise of its own stream."""


class Table:
    """The events of a stream so far, and its last stable: a multiset.

    A strict one raises :class:`Violation` for elements against the contract; another one counts them, and does as much
    of what they say as there is.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self.events: Counter[Event] = Counter()
        self.stable = BEFORE
        self.violations = 0
        self._strict = strict

    def apply(self, element: Element) -> None:
        """Take one element."""
        kind, payload, start, end, old = element
        if kind == STABLE:
            self.stable = max(self.stable, end)
        elif kind == INSERT:
            if end <= start:
                return
            if start < self.stable:
                self._broken(f"{element} starts before the last stable, {self.stable}")
            self.events[payload, start, end] += 1
        elif kind == ADJUST:
            if end < start:
                self._broken(f"{element} ends before it starts")
                return
            if end == old:
                return
            if old < self.stable or end < self.stable:
                self._broken(f"{element} has an end before the last stable, {self.stable}")
            if not self.events[payload, start, old]:
                self._broken(f"{element} is of an event that is not there")
            else:
                self.events[payload, start, old] -= 1
            if not self.events[payload, start, old]:
                del self.events[payload, start, old]
            if end > start:
                self.events[payload, start, end] += 1
        else:
            self._broken(f"there is no element of kind {kind}")

    def _broken(self, message: str) -> None:
        if self._strict:
            raise Violation(message)
        self.violations += 1

    def frozen(self) -> Counter[Event]:
        """The events that will stay as they are."""
        return Counter({event: count for event, count in self.events.items() if event[2] < self.stable})


def table_of(elements: Iterable[Element], *, strict: bool = True) -> Table:
    """What elements in their order mean."""
    table = Table(strict=strict)
    for element in elements:
        table.apply(element)
    return table

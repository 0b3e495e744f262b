"""Cleanse: of any stream one of inserts alone, by start, payload and end, each given when it is known for good."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from tidelog.operators.merge.codes import ADJUST, BEFORE, INSERT, NEVER
from tidelog.operators.merge.elements import Element, insert, stable
from tidelog.operators.merge.table import Violation


class Cleanse:
    """Gives the longest prefix of what is fully frozen, and a stable that stops at the first start behind it."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, Any, int]] = []
        self.max_stable = BEFORE
        self.stable = BEFORE

    @property
    def size(self) -> int:
        """How many events wait."""
        return len(self._kept)

    def push(self, element: Element) -> list[Element]:
        """What comes out by one element."""
        kind, payload, start, end, old = element
        if kind == INSERT:
            if start < self.max_stable:
                raise Violation(f"{element} starts before the last stable, {self.max_stable}")
            if end > start:
                insort(self._kept, (start, payload, end))
            return []
        if kind == ADJUST:
            place = bisect_left(self._kept, (start, payload, old))
            if place == len(self._kept) or self._kept[place] != (start, payload, old):
                raise Violation(f"{element} is of an event that is not there")
            del self._kept[place]
            if end > start:
                insort(self._kept, (start, payload, end))
            return []
        if end <= self.max_stable:
            return []
        self.max_stable = end
        count = 0
        while count < len(self._kept) and (self._kept[count][2] < end or end == NEVER):
            count += 1
        found = [insert(payload, start, last) for start, payload, last in self._kept[:count]]
        del self._kept[:count]
        reached = min(end, self._kept[0][0]) if self._kept else end
        if reached > self.stable:
            self.stable = reached
            found.append(stable(reached))
        return found

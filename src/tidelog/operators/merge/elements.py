"""The elements that a stream of revisable events is made of.

An event has a payload and is valid in ``[start, end)``; ``end`` may be :data:`NEVER`. Streams reveal them by elements:

* an *insert* adds an event; its start is not before the last stable of the stream.
* an *adjust* gives one event of the payload and the start, which ended at ``old``, another end; if that is its start,
  the event is gone. Neither ``old`` nor the new end is before the last stable.
* a *stable* says that no later insert starts before it, and no later adjust has either end before it.

So after ``stable(t)`` an event that ends before t is *fully frozen* and stays as it is; one that starts before t and
ends at t or later is *half frozen*: it stays, and its end may move to any time from t on; all others are *unfrozen*.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from tidelog.operators.merge.codes import ADJUST, BEFORE, INSERT, NEVER, STABLE

KINDS: Final = ("insert", "adjust", "stable")
"""The names of the kinds, by their numbers."""


class Element(NamedTuple):
    """One element; a stable has its time as ``end``, and nothing else."""

    kind: int
    payload: Hashable
    start: int
    end: int
    old: int = BEFORE

    def __repr__(self) -> str:
        if self.kind == STABLE:
            return f"s({_told(self.end)})"
        if self.kind == INSERT:
            return f"i({self.payload},{_told(self.start)},{_told(self.end)})"
        return f"a({self.payload},{_told(self.start)},{_told(self.old)}→{_told(self.end)})"


def insert(payload: Hashable, start: int, end: int) -> Element:
    """An insert."""
    return Element(INSERT, payload, start, end)


def adjust(payload: Hashable, start: int, old: int, end: int) -> Element:
    """An adjust."""
    return Element(ADJUST, payload, start, end, old)


def stable(time: int) -> Element:
    """A stable."""
    return Element(STABLE, None, BEFORE, time)


def sync_time(element: Element) -> int:
    """The least time an element speaks of: stables up to it do not forbid the element."""
    return min(element.old, element.end) if element.kind == ADJUST else element.start


def _told(time: int) -> Any:
    return "∞" if time == NEVER else "-∞" if time == BEFORE else time

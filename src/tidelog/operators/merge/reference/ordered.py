"""Merges of streams of inserts in the order of their starts, and R2d, where they are in any order.

Pending inputs wait: taken in too early they would push the newest start past what others still owe.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Hashable

from tidelog.model.errors import InputError
from tidelog.operators.merge.codes import BEFORE
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.reference.driver import Input, Merge


class Ordered(Merge):
    """Inserts by starts that do not fall."""

    counts_events = False
    """Whether events are told by how many there are: then those before its join time, of which an input may lack some,
    say nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.max_start = BEFORE

    def progress(self) -> int:
        """Stables are redundant but in lulls: the newest start tells as much."""
        return max(self.max_stable, self.max_start)

    def _insert(self, element: Element, own: Input) -> None:
        if own.phase == "pending":
            own.waiting.append(element)
            return
        if element.start < self.max_stable or element.start < self.max_start:
            own.counters.late += 1
            return
        if self.counts_events and element.start < own.join:
            return
        moved = element.start > self.max_start
        if moved:
            self.max_start = element.start
            self._group()
        if self._is_new(element, own, moved):
            self._emit(element)
        if moved:
            self._promote()

    @abstractmethod
    def _is_new(self, element: Element, own: Input, moved: bool) -> bool:
        """Whether an insert of the newest start is the first of its kind."""

    def _group(self) -> None:
        """A new start begins."""

    def _adjust(self, element: Element, own: Input) -> None:
        raise InputError(f"found {element}; this algorithm takes inserts alone: choose R3 or R4 for revisions")

    def _advance(self, time: int, own: Input) -> None:
        self.max_stable = time
        self._emit_stable(time)

    def _joined(self, own: Input) -> None:
        waiting, own.waiting = own.waiting, []
        for element in waiting:
            self._insert(element, own)


class R0(Ordered):
    """Starts rise strictly: the first of each start is the one."""

    @property
    def size(self) -> int:
        """Nothing but a time."""
        return 0

    def _is_new(self, element: Element, own: Input, moved: bool) -> bool:
        return moved


class R1(Ordered):
    """Events of one start come in the same order on every input: it is enough to count."""

    counts_events = True

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[int] = Counter()
        self._given_count = 0

    @property
    def size(self) -> int:
        """A number for each input."""
        return 0

    def _group(self) -> None:
        self._counts.clear()
        self._given_count = 0

    def _is_new(self, element: Element, own: Input, moved: bool) -> bool:
        is_new = self._counts[own.number] == self._given_count
        self._given_count += is_new
        self._counts[own.number] += 1
        return is_new


class R2(Ordered):
    """Events of one start come in any order, and their payloads differ."""

    def __init__(self) -> None:
        super().__init__()
        self._payloads: set[Hashable] = set()

    @property
    def size(self) -> int:
        """The payloads of the newest start."""
        return len(self._payloads)

    def _group(self) -> None:
        self._payloads.clear()

    def _is_new(self, element: Element, own: Input, moved: bool) -> bool:
        is_new = element.payload not in self._payloads
        self._payloads.add(element.payload)
        return is_new


class R2Dup(Ordered):
    """Events of one start come in any order, equal ones as often as they are."""

    counts_events = True

    def __init__(self) -> None:
        super().__init__()
        self._counts: defaultdict[int, Counter[tuple[Hashable, int]]] = defaultdict(Counter)
        self._out: Counter[tuple[Hashable, int]] = Counter()

    @property
    def size(self) -> int:
        """The payloads of the newest start."""
        return len(self._out)

    def _group(self) -> None:
        self._counts.clear()
        self._out.clear()

    def _is_new(self, element: Element, own: Input, moved: bool) -> bool:
        key = element.payload, element.end
        self._counts[own.number][key] += 1
        is_new = self._counts[own.number][key] > self._out[key]
        self._out[key] += is_new
        return is_new


class R2D(Merge):
    """Inserts in any order within stables, whose payloads and starts are a key."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[int, Hashable]] = set()

    @property
    def size(self) -> int:
        """The events that start at the last stable or later."""
        return len(self._seen)

    def _insert(self, element: Element, own: Input) -> None:
        key = element.start, element.payload
        if element.start < self.max_stable:
            own.counters.late += 1
        elif key not in self._seen:
            self._seen.add(key)
            self._emit(element)

    def _adjust(self, element: Element, own: Input) -> None:
        raise InputError(f"found {element}; this algorithm takes inserts alone: choose R3 or R4 for revisions")

    def _advance(self, time: int, own: Input) -> None:
        self.max_stable = time
        self._seen = {key for key in self._seen if key[0] >= time}
        self._emit_stable(time)


class R2DDup(Merge):
    """Inserts in any order within stables, equal ones as often as they are."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: defaultdict[int, Counter[tuple[int, Hashable, int]]] = defaultdict(Counter)
        self._out: Counter[tuple[int, Hashable, int]] = Counter()

    @property
    def size(self) -> int:
        """The different events that start at the last stable or later."""
        return len(self._out)

    def _insert(self, element: Element, own: Input) -> None:
        key = element.start, element.payload, element.end
        if element.start < self.max_stable:
            own.counters.late += 1
            return
        self._counts[own.number][key] += 1
        if self._counts[own.number][key] > self._out[key]:
            self._out[key] += 1
            self._emit(element)

    def _adjust(self, element: Element, own: Input) -> None:
        raise InputError(f"found {element}; this algorithm takes inserts alone: choose R3 or R4 for revisions")

    def _advance(self, time: int, own: Input) -> None:
        self.max_stable = time
        for each in (self._out, *self._counts.values()):
            for key in [key for key in each if key[0] < time]:
                del each[key]
        self._emit_stable(time)

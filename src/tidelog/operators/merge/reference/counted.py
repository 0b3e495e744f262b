"""R4: all elements, in any order within stables; the same event may be there several times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

from tidelog.operators.merge.codes import NEVER
from tidelog.operators.merge.elements import Element, adjust, insert
from tidelog.operators.merge.reference.driver import Input, Merge


class Counts:
    """A payload and a start: how many events end when, on each input and in the output."""

    __slots__ = ("ends", "out", "payload", "start")

    def __init__(self, payload: Hashable, start: int) -> None:
        self.payload = payload
        self.start = start
        self.ends: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.out: Counter[int] = Counter()


class R4(Merge):
    """As R3, with multisets. By ``exact`` ends are right as soon as events are half frozen."""

    def __init__(self, *, exact: bool = False) -> None:
        super().__init__()
        self._exact = exact
        self.nodes: dict[tuple[int, Hashable], Counts] = {}

    @property
    def size(self) -> int:
        """The payloads and starts of events that are not all fully frozen."""
        return len(self.nodes)

    def _insert(self, element: Element, own: Input) -> None:
        key = element.start, element.payload
        node = self.nodes.get(key)
        if node is None:
            if element.start < self.max_stable:
                own.counters.late += 1
                return
            node = self.nodes[key] = Counts(element.payload, element.start)
        ends = node.ends[own.number]
        ends[element.end] += 1
        if element.start >= self.max_stable and ends.total() > node.out.total():
            self._add(node, element.end)

    def _adjust(self, element: Element, own: Input) -> None:
        node = self.nodes.get((element.start, element.payload))
        as_insert = insert(element.payload, element.start, element.end)
        if node is None:
            if element.start >= self.max_stable and element.end > element.start:
                self._insert(as_insert, own)
            return
        ends = node.ends[own.number]
        if ends[element.old] > 0:
            _take_one(ends, element.old)
        else:
            own.counters.unknown_ends += 1
        if element.end > element.start:
            self._insert(as_insert, own)

    def _advance(self, time: int, own: Input) -> None:
        for key in sorted(self.nodes):  # payloads are of one type, and have an order
            if key[0] >= time:
                break
            node = self.nodes[key]
            wanted = self._to_follow(node, own)
            if node.start >= self.max_stable:
                self._make_count(node, wanted)
            self._make_ends(node, wanted, time)
            if not wanted or max(wanted) < time:
                del self.nodes[key]
        if time == NEVER:
            self.nodes.clear()
        self.max_stable = time
        self._emit_stable(time)

    def _make_count(self, node: Counts, wanted: Counter[int]) -> None:
        """As many events as are wanted; those that would be frozen first."""
        missing = wanted.total() - node.out.total()
        if missing > 0:
            for end in sorted((wanted - node.out).elements())[:missing]:
                self._add(node, end)
        elif missing < 0:
            for end in sorted((node.out - wanted).elements())[:-missing]:
                self._move(node, end, node.start)
        if self._exact:
            pairs = zip(sorted((node.out - wanted).elements()), sorted((wanted - node.out).elements()), strict=True)
            for old, end in list(pairs):
                self._move(node, old, end)

    def _make_ends(self, node: Counts, wanted: Counter[int], time: int) -> None:
        """The ends before a stable as they are wanted, by as few elements as can be."""
        reached = self.max_stable if node.start < self.max_stable else node.start
        surplus = [end for end in sorted((node.out - wanted).elements()) if end >= reached]
        lacking = [end for end in sorted((wanted - node.out).elements()) if end >= reached]
        early, later = _split(surplus, time)
        early_lacking, later_lacking = _split(lacking, time)
        both = min(len(early), len(early_lacking))
        for old, end in zip(early[:both], early_lacking[:both], strict=True):
            self._move(node, old, end)
        for place, old in enumerate(early[both:]):
            self._move(node, old, later_lacking[place] if place < len(later_lacking) else NEVER)
        for old, end in zip(later, early_lacking[both:], strict=False):
            self._move(node, old, end)

    def _to_follow(self, node: Counts, own: Input) -> Counter[int]:
        """The ends that the output must follow if an input moves it on."""
        if node.start >= self.max_stable:
            return +node.ends[own.number]
        frozen, movable = _divide(node.out, self.max_stable)
        _, ends = _divide(node.ends[own.number], self.max_stable)
        if ends.total() != movable.total():
            own.counters.fallbacks += 1
            others = [each for each in self.inputs.values() if each is not own and node.ends[each.number]]
            others.sort(key=lambda each: (each.phase == "joined", each.stable, -each.number), reverse=True)
            for each in others:
                _, theirs = _divide(node.ends[each.number], self.max_stable)
                if theirs.total() == movable.total():
                    return frozen + theirs
            own.counters.clamps += 1
            if ends.total() < movable.total():
                for end in sorted((movable - ends).elements())[ends.total() - movable.total() :]:
                    ends[end] += 1
            else:
                for end in sorted((ends - movable).elements())[movable.total() - ends.total() :]:
                    _take_one(ends, end)
        return frozen + ends

    def _add(self, node: Counts, end: int) -> None:
        self._emit(insert(node.payload, node.start, end))
        node.out[end] += 1

    def _move(self, node: Counts, old: int, end: int) -> None:
        self._emit(adjust(node.payload, node.start, old, end))
        _take_one(node.out, old)
        if end > node.start:
            node.out[end] += 1


def _take_one(counts: Counter[int], end: int) -> None:
    counts[end] -= 1
    if not counts[end]:
        del counts[end]


def _divide(counts: Counter[int], time: int) -> tuple[Counter[int], Counter[int]]:
    """Those that end before a time, and the others."""
    early = Counter({end: count for end, count in counts.items() if end < time and count > 0})
    return early, Counter({end: count for end, count in counts.items() if end >= time and count > 0})


def _split(ends: list[int], time: int) -> tuple[list[int], list[int]]:
    return [end for end in ends if end < time], [end for end in ends if end >= time]

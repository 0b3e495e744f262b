"""R4: all elements, in any order within stables; the same event may be there several times."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable

from tidelog.operators.merge.codes import NEVER
from tidelog.operators.merge.elements import Element, adjust, insert
from tidelog.operators.merge.reference.driver import Input
from tidelog.operators.merge.reference.indexed import Indexed


class Counts:
    """A payload and a start: how many events end when, on each input and in the output."""

    __slots__ = ("ends", "out", "payload", "start")

    def __init__(self, payload: Hashable, start: int) -> None:
        self.payload = payload
        self.start = start
        self.ends: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.out: Counter[int] = Counter()

    def has_more(self, number: int) -> bool:
        """Whether an input has more events than the output."""
        return self.ends[number].total() > self.out.total()

    def size(self, number: int) -> int:
        """How many events an input has."""
        return self.ends[number].total()


class R4(Indexed[Counts]):
    """As R3, with multisets: policies tell one event at a time, where R3 has the only one there is."""

    def _made(self, element: Element) -> Counts:
        return Counts(element.payload, element.start)

    def _insert(self, element: Element, own: Input) -> None:
        node = self.nodes.get((element.start, element.payload))
        if node is None and (node := self._new(element, own)) is None:
            return
        node.ends[own.number][element.end] += 1
        self._tell(node, own, None, element.end, is_insert=True)

    def _adjust(self, element: Element, own: Input) -> None:
        node = self.nodes.get((element.start, element.payload))
        if node is None:
            self._adjust_unknown(element, own)
            return
        ends = node.ends[own.number]
        is_known = ends[element.old] > 0
        if is_known:
            _take_one(ends, element.old)
        else:
            own.counters.unknown_ends += 1
        end = element.end if element.end > element.start else None
        if end is not None:
            ends[end] += 1
        self._tell(node, own, element.old, end, is_insert=not is_known and end is not None)
        if not node.out and not any(node.ends.values()):
            del self.nodes[node.start, node.payload]

    def _tell(self, node: Counts, own: Input, old: int | None, end: int | None, *, is_insert: bool) -> None:
        """What a policy does at once about an event that had an end, if not None, and has another, if not None."""
        tells = self.policy.tells(self, node, own, is_insert=is_insert)
        if tells == "mirror":
            self._mirror(node, node.ends[own.number], old, end)
        elif tells == "first" and end is not None and node.start >= self.max_stable and node.has_more(own.number):
            self._add(node, end)

    def _mirror(self, node: Counts, ends: Counter[int], old: int | None, end: int | None) -> None:
        """Have the event as the input has it, by at most one element, unless the output's stable forbids it."""
        is_unfrozen = node.start >= self.max_stable
        surplus = [each for each in sorted((node.out - ends).elements()) if each >= self.max_stable]
        instead = old if old in surplus else surplus[0] if surplus else None
        more = node.out.total() - ends.total()
        if end is None:
            if is_unfrozen and more > 0 and instead is not None:
                self._move(node, instead, node.start)
        elif node.out[end] >= ends[end] or end < self.max_stable:
            return
        elif instead is not None and (instead == old or more >= 0):
            self._move(node, instead, end)
        elif is_unfrozen and more < 0:
            self._add(node, end)

    def _follow(self, node: Counts, own: Input, time: int) -> bool:
        wanted = self._to_follow(node, own)
        if node.start >= self.max_stable:
            self._make_count(node, wanted, time)
        if self.policy.exact == "always" or (self.policy.exact == "new" and node.start >= self.max_stable):
            self._make_equal(node, wanted)
        self._make_ends(node, wanted, time)
        if self.policy.holds_stables:
            self._tell_frozen(node, time)
        if node.start >= time:
            return not node.out and not any(node.ends.values())
        return not wanted or max(wanted) < time

    def _make_count(self, node: Counts, wanted: Counter[int], time: int) -> None:
        """As many events as are wanted; those that would be frozen first."""
        missing = wanted.total() - node.out.total()
        if missing > 0:
            for end in sorted((wanted - node.out).elements())[:missing]:
                self._add(node, NEVER if self.policy.is_open_ended and end >= time else end)
        elif missing < 0:
            for end in sorted((node.out - wanted).elements())[:-missing]:
                self._move(node, end, node.start)

    def _make_equal(self, node: Counts, wanted: Counter[int]) -> None:
        """The ends that are wanted, certain or not."""
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

    def _tell_frozen(self, node: Counts, time: int) -> None:
        """Tell those that end before a stable, and were not told by one before."""
        for end in sorted(node.out.elements()):
            if end >= self.max_stable and (end < time or time == NEVER):
                self._emit(insert(node.payload, node.start, end))

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
        if not self.policy.holds_stables:
            self._emit(insert(node.payload, node.start, end))
        node.out[end] += 1

    def _move(self, node: Counts, old: int, end: int) -> None:
        if not self.policy.holds_stables:
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

"""R3: all elements, in any order within stables, where payload and start are a key: one index for all inputs."""

from __future__ import annotations

from collections.abc import Hashable

from tidelog.operators.merge.codes import NEVER
from tidelog.operators.merge.elements import Element, adjust, insert
from tidelog.operators.merge.reference.driver import Input, Merge
from tidelog.operators.merge.reference.indexed import Indexed


class Node:
    """A payload and a start: where the event ends on each input, and in the output."""

    __slots__ = ("ends", "out", "payload", "start")

    def __init__(self, payload: Hashable, start: int) -> None:
        self.payload = payload
        self.start = start
        self.ends: dict[int, int] = {}
        """By the numbers of inputs."""
        self.out: int | None = None

    def has_more(self, number: int) -> bool:
        """Whether an input has the event, and the output does not."""
        return self.out is None and number in self.ends

    def size(self, number: int) -> int:
        """1 if an input has the event."""
        return int(number in self.ends)


class R3(Indexed[Node]):
    """Follows, at each stable, the input that gave it, as far as the stable makes things certain; no farther.

    A policy says what is told before that, and may hold the output's stable back.
    """

    def _made(self, element: Element) -> Node:
        return Node(element.payload, element.start)

    def _insert(self, element: Element, own: Input) -> None:
        node = self.nodes.get((element.start, element.payload))
        if node is None and (node := self._new(element, own)) is None:
            return
        own.counters.repeated_keys += node.ends.get(own.number, element.end) != element.end
        node.ends[own.number] = element.end
        self._tell(node, own, is_insert=True)

    def _adjust(self, element: Element, own: Input) -> None:
        node = self.nodes.get((element.start, element.payload))
        if node is None:
            self._adjust_unknown(element, own)
            return
        if element.end > element.start:
            node.ends[own.number] = element.end
        else:
            node.ends.pop(own.number, None)
        self._tell(node, own, is_insert=False)
        if not node.ends and node.out is None:
            del self.nodes[node.start, node.payload]

    def _tell(self, node: Node, own: Input, *, is_insert: bool) -> None:
        tells = self.policy.tells(self, node, own, is_insert=is_insert)
        if tells == "mirror" or (tells == "first" and node.out is None):
            self.set(node, node.ends.get(own.number))

    def _follow(self, node: Node, own: Input, time: int) -> bool:
        if node.start >= time:
            self.set(node, node.ends.get(own.number))
            return not node.ends and node.out is None
        end = self.end_to_follow(node, own)
        if end is None:
            if node.out is not None:
                self.set(node, None)
            return True
        return self._settle(node, end, time)

    def _settle(self, node: Node, end: int, time: int) -> bool:
        """Make the output right for a stable, given the end to follow; whether the event is done with by that."""
        policy, aim = self.policy, node.out
        if policy.holds_stables:
            if end >= time and time != NEVER:
                return False
            aim = end
        elif policy.exact == "always" or (policy.exact == "new" and node.start >= self.max_stable):
            aim = end
        elif node.out is None:
            aim = NEVER if policy.is_open_ended and end >= time else end
        elif end < time or node.out < time:
            aim = end
        assert self.set(node, aim)
        return end < time or policy.holds_stables

    def end_to_follow(self, node: Node, own: Input) -> int | None:
        """The end that the output must follow if an input moves it on; None if there is to be no event."""
        end = node.ends.get(own.number)
        if node.start >= self.max_stable:
            return end
        if end is None:  # half frozen by another input
            own.counters.fallbacks += 1
            others = [each for each in self.inputs.values() if each.number in node.ends]
            best = max(others, key=lambda each: (each.phase == "joined", each.stable, -each.number), default=None)
            end = node.out if best is None else node.ends[best.number]
        if end is not None and end < self.max_stable and not self.policy.holds_stables:
            own.counters.clamps += 1
            end = self.max_stable
        return end

    def set(self, node: Node, end: int | None) -> bool:
        """Have the output end an event there, or not have it; False if the output's stable forbids it."""
        out = node.out
        if end == out:
            return True
        is_unfrozen = node.start >= self.stable
        if out is None or end is None:
            if not is_unfrozen:
                return False
            if out is None:
                assert end is not None
                self._emit(insert(node.payload, node.start, end))
            else:
                self._emit(adjust(node.payload, node.start, out, node.start))
        else:
            if not is_unfrozen and (end < self.stable or out < self.stable):
                return False
            self._emit(adjust(node.payload, node.start, out, end))
        node.out = end
        return True


class SeparateR3(Merge):
    """The same with an index for each input and one for the output, lazily: to be compared with."""

    def __init__(self) -> None:
        super().__init__()
        self._own: dict[int, dict[tuple[int, Hashable], int]] = {}
        self._out: dict[tuple[int, Hashable], int] = {}

    @property
    def size(self) -> int:
        """The entries of all indexes."""
        return len(self._out) + sum(map(len, self._own.values()))

    def _insert(self, element: Element, own: Input) -> None:
        key = element.start, element.payload
        if key not in self._out:
            if element.start < self.max_stable:
                own.counters.late += 1
                return
            self._out[key] = element.end
            self._emit(insert(element.payload, element.start, element.end))
        self._own.setdefault(own.number, {})[key] = element.end

    def _adjust(self, element: Element, own: Input) -> None:
        key = element.start, element.payload
        if key not in self._out:
            if element.start >= self.max_stable and element.end > element.start:
                self._insert(insert(element.payload, element.start, element.end), own)
            return
        if element.end > element.start:
            self._own.setdefault(own.number, {})[key] = element.end
        else:
            self._own.get(own.number, {}).pop(key, None)

    def _advance(self, time: int, own: Input) -> None:
        for key in sorted(self._out):  # payloads are of one type, and have an order
            if key[0] >= time:
                break
            end, out = self._end_to_follow(key, own), self._out[key]
            if end != out and (end < time or out < time):
                self._emit(adjust(key[1], key[0], out, end))
                self._out[key] = end
            if end < time:
                del self._out[key]
                for each in self._own.values():
                    each.pop(key, None)
        if time == NEVER:
            self._out.clear()
            self._own.clear()
        self.max_stable = time
        self._emit_stable(time)

    def _end_to_follow(self, key: tuple[int, Hashable], own: Input) -> int:
        end = self._own.get(own.number, {}).get(key)
        if key[0] >= self.max_stable:
            return key[0] if end is None else end
        if end is None:
            own.counters.fallbacks += 1
            others = [each for each in self.inputs.values() if key in self._own.get(each.number, {})]
            best = max(others, key=lambda each: (each.phase == "joined", each.stable, -each.number), default=None)
            end = self._out[key] if best is None else self._own[best.number][key]
        if end < self.max_stable:
            own.counters.clamps += 1
            end = self.max_stable
        return end

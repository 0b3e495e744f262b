"""What R3 and R4 share: an index by start and payload of what all inputs and the output have, and who is followed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from tidelog.operators.merge.codes import NEVER
from tidelog.operators.merge.elements import Element, insert
from tidelog.operators.merge.reference.driver import Input, Merge

if TYPE_CHECKING:
    from tidelog.operators.merge.reference.policies import Policy


class _Entry(Protocol):
    @property
    def start(self) -> int: ...


_Node = TypeVar("_Node", bound=_Entry)


class Indexed(Merge, Generic[_Node]):
    """Looks, at each stable, at what starts before it, and at the rest only if the policy asks for that."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__()
        if policy is None:
            from tidelog.operators.merge.reference.policies import Lazy

            policy = Lazy()
        self.policy = policy
        self.nodes: dict[tuple[int, Hashable], _Node] = {}

    @property
    def size(self) -> int:
        """The payloads and starts of events that are not all fully frozen."""
        return len(self.nodes)

    @abstractmethod
    def _made(self, element: Element) -> _Node:
        """A node for a payload and a start that are new."""

    @abstractmethod
    def _follow(self, node: _Node, own: Input, time: int) -> bool:
        """Make the output right for a stable of the input to follow; whether the node is done with by that."""

    def _new(self, element: Element, own: Input) -> _Node | None:
        """A node for an insert that has none; None if it comes too late for one."""
        if element.start < self.max_stable:
            own.counters.late += 1
            return None
        node = self.nodes[element.start, element.payload] = self._made(element)
        return node

    def _adjust_unknown(self, element: Element, own: Input) -> None:
        """An adjust of an event that has no node inserts it, or comes too late."""
        if element.start >= self.max_stable and element.end > element.start:
            self._insert(insert(element.payload, element.start, element.end), own)

    def _advance(self, time: int, own: Input) -> None:
        time = self.policy.reached(time)
        if time <= self.max_stable:
            return
        self.policy.led(own)
        first_kept = time
        looked_at = self.nodes if self.policy.looks_ahead else [key for key in self.nodes if key[0] < time]
        for key in sorted(looked_at):  # payloads are of one type, and have an order
            node = self.nodes[key]
            if self._follow(node, own, time):
                del self.nodes[key]
            else:
                first_kept = min(first_kept, node.start)
        if time == NEVER:
            self.nodes.clear()
        self.max_stable = time
        self._emit_stable(first_kept if self.policy.holds_stables and time < NEVER else time)

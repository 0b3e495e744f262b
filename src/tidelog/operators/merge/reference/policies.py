"""What a merge tells before it is certain, and how far it lets the output's stable go.

No policy can make the output wrong: what has to be right at a stable is put right there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.operators.merge.codes import NEVER
from tidelog.operators.merge.reference.driver import Input

if TYPE_CHECKING:
    from tidelog.operators.merge.reference.keyed import R3, Node


class Policy:
    """First-only where nothing else is said."""

    holds_stables = False
    """Whether the output's stable stays before the first event that is not given."""

    looks_ahead = False
    """Whether a stable matters to events that start behind it."""

    def inserted(self, merge: R3, node: Node, own: Input) -> None:
        """An input has inserted an event, or has done so again."""
        if node.out is None:
            merge.set(node, node.ends[own.number])

    def adjusted(self, merge: R3, node: Node, own: Input) -> None:
        """An input has another end, or none."""

    def led(self, own: Input) -> None:
        """An input moves the output on."""

    def ahead(self, merge: R3, node: Node, own: Input) -> None:
        """Look at an event that starts behind the stable that an input has given."""

    def settle(self, merge: R3, node: Node, end: int, time: int) -> bool:
        """Make the output right for a stable, given the end to follow; whether the event is done with by that."""
        if node.out is None or (end != node.out and (end < time or node.out < time)):
            assert merge.set(node, end)
        return end < time

    def reached(self, time: int) -> int:
        """How far the output goes at a stable."""
        return time


class Lazy(Policy):
    """Tells the first insert of an event at once, and revises it only when it has to."""


class Aggressive(Policy):
    """Tells everything that any input tells: the earliest news, and the most revisions."""

    def inserted(self, merge: R3, node: Node, own: Input) -> None:
        """Tell it."""
        merge.set(node, node.ends[own.number])

    def adjusted(self, merge: R3, node: Node, own: Input) -> None:
        """Tell it."""
        merge.set(node, node.ends.get(own.number))


class FullyFrozen(Policy):
    """Tells an event once it is known for good: inserts alone; long events hold everything behind them back."""

    holds_stables = True

    def inserted(self, merge: R3, node: Node, own: Input) -> None:
        """Wait."""

    def settle(self, merge: R3, node: Node, end: int, time: int) -> bool:
        """Tell it if it ends before the stable."""
        if end < time or time == NEVER:
            assert merge.set(node, end)
            return True
        return False


class HalfFrozen(Policy):
    """Tells an event once it is certain that there is one: none is ever taken back."""

    def inserted(self, merge: R3, node: Node, own: Input) -> None:
        """Wait."""


class OpenEnded(HalfFrozen):
    """The same, without an end as long as it is not known for good."""

    def settle(self, merge: R3, node: Node, end: int, time: int) -> bool:
        """Tell certain ends alone."""
        if node.out is None:
            assert merge.set(node, end if end < time else NEVER)
        return super().settle(merge, node, end, time)


class FollowLeader(Policy):
    """Mirrors one input: the one that moved the output on last."""

    looks_ahead = True

    def __init__(self) -> None:
        self.leader: Input | None = None

    def _leads(self, own: Input) -> bool:
        if own.phase == "joined" and (self.leader is None or self.leader.phase == "left"):
            self.leader = own
        return self.leader is own

    def inserted(self, merge: R3, node: Node, own: Input) -> None:
        """Tell what the leader tells."""
        if self._leads(own):
            merge.set(node, node.ends[own.number])

    def adjusted(self, merge: R3, node: Node, own: Input) -> None:
        """Tell what the leader tells."""
        if self._leads(own):
            merge.set(node, node.ends.get(own.number))

    def led(self, own: Input) -> None:
        """There is a new leader."""
        self.leader = own

    def ahead(self, merge: R3, node: Node, own: Input) -> None:
        """Have what the new leader has."""
        merge.set(node, node.ends.get(own.number))

    def settle(self, merge: R3, node: Node, end: int, time: int) -> bool:
        """Have what the new leader has, certain or not."""
        assert merge.set(node, end)
        return end < time


class LeaderByStart(FollowLeader):
    """Mirrors the input with the newest start so far."""

    looks_ahead = False

    def __init__(self) -> None:
        super().__init__()
        self._newest: int | None = None

    def inserted(self, merge: R3, node: Node, own: Input) -> None:
        """Tell what the leader tells; who is ahead of it is the next one."""
        if own.phase == "joined" and (self._newest is None or node.start > self._newest):
            self._newest, self.leader = node.start, own
        super().inserted(merge, node, own)

    def led(self, own: Input) -> None:
        """Stables do not matter."""

    def settle(self, merge: R3, node: Node, end: int, time: int) -> bool:
        """Only what has to be."""
        return Policy.settle(self, merge, node, end, time)


@dataclass
class Fraction(Policy):
    """Tells an event once a fraction of the inputs has it, or it is certain."""

    share: float

    def inserted(self, merge: R3, node: Node, own: Input) -> None:
        """Count."""
        attached = [each.number for each in merge.inputs.values() if each.phase != "left"]
        having = sum(number in node.ends for number in attached)
        if node.out is None and having >= math.ceil(self.share * len(attached)):
            merge.set(node, node.ends[own.number])


@dataclass
class Lagging(Policy):
    """Lets the output's stable stay some time behind, which may save revisions."""

    delay: int

    def reached(self, time: int) -> int:
        """The stable less the delay."""
        return time if time == NEVER else time - self.delay


class Exact(Policy):
    """Has the ends of the input that moves the output on as soon as an event is half frozen."""

    def settle(self, merge: R3, node: Node, end: int, time: int) -> bool:
        """Make the end right, certain or not, when the event is first half frozen."""
        if node.start >= merge.max_stable:
            assert merge.set(node, end)
        return super().settle(merge, node, end, time)

"""What a merge tells before it is certain, and how far it lets the output's stable go.

No policy can make the output wrong: what has to be right at a stable is put right there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tidelog.operators.merge.codes import NEVER
from tidelog.operators.merge.reference.driver import Input

if TYPE_CHECKING:
    from tidelog.operators.merge.reference.counted import R4, Counts
    from tidelog.operators.merge.reference.keyed import R3, Node

Exactness: TypeAlias = Literal["never", "new", "always"]
Tells: TypeAlias = Literal["first", "mirror", "nothing"]
"""An event of which the output has none yet; whatever the input tells, as it has it; or nothing."""


class Policy:
    """First-only where nothing else is said."""

    holds_stables = False
    """Whether events are told when they are known for good, and the output's stable stays before the first other."""

    looks_ahead = False
    """Whether a stable matters to events that start behind it."""

    is_open_ended = False
    """Whether ends that are not certain are not told at stables."""

    exact: Exactness = "never"
    """For which events a stable puts uncertain ends right: those that are half frozen by it, or all."""

    def tells(self, merge: R3 | R4, node: Node | Counts, own: Input, *, is_insert: bool) -> Tells:
        """What to tell of what an input has inserted, or of another end, or none."""
        return "first" if is_insert else "nothing"

    def led(self, own: Input) -> None:
        """An input moves the output on."""

    def reached(self, time: int) -> int:
        """How far the output goes at a stable."""
        return time


class Lazy(Policy):
    """Tells the first insert of an event at once, and revises it only when it has to."""


class Aggressive(Policy):
    """Tells everything that any input tells: the earliest news, and the most revisions."""

    def tells(self, merge: R3 | R4, node: Node | Counts, own: Input, *, is_insert: bool) -> Tells:
        """Tell it."""
        return "mirror"


class HalfFrozen(Policy):
    """Tells an event once it is certain that there is one: none is ever taken back."""

    def tells(self, merge: R3 | R4, node: Node | Counts, own: Input, *, is_insert: bool) -> Tells:
        """Wait."""
        return "nothing"


class OpenEnded(HalfFrozen):
    """The same, without an end as long as it is not known for good."""

    is_open_ended = True


class FullyFrozen(HalfFrozen):
    """Tells an event once it is known for good: inserts alone; long events hold everything behind them back."""

    holds_stables = True


class FollowLeader(Policy):
    """Mirrors one input: the one that moved the output on last."""

    looks_ahead = True
    exact: Exactness = "always"

    def __init__(self) -> None:
        self.leader: Input | None = None

    def tells(self, merge: R3 | R4, node: Node | Counts, own: Input, *, is_insert: bool) -> Tells:
        """Tell what the leader tells."""
        if own.phase == "joined" and (self.leader is None or self.leader.phase == "left"):
            self.leader = own
        return "mirror" if self.leader is own else "nothing"

    def led(self, own: Input) -> None:
        """There is a new leader."""
        self.leader = own


class LeaderByStart(FollowLeader):
    """Mirrors the input with the newest start so far."""

    looks_ahead = False
    exact = "never"

    def __init__(self) -> None:
        super().__init__()
        self._newest: int | None = None

    def tells(self, merge: R3 | R4, node: Node | Counts, own: Input, *, is_insert: bool) -> Tells:
        """Tell what the leader tells; who is ahead of it is the next one."""
        if is_insert and own.phase == "joined" and (self._newest is None or node.start > self._newest):
            self._newest, self.leader = node.start, own
        return super().tells(merge, node, own, is_insert=is_insert)

    def led(self, own: Input) -> None:
        """Stables do not matter."""


class LeaderByUnfrozen(FollowLeader):
    """Mirrors the input with the most events that may still vanish."""

    looks_ahead = False
    exact = "never"

    def tells(self, merge: R3 | R4, node: Node | Counts, own: Input, *, is_insert: bool) -> Tells:
        """Tell what the leader tells; who has more than it is the next one."""
        if own.phase == "joined" and self.leader is not None:
            self.leader = own if _unfrozen(merge, own) > _unfrozen(merge, self.leader) else self.leader
        return super().tells(merge, node, own, is_insert=is_insert)

    def led(self, own: Input) -> None:
        """Stables do not matter."""


@dataclass
class Fraction(Policy):
    """Tells an event once a fraction of the inputs has it, or it is certain."""

    share: float

    def tells(self, merge: R3 | R4, node: Node | Counts, own: Input, *, is_insert: bool) -> Tells:
        """Count."""
        attached = [each.number for each in merge.inputs.values() if each.phase != "left"]
        having = sum(node.has_more(number) for number in attached)
        return "first" if is_insert and having >= math.ceil(self.share * len(attached)) else "nothing"


@dataclass
class Lagging(Policy):
    """Lets the output's stable stay some time behind, which may save revisions."""

    delay: int

    def reached(self, time: int) -> int:
        """The stable less the delay."""
        return time if time == NEVER else time - self.delay


class Exact(Policy):
    """Has the ends of the input that moves the output on as soon as an event is half frozen."""

    exact = "new"


def _unfrozen(merge: R3 | R4, own: Input) -> int:
    return sum(node.size(own.number) for node in merge.nodes.values() if node.start >= merge.max_stable)

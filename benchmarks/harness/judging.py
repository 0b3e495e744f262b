"""How ratios are formed and judged.

A ratio is ours over a peer's, both from the same repetition, so that what slowed both down cancels out; of the
ratios of all repetitions the median and the quartiles count. ``floor`` is what must hold, ``target`` what we
are after. The verdict is *below floor* only if even the better quartile misses the floor: one unlucky half of the
repetitions on a shared machine does not make a regression.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class Verdict(enum.Enum):
    """What came of a comparison."""

    TARGET = "target met"
    FLOOR = "floor met"
    BELOW = "BELOW FLOOR"
    NOT_JUDGED = "not judged"
    MISSING = "MISSING"
    """Ours, or all the peers, have no figure."""
    INFORMATION = "-"
    """There is no floor."""


@dataclass(frozen=True)
class Bound:
    """The floor and the target of a comparison, and the number of events from which it is judged."""

    floor: float
    target: float
    judged_at: int = 0


@dataclass(frozen=True)
class Comparison:
    """Ours against one of several peers: the best of them, by median. Without peers ours itself is judged."""

    label: str
    peers: tuple[str, ...] = ()
    bound: Bound | None = None


@dataclass(frozen=True)
class Judgement:
    """The result of a comparison."""

    comparison: Comparison
    verdict: Verdict
    peer: str | None = None
    """The peer that ours was compared with."""
    ratios: tuple[float, ...] = ()
    """One for each repetition."""

    @property
    def median(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile of the ratios."""
        return quartiles(self.ratios)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper quartile of values (linear between neighbours); of a single one, itself twice."""
    if len(values) == 1:
        return values[0], values[0]
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def judge(
    comparison: Comparison,
    ours: Sequence[float] | None,
    peers: Mapping[str, Sequence[float]],
    events: int,
    *,
    higher_is_better: bool,
) -> Judgement:
    """Compare the figures of ours with those of the comparison's peers, repetition by repetition.

    Peers without figures are passed over: whether all that are required took part is for the caller to say.
    """
    if not ours:
        return Judgement(comparison, Verdict.MISSING)
    if not comparison.peers:
        return Judgement(comparison, _verdict(comparison, ours, events, higher_is_better), None, tuple(ours))
    present = [name for name in comparison.peers if peers.get(name)]
    if not present:
        return Judgement(comparison, Verdict.MISSING)
    best = max if higher_is_better else min
    rival = best(present, key=lambda name: statistics.median(peers[name]))
    ratios = tuple(mine / theirs for mine, theirs in zip(ours, peers[rival], strict=True))
    return Judgement(comparison, _verdict(comparison, ratios, events, higher_is_better), rival, ratios)


def _verdict(comparison: Comparison, ratios: Sequence[float], events: int, higher_is_better: bool) -> Verdict:
    bound = comparison.bound
    if bound is None:
        return Verdict.INFORMATION
    if events < bound.judged_at:
        return Verdict.NOT_JUDGED
    lower, upper = quartiles(ratios)
    median = statistics.median(ratios)
    if higher_is_better:
        missed, reached = upper < bound.floor, median >= bound.target
    else:
        missed, reached = lower > bound.floor, median <= bound.target
    return Verdict.BELOW if missed else Verdict.TARGET if reached else Verdict.FLOOR

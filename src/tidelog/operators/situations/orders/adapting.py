"""Orders of evaluation that follow what is measured: running means, and a new plan once one has moved far enough.

A search keeps nothing from one change to the next but the buffers, so that another order costs nothing and loses
nothing. Which matches come out, and in which order, never depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.operators.situations.orders.planning import Plan, Statistics, plan
from tidelog.operators.situations.relations import ANY

Floats = npt.NDArray[np.float64]

_WEIGHT: Final = 0.01
"""What a sample counts in a running mean."""
_TRUSTED: Final = round(1 / _WEIGHT)
"""Samples before which a mean is not looked at."""
_MOVED: Final = 0.2
"""The change of a mean, as a share of what the plan was chosen by, that makes it worth another plan."""
_LEAST: Final = 1e-6


class Ordering:
    """The plan of a query, and the means that it is chosen by: of each buffer's size and of each constraint's share."""

    def __init__(self, relations: Sequence[Sequence[int]]) -> None:
        self._relations = relations
        self._expected = Statistics.expected(relations)
        count = len(relations)
        self._sizes, self._size_samples = np.zeros(count), np.zeros(count)
        self._shares, self._share_samples = np.zeros((count, count)), np.zeros((count, count))
        self._is_constraint = np.array(relations) != ANY
        np.fill_diagonal(self._is_constraint, False)
        self._is_fixed = False
        self.plan: Plan = plan(relations, self._expected)
        self.plans = 1
        """How many plans there have been."""

    @property
    def samples(self) -> int:
        """How many searches the means of sizes are over."""
        return int(self._size_samples.max())

    def fix(self, orders: Sequence[Sequence[int]]) -> None:
        """Take these orders, one from each situation on, whatever is measured."""
        self.plan = Plan(np.array(orders, np.int64), (0.0,) * len(orders), self._expected)
        self._is_fixed = True

    def learn(self, seen: Floats, held: Floats) -> None:
        """Take over what a search has counted; the next one may then have another plan.

        ``seen`` has for pairs of situations the sum of the shares of the second's buffer that fulfil their constraint,
        and how many there were; ``held`` the sums of sizes of buffers, and how many there were.
        """
        if self._is_fixed:
            return
        both = seen + seen.transpose(1, 0, 2)  # a constraint is one, from whichever side it was looked at
        _mix(self._shares, self._share_samples, both[..., 0], both[..., 1])
        _mix(self._sizes, self._size_samples, held[:, 0], held[:, 1])
        now, before = self._statistics(), self.plan.chosen_by
        has_moved = _moved(now.sizes, before.sizes).any()
        if has_moved or _moved(now.shares, before.shares)[self._is_constraint].any():
            self.plan = plan(self._relations, now)
            self.plans += 1

    def _statistics(self) -> Statistics:
        """What is measured where it has been often enough, and else what is expected."""
        return Statistics(
            np.where(self._size_samples >= _TRUSTED, self._sizes, self._expected.sizes),
            np.where(self._share_samples >= _TRUSTED, self._shares, self._expected.shares),
        )

    def snapshot(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "means": [self._sizes.tolist(), self._shares.tolist()],
            "samples": [self._size_samples.tolist(), self._share_samples.tolist()],
            "plan": [self.plan.chosen_by.sizes.tolist(), self.plan.chosen_by.shares.tolist()],
            "plans": self.plans,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Know the same, and go on with the same plan."""
        self._sizes, self._shares = map(np.array, state["means"])
        self._size_samples, self._share_samples = map(np.array, state["samples"])
        self.plan = plan(self._relations, Statistics(*map(np.array, state["plan"])))
        self.plans = state["plans"]


def _mix(means: Floats, samples: Floats, sums: Floats, counts: Floats) -> None:
    """Let so many samples count in running means, as if each were their mean; the first ones make the mean."""
    has = counts > 0
    fresh = sums[has] / counts[has]
    weights = np.where(samples[has] > 0, 1 - (1 - _WEIGHT) ** counts[has], 1.0)
    means[has] += weights * (fresh - means[has])
    samples[has] += counts[has]


def _moved(now: Floats, before: Floats) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.abs(now - before) > _MOVED * np.maximum(before, _LEAST)
    return found

"""In which order situations are joined to the one by which a match may become known: what costs the least.

The cost of an order is what is searched, and what comes out of it, at each step: the number of partial matches so far
times the binary searches in the next buffer, and the partial matches with it. How many there are depends on the set
of situations alone, so the best order is found by going through the sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.operators.situations import kernels
from tidelog.operators.situations.relations import ANY, SELECTIVITIES, each_of

_SIZE: Final = 16.0
"""What buffers are taken to hold before anything has been seen."""
_SEARCHES: Final = 2
"""Binary searches in a buffer for one partner."""


@dataclass
class Statistics:
    """What orders are chosen by: how much buffers hold, and for which share of them constraints hold."""

    sizes: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]

    @classmethod
    def expected(cls, relations: Sequence[Sequence[int]]) -> Statistics:
        """What is expected before anything has been seen."""
        shares = [[sum(SELECTIVITIES[each] for each in each_of(mask)) for mask in row] for row in relations]
        return cls(np.full(len(relations), _SIZE), np.array(shares, np.float64))


@dataclass(frozen=True)
class Plan:
    """An order for each situation by which a match may become known; that one is the first of it."""

    orders: npt.NDArray[np.int64]
    costs: tuple[float, ...]
    chosen_by: Statistics = field(repr=False)


def plan(relations: Sequence[Sequence[int]], statistics: Statistics) -> Plan:
    """The orders that cost the least; every situation is bound to others by constraints."""
    count = len(relations)
    related = (np.array(relations) != ANY).astype(np.uint8)
    np.fill_diagonal(related, 0)
    orders, costs = np.empty((count, count), np.int64), np.empty(count)
    shares = np.ascontiguousarray(statistics.shares)
    kernels.best_orders(related, statistics.sizes, shares, _SEARCHES, orders, costs)
    return Plan(orders, tuple(costs.tolist()), statistics)


def costs_of(order: Sequence[int], relations: Sequence[Sequence[int]], statistics: Statistics) -> list[float]:
    """What each step of an order costs."""
    results, costs = 1.0, []
    for step in range(1, len(order)):
        more, results = _step(order[:step], order[step], results, relations, statistics)
        costs.append(more)
    return costs


def _step(
    joined: Sequence[int], following: int, results: float, relations: Sequence[Sequence[int]], statistics: Statistics
) -> tuple[float, float]:
    """What it costs to join one more to some, and how many partial matches there are then."""
    size = float(statistics.sizes[following])
    searches, share = 0, 1.0
    for one in joined:
        if relations[one][following] != ANY:
            searches += _SEARCHES
            share *= float(statistics.shares[one, following])
    after = results * size * share
    return results * searches * log2(max(size, 2.0)) + after, after

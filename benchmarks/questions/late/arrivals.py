"""The order in which events arrive: a share of them late, as in the experiments of spec/event-store.md 12.

``uniform`` and ``exponential`` are A11: after every 10,000 events a bulk of those that are late, by no more than the
time since the last bulk. In ``bursts`` whole stretches of 2,000 events come late together, by up to a quarter of the
stream: a device that was off the network. The bulks for comparing strategies are B8's: nine tenths of the late events
in dense stretches, the rest anywhere.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SHAPES: Final = ("uniform", "exponential", "bursts")
_GROUP: Final = 10_000
_MEAN: Final = 600
"""Of exponential delays, in events: 40 ms of 15,000 events a second."""
_BURST: Final = 2_000
_DENSE: Final = 200
_SEED: Final = 7

Ints = npt.NDArray[np.int64]


def title(question: str, shape: str, share: float) -> str:
    """The name of a question about so many late events of a shape."""
    return f"{question} {share:.0%} late {shape}"


def arrange(table: pa.Table, shape: str, share: float) -> pa.Table:
    """Events in the order of their arrival."""
    return _taken(table, _bursts(len(table), share) if shape == "bursts" else _groups(len(table), shape, share))


def arrange_in_bulks(table: pa.Table, share: float) -> pa.Table:
    """Events of which a share is late by any time: nine tenths of them in dense stretches, the others anywhere."""
    dice, count = np.random.default_rng(_SEED), len(table)
    stretches = np.arange(count) // _DENSE
    is_late = (dice.random(int(stretches[-1]) + 1) < 0.9 * share)[stretches] | (dice.random(count) < 0.1 * share)
    arrival = np.arange(count, dtype=np.float64)
    arrival[is_late] = dice.uniform(arrival[is_late], count)
    return _taken(table, np.argsort(arrival, kind="stable"))


def _groups(count: int, shape: str, share: float) -> Ints:
    dice = np.random.default_rng(_SEED)
    ages = _GROUP - 1 - np.arange(count) % _GROUP
    chances = np.full(count, share) if shape == "uniform" else np.exp(-ages / _MEAN)
    if shape == "exponential":
        chances *= share * _GROUP / chances[:_GROUP].sum()
    is_late = dice.random(count) < np.minimum(chances, 1)
    # Within a group: those in time as they are, then the late ones in any order.
    places = np.where(is_late, 1 + dice.random(count), (_GROUP - ages) / (_GROUP + 1))
    return np.lexsort((places, np.arange(count) // _GROUP))


def _bursts(count: int, share: float) -> Ints:
    dice = np.random.default_rng(_SEED)
    bursts = np.arange(count) // _BURST
    number = int(bursts[-1]) + 1
    delays = np.where(dice.random(number) < share, dice.uniform(0, count / 4, number), 0)
    return np.argsort(np.arange(count) + delays[bursts], kind="stable")


def _taken(table: pa.Table, order: Ints) -> pa.Table:
    return table.take(pa.array(order)).combine_chunks()

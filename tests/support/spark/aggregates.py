"""A user-defined aggregate that only those know who import this module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidelog.aggregates import Incremental, register
from tidelog.aggregates.binding import unregister


@register
class Evens(Incremental):
    """How many values are even."""

    name = "evens"
    id = "support.spark.aggregates:evens"
    state = np.dtype("<i8")

    def init(self, columns: Sequence[Any], cuts: Any) -> Any:
        """Count them in runs of rows."""
        return np.add.reduceat((columns[0] % 2 == 0).astype(np.int64), cuts[:-1])

    def merge(self, states: Any, cuts: Any) -> Any:
        """Add counts up."""
        return np.add.reduceat(states, cuts[:-1])

    def eval(self, state: Any) -> Any:
        """The count."""
        return int(state)


def forget() -> None:
    """As if it had never been imported."""
    unregister(Evens)

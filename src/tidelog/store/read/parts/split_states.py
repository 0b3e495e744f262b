"""States of user-defined aggregates of whole splits, as the manifest has them: found and merged without opening files.

Splits are in the order of an index of parts. Groups of them have merged states, so a range over any number of splits
merges a fraction of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy as np
import numpy.typing as npt

from tidelog.index.entries import Words
from tidelog.index.states import States
from tidelog.store.read.parts.part import Part

Mask = npt.NDArray[np.bool_]

_GROUP: Final = 64
"""Splits that have one merged row of states."""


@final
class SplitStates:
    """What manifests know of some aggregates, for parts in a fixed order."""

    def __init__(self, parts: Sequence[Part], plan: States) -> None:
        self._plan = plan
        rows = plan.unknown(len(parts))
        for place, part in enumerate(parts):
            found = part.known_states(plan)
            if found is not None:
                rows[place] = found[0]
        self._rows = rows
        self.known: Mask = ~plan.is_unknown(rows)
        """Of which parts the states of all rows are known."""
        cuts = np.append(np.arange(0, len(parts), _GROUP, dtype=np.int64), len(parts))
        self._groups = plan.merge(rows, cuts) if len(parts) > _GROUP else plan.unknown(0)

    def table(self, whole: Mask) -> Words:
        """Rows of states that stand for all parts chosen by a mask, which are among those known."""
        if not len(self._groups):
            return self._rows[whole]
        padded = np.zeros(len(self._groups) * _GROUP, np.bool_)
        padded[: len(whole)] = whole
        padded[len(whole) :] = True  # what the last group lacks
        is_full = padded.reshape(-1, _GROUP).all(axis=1)
        single = whole & ~np.repeat(is_full, _GROUP)[: len(whole)]
        return np.concatenate([self._groups[is_full], self._rows[single]])

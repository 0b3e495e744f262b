"""Updates of blocks: new images under old ids, which take effect together with the next flush."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.storage.codec import Ints
from tidelog.storage.format import block
from tidelog.storage.read.reader import ContainerReader
from tidelog.storage.rows.ordered import AnyRows


class LeafUpdate(NamedTuple):
    """Leaves that are to be replaced together: few enough for their rows to be one batch in memory."""

    ids: Ints
    """Rising."""
    change: Callable[[pa.RecordBatch, Ints], tuple[AnyRows, Ints]]
    """Makes the rows of all new leaves, and where each begins, with the end behind, from the same of the old ones.
    Called on another thread; must not use the container."""


Leaves = tuple[Ints, npt.NDArray[np.void]]
"""Rows of leaves and their summaries, by leaf and column."""


@dataclass
class PendingUpdates:
    """Updates since the last flush: they take effect together, with the commit of the next one."""

    addresses: dict[int, int] = field(default_factory=dict)
    """Where the newest image of each block stands."""
    rows: int = 0
    """How many more rows the new images have than those that they replace."""
    dead_bytes: int = 0

    def add(self, others: PendingUpdates) -> None:
        """Updates that were made later."""
        self.addresses.update(others.addresses)
        self.rows += others.rows
        self.dead_bytes += others.dead_bytes


def changed_leaves(reader: ContainerReader, update: LeafUpdate) -> tuple[block.Frames, int, int]:
    """The frames of new images of leaves, and how many rows, and stored bytes, the old ones have."""
    rows, cuts = reader.read_leaves(update.ids)
    new, new_cuts = update.change(rows, cuts)
    frames = block.encode_leaves(new, new_cuts, int(update.ids[0]), ids=update.ids)
    return frames, rows.num_rows, reader.stored_bytes(update.ids)

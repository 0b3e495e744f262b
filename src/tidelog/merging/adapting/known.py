"""What is known of the events of a stream that speaks in another model: nodes and entries, as kernels have them."""

from __future__ import annotations

from typing import Final

import numpy as np

from tidelog.operators.merge import codes
from tidelog.operators.merge.batches import kernels
from tidelog.operators.merge.codes import ENTRY_TOP, FREE, TOP

_FEWEST: Final = 64


class Known:
    """Arrays that grow; ``columns`` is how many values a node has besides its own four."""

    def __init__(self, columns: int = 0) -> None:
        self.merge = np.zeros(codes.MERGE_FIELDS, np.int64)
        self.nodes = np.full((4, _FEWEST), -1, np.int64)
        self.ends = np.zeros((_FEWEST, columns), np.int64)
        self.slots = np.zeros(2 * _FEWEST, np.int64)
        self.free = np.zeros(_FEWEST, np.int64)
        self.entries = np.zeros((3, _FEWEST), np.int64)
        self.unused = np.zeros(_FEWEST, np.int64)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return int(self.merge[TOP] - self.merge[FREE])

    def make_room(self, rows: int) -> None:
        """Room for as many more nodes and entries."""
        need = self.size + rows
        if need > self.nodes.shape[1]:
            self._resize(max(2 * self.nodes.shape[1], need))
        need = int(self.merge[ENTRY_TOP]) + rows
        if need > self.entries.shape[1]:
            capacity = max(2 * self.entries.shape[1], need)
            entries, unused = np.zeros((3, capacity), np.int64), np.zeros(capacity, np.int64)
            entries[:, : self.entries.shape[1]], unused[: len(self.unused)] = self.entries, self.unused
            self.entries, self.unused = entries, unused

    def _resize(self, capacity: int) -> None:
        used = np.flatnonzero(self.nodes[1, : int(self.merge[TOP])] >= 0)
        nodes, ends = np.full((4, capacity), -1, np.int64), np.zeros((capacity, self.ends.shape[1]), np.int64)
        nodes[:, : len(used)], ends[: len(used)] = self.nodes[:, used], self.ends[used]
        self.nodes, self.ends, self.free = nodes, ends, np.zeros(capacity, np.int64)
        self.slots = np.zeros(1 << (2 * capacity - 1).bit_length(), np.int64)
        self.merge[TOP], self.merge[FREE] = len(used), 0
        kernels.index_nodes(self.nodes, self.slots, len(used))

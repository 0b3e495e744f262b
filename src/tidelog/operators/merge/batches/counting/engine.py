"""R4 of whole batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelog.operators.merge.batches.counting import kernels
from tidelog.operators.merge.batches.engine import BatchMerge, Policy, Rows
from tidelog.operators.merge.codes import ENTRY_FREE, ENTRY_TOP, TOTAL
from tidelog.operators.state import State


class Counted(BatchMerge):
    """R4."""

    _nothing = 0

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__()
        self._policy = policy or Policy()
        self._entries = np.zeros((4, 0), np.int64)
        self._unused = np.zeros(0, np.int64)

    @property
    def memory(self) -> int:
        """With the counted ends."""
        return super().memory + self._entries.nbytes + self._unused.nbytes

    def _check(self, rows: Rows) -> None:
        """All kinds of elements are taken."""

    def _most_changes(self) -> int:
        return int(self._merge[TOTAL])

    def _make_room(self, rows: int) -> None:
        super()._make_room(rows)
        need = int(self._merge[ENTRY_TOP]) + 2 * int(self._merge[TOTAL]) + 4 * rows
        if need > self._entries.shape[1]:
            capacity = max(2 * self._entries.shape[1], need + need // 2)
            entries, unused = np.zeros((4, capacity), np.int64), np.zeros(capacity, np.int64)
            entries[:, : self._entries.shape[1]] = self._entries
            unused[: len(self._unused)] = self._unused
            self._entries, self._unused = entries, unused

    def _call(self, rows: Rows, row: int, column: int, stops: int, out: Rows, places: Rows) -> int:
        policy = self._policy
        why: int = kernels.merge_counted(
            rows, row, column, policy.code, policy.share, policy.delay, stops, self._nodes, self._ends, self._slots,
            self._free, self._todo, self._entries, self._unused, self._inputs, self._merge, out, places,
        )  # fmt: skip
        return why

    def snapshot(self) -> State:
        """With the counted ends."""
        state = super().snapshot()
        top, free = int(self._merge[ENTRY_TOP]), int(self._merge[ENTRY_FREE])
        whole = np.concatenate([self._entries[:, :top].ravel(), self._unused[:free]])
        return State(state.core, {**state.chunks, f"entries {self._snapshots}": pa.py_buffer(whole.tobytes())})

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        super().restore(state)
        whole = np.frombuffer(state.chunks[f"entries {self._snapshots}"], np.int64)
        top, free = int(self._merge[ENTRY_TOP]), int(self._merge[ENTRY_FREE])
        self._entries = whole[: 4 * top].reshape(4, top).copy()
        self._unused = np.zeros(top, np.int64)
        self._unused[:free] = whole[4 * top :]
        self._make_room(0)

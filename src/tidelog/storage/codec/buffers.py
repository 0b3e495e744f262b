"""Arrow buffers whose memory is handed out again when the last array using them is gone."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

_SMALLEST = 1 << 16
"""Below this the ordinary allocator is as good."""

_KEPT_BYTES = 256 << 20
"""Idle memory kept for later use, over all sizes; more is given back to the system."""


class _Recycler:
    """Free memory by size class (powers of two)."""

    def __init__(self) -> None:
        # Re-entrant: a lease may die, by garbage collection, while its thread holds the lock.
        self._lock = threading.RLock()
        self._free: dict[int, list[np.ndarray[Any, Any]]] = defaultdict(list)
        self._kept = 0

    def take(self, size: int) -> np.ndarray[Any, Any]:
        with self._lock:
            shelf = self._free[size]
            if shelf:
                self._kept -= size
                return shelf.pop()
        return np.empty(size, np.uint8)

    def give(self, memory: np.ndarray[Any, Any]) -> None:
        size = len(memory)
        with self._lock:
            if self._kept + size <= _KEPT_BYTES:
                self._kept += size
                self._free[size].append(memory)


_recycler = _Recycler()


class _Lease:
    """Keeps memory in use for as long as some Arrow buffer refers to this object."""

    __slots__ = ("memory",)

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        self.memory = memory

    def __del__(self) -> None:
        _recycler.give(self.memory)


def allocate(size: int) -> tuple[np.ndarray[Any, Any], pa.Buffer]:
    """Uninitialised memory of ``size`` bytes as a writable array and as the Arrow buffer that owns it.

    The array must not be used once the buffer is gone.
    """
    if size < _SMALLEST:
        memory = np.empty(max(size, 1), np.uint8)
        return memory[:size], pa.py_buffer(memory)[:size] if size else pa.py_buffer(b"")
    memory = _recycler.take(1 << (size - 1).bit_length())
    return memory[:size], pa.foreign_buffer(memory.ctypes.data, size, _Lease(memory))

"""Arrow buffers whose memory is handed out again when the last array using them is gone."""

from __future__ import annotations

import os
import threading

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Memory = npt.NDArray[np.uint8]

_SMALLEST = 1 << 16
"""Below this the ordinary allocator is as good."""

_KEPT_BYTES = 256 << 20
"""Idle memory kept for later use, over all sizes; more is given back to the system."""


class Recycler:
    """Idle memory by its size; when there is too much, sizes that were not used for the longest time go first.

    Otherwise what one kind of work has left behind would keep another kind from ever using memory again, and fresh
    memory takes as long as decoding into it.
    """

    def __init__(self, most_bytes: int) -> None:
        # Re-entrant: a lease may die, by garbage collection, while its thread holds the lock.
        self._lock = threading.RLock()
        self._most_bytes = most_bytes
        self._idle: dict[int, list[Memory]] = {}
        self._used: dict[int, int] = {}
        """When each size was used the last time, as the number of the call."""
        self._calls = 0
        self.kept_bytes = 0

    def take(self, size: int) -> Memory:
        """Memory of at least a size, and less than twice as much; not initialised."""
        with self._lock:
            sizes = [each for each, shelf in list(self._idle.items()) if shelf and size <= each < 2 * size]
            wanted = min(sizes, default=0) or _rounded(size)
            self._calls += 1
            self._used[wanted] = self._calls
            shelf = self._idle.setdefault(wanted, [])
            if shelf:
                self.kept_bytes -= wanted
                return shelf.pop()
        return np.empty(wanted, np.uint8)

    def give(self, memory: Memory) -> None:
        """Take back memory that nobody uses any more."""
        size = len(memory)
        if size > self._most_bytes:
            return
        dropped = []  # freed without the lock
        with self._lock:
            if self.kept_bytes + size > self._most_bytes:
                for other in sorted(self._idle, key=lambda each: self._used.get(each, 0)):
                    shelf = self._idle[other]
                    while shelf and self.kept_bytes + size > self._most_bytes:
                        dropped.append(shelf.pop())
                        self.kept_bytes -= other
            self.kept_bytes += size
            self._idle.setdefault(size, []).append(memory)


def _rounded(size: int) -> int:
    """A size that is not less, of which there are four from one power of two to the next."""
    step = 1 << max(0, (size - 1).bit_length() - 3)
    return -(-size // step) * step


_recycler = Recycler(_KEPT_BYTES)


def _begin_anew() -> None:
    """In a forked child: another thread may have been in the middle of something."""
    global _recycler
    _recycler = Recycler(_KEPT_BYTES)


os.register_at_fork(after_in_child=_begin_anew)


class _Lease:
    """Keeps memory in use for as long as some Arrow buffer refers to this object."""

    __slots__ = ("memory",)

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def __del__(self) -> None:
        _recycler.give(self.memory)


def allocate(size: int) -> tuple[Memory, pa.Buffer]:
    """Uninitialised memory of ``size`` bytes as a writable array and as the Arrow buffer that owns it.

    The array must not be used once the buffer is gone.
    """
    if size < _SMALLEST:
        memory = np.empty(max(size, 1), np.uint8)
        return memory[:size], pa.py_buffer(memory)[:size] if size else pa.py_buffer(b"")
    memory = _recycler.take(size)
    return memory[:size], pa.foreign_buffer(memory.ctypes.data, size, _Lease(memory))

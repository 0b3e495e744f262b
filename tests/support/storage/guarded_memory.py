"""Memory that ends where the process may not read on."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np


class GuardedMemory:
    """Pages with a forbidden one behind them: reading a single byte past the end kills the process.

    A kernel that reads too far gives right results nearly always, so only this shows it.
    """

    def __init__(self, capacity: int) -> None:
        pages = -(-capacity // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, pages + mmap.PAGESIZE)
        whole = np.frombuffer(self._map, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        no_access = 0
        if libc.mprotect(ctypes.c_void_p(whole.ctypes.data + pages), ctypes.c_size_t(mmap.PAGESIZE), no_access):
            raise OSError(ctypes.get_errno(), "mprotect failed")
        self._bytes = whole[:pages]

    def at_end(self, content: bytes) -> np.ndarray:
        """``content`` as an array that ends with the last byte that may be read; the one before is overwritten."""
        place = self._bytes[len(self._bytes) - len(content) :]
        place[:] = np.frombuffer(content, np.uint8)
        return place

"""Working memory of the text codec, kept for the life of its thread: fresh pages are slow."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.storage.codec.arena import Arena

_LARGEST_KEPT = 64 << 20
"""Bytes of one array above which it is made anew each time: a single huge value should not occupy memory for good."""


class Scratch(threading.local):
    """Arrays by name that grow and never shrink, and an arena for streams on their way into a piece."""

    def __init__(self) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self.streams = Arena()

    def array(self, name: str, size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of ``size`` items with arbitrary content, until this thread asks for ``name`` again."""
        known = self._arrays.get(name)
        if known is None or len(known) < size:
            known = np.empty(max(size, 1 << 10) * 5 // 4, dtype)
            if known.nbytes <= _LARGEST_KEPT:
                self._arrays[name] = known
        return known[:size]


scratch = Scratch()
